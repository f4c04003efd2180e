//! The id of a request: given by its client in `X-Request-Id`, or made here. The response has it in
//! the same header, and a problem also in its body.

use std::future::Future;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use quire_access::{MadeRequestId, is_request_id};

/// The header of a request's id.
pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

tokio::task_local! {
    /// The id of the request that this task answers.
    static CURRENT: HeaderValue;
}

/// The id that the client gives, if it is well-formed, or a new one.
pub(crate) fn of(headers: &HeaderMap) -> HeaderValue {
    match headers.get(X_REQUEST_ID) {
        Some(given) if is_request_id(given.as_bytes()) => given.clone(),
        _ => HeaderValue::from_str(MadeRequestId::make().as_str()).expect("hexadecimal digits are valid"),
    }
}

/// Answers a request with this id.
pub(crate) async fn within<T>(id: HeaderValue, answer: impl Future<Output = T>) -> T {
    CURRENT.scope(id, answer).await
}

/// The id of the request that this task answers; `None` outside of a request.
pub(crate) fn current() -> Option<String> {
    CURRENT.try_with(|id| id.to_str().map(str::to_owned).ok()).ok().flatten()
}
