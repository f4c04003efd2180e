//! The body of a request: unencoded, read whole within limits of size and time, and parsed as JSON.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use serde::Deserialize;

use crate::arriving::LateBody;
use crate::error::Problem;
use crate::json;

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

/// The problem of a body that was not read. `too_large` makes the problem of a body that exceeds
/// its limit.
pub(crate) fn unread(error: &BytesRejection, too_large: impl FnOnce() -> Problem) -> Problem {
    if error.status() == StatusCode::PAYLOAD_TOO_LARGE {
        too_large()
    } else if LateBody::caused(error) {
        Problem::timeout("the body did not arrive in time: send it again")
    } else {
        Problem::invalid(error.body_text())
    }
}

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        Bytes::from_request(request, state).await.map(Body).map_err(|error| {
            unread(&error, || Problem::too_large("the body exceeds the limit of the server: split the commit"))
        })
    }
}
