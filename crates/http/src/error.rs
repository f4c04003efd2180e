//! What can't be done, as a client is told: a status, a stable code, a message for people, and the facts that were met.
//!
//! This file has the one table from the kinds of errors to codes and statuses.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use quire::ErrorKind;
use serde::Serialize;
use serde_json::{Map, Value};

/// A request that could not be answered as it was asked.
#[derive(Debug, Serialize)]
pub(crate) struct Problem {
    #[serde(skip)]
    status: StatusCode,
    code: &'static str,
    message: String,
    /// What a program may want to know beyond the code.
    #[serde(flatten)]
    facts: Map<String, Value>,
}

impl Problem {
    fn new((status, code): (StatusCode, &'static str), message: impl Into<String>) -> Self {
        Problem { status, code, message: message.into(), facts: Map::new() }
    }

    pub(crate) fn unknown_route() -> Self {
        Problem::new((StatusCode::NOT_FOUND, "unknown_route"), "there is nothing under this path")
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "this path does not take this method; the Allow header has those it takes";
        Problem::new((StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"), message)
    }
}

impl From<quire::Error> for Problem {
    fn from(error: quire::Error) -> Self {
        Problem::new(of_error(error.kind()), error.to_string())
    }
}

/// The status and code of an error of the database.
fn of_error(kind: ErrorKind) -> (StatusCode, &'static str) {
    match kind {
        ErrorKind::Invalid => (StatusCode::BAD_REQUEST, "invalid"),
        ErrorKind::NotFound => (StatusCode::NOT_FOUND, "not_found"),
        ErrorKind::Refused => (StatusCode::CONFLICT, "refused"),
        ErrorKind::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
        ErrorKind::NoSpace => (StatusCode::INSUFFICIENT_STORAGE, "no_space"),
        ErrorKind::Failed => (StatusCode::SERVICE_UNAVAILABLE, "failed"),
        ErrorKind::Damaged => (StatusCode::INTERNAL_SERVER_ERROR, "damaged"),
        // Of opening a database; a server has an open one. And whatever kinds come later.
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "io"),
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.status, Json(self)).into_response()
    }
}
