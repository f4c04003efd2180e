//! The header `Quire-Read`: reads that this node of a cluster answers, whichever node leads.
//!
//! The response has the header `Quire-Position`: it shows at least the commits up to there.
//! [`LocalRead`] has the values of the header.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use quire_access::{LocalRead, LocalReadError};
use quire_api::Code;

use crate::app::App;
use crate::error::Problem;
use crate::route_kinds::{is_of_each_node, is_read};

pub(crate) const QUIRE_READ: HeaderName = HeaderName::from_static("quire-read");
const QUIRE_POSITION: HeaderName = HeaderName::from_static("quire-position");

/// The local read that a request asks for; `None` for one that the leader answers.
///
/// # Errors
/// When the header is invalid, or the route takes none.
pub(crate) fn of_request(method: &Method, route: &str, headers: &HeaderMap) -> Result<Option<LocalRead>, Problem> {
    if !headers.contains_key(&QUIRE_READ) || is_of_each_node(method, route) {
        return Ok(None);
    }
    if !takes_header(method, route) {
        return Err(Problem::invalid("this request takes no Quire-Read: it is for reads that do not continue"));
    }
    let read = LocalRead::of_fields(headers.get_all(&QUIRE_READ).iter().map(HeaderValue::as_bytes));
    read.map(Some).map_err(|problem| Problem::invalid(format!("Quire-Read {problem}")))
}

/// Answers the request by its route.
pub(crate) async fn answer(read: LocalRead, app: &App, request: Request, next: Next) -> Response {
    match read.answer(app.owner(), next.run(request)).await {
        Ok((mut response, position)) => {
            response.headers_mut().insert(QUIRE_POSITION, HeaderValue::from(position.get()));
            response
        }
        Err(error) => Problem::from(error).into_response(),
    }
}

/// Whether a request reads once: a stream ends when another node leads.
pub(crate) fn takes_header(method: &Method, route: &str) -> bool {
    is_read(method, route) && !route.ends_with("/subscribe") && route != "/v1/backup"
}

impl From<LocalReadError> for Problem {
    fn from(error: LocalReadError) -> Self {
        match error {
            LocalReadError::Ahead { at, .. } => Problem::new(Code::AheadOfLog, error.to_string()).fact("at", at.get()),
            LocalReadError::Failed(error) => error.into(),
        }
    }
}
