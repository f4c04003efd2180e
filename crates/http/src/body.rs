//! The body of a request: unencoded, read whole within limits of size and time, and parsed as JSON.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::http::header::CONTENT_ENCODING;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use crate::error::Problem;
use crate::json;

/// How long a body may take to arrive, in seconds.
const BODY_S_MAX: u64 = 60;

/// A whole body.
#[derive(Debug)]
pub(crate) struct Body(Bytes);

impl Body {
    /// The size of the body in bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Parses the JSON.
    ///
    /// # Errors
    /// With line, column and field, when it is not JSON or has the wrong fields.
    pub(crate) fn parse<'r, T: Deserialize<'r>>(&'r self) -> Result<T, Problem> {
        // The derived implementation would also accept an array of the fields in their order, which
        // is always a mistake.
        if self.0.trim_ascii_start().starts_with(b"[") {
            return Err(Problem::invalid("the body must be an object, got an array"));
        }
        json::read(&self.0).map_err(|misread| Problem::json(&misread))
    }
}

/// Refuses an encoded body: its bytes would be stored as if they were not encoded.
pub(crate) async fn only_plain(request: Request, next: Next) -> Response {
    let encodings = request.headers().get_all(CONTENT_ENCODING).iter();
    let mut encodings = encodings.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    let is_plain = |encoding: &[u8]| matches!(encoding.trim_ascii(), [] | b"identity");
    match encodings.find(|encoding| !is_plain(&encoding.to_ascii_lowercase())) {
        Some(encoding) => Problem::encoded(&String::from_utf8_lossy(encoding.trim_ascii())).into_response(),
        None => next.run(request).await,
    }
}

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        match tokio::time::timeout(Duration::from_secs(BODY_S_MAX), Bytes::from_request(request, state)).await {
            Ok(Ok(bytes)) => Ok(Body(bytes)),
            Ok(Err(error)) if error.status() == StatusCode::PAYLOAD_TOO_LARGE => {
                Err(Problem::too_large("the body exceeds the limit of the server: split the commit"))
            }
            Ok(Err(error)) => Err(Problem::invalid(error.body_text())),
            Err(_) => Err(Problem::timeout(format!("the body did not arrive within {BODY_S_MAX} s: send it again"))),
        }
    }
}
