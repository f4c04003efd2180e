//! Counts requests by route and status, times them, traces them, and logs each one at debug.
//!
//! Unknown paths are counted together, so a client cannot add names.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::CONTENT_LENGTH;
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use quire_access::{RequestSpan, TRACEPARENT};
use tokio::time::Instant;
use tracing::{Level, debug, enabled};

use crate::app::App;
use crate::presentation::Presentation;
use crate::request_id::X_REQUEST_ID;
use crate::response::compressed;

/// The target of the access log.
const TARGET: &str = "quire::http";

/// Counts, times, traces and logs a request. The time ends when the response begins.
pub(crate) async fn count(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let route = matched.as_ref().map_or("unknown", MatchedPath::as_str);
    let logged = enabled!(target: TARGET, Level::DEBUG).then(|| LoggedRequest::of(&request));
    let traceparent = request.headers().get(TRACEPARENT).map(HeaderValue::as_bytes);
    let span = RequestSpan::http(request.method().as_str(), route, traceparent);
    let traffic = &app.traffic.http;
    // If the client disconnects, the handler is dropped and the request ends here.
    let _active = traffic.begin();
    let response = match Presentation::of(request.uri(), request.headers()) {
        Ok(presentation) => presentation.within(async { compressed(next.run(request).await).await }).await,
        Err(problem) => problem.into_response(),
    };
    let (status, took) = (response.status().as_u16(), begun.elapsed());
    traffic.end(route, status, took);
    span.end_http(status);
    if let Some(LoggedRequest { id, method, received }) = logged {
        let (sent, us) = (length(response.headers()), u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        debug!(target: TARGET, request = id, method, route, status, us, received, sent, "request");
    }
    response
}

/// What the log shows of a request after its handler took it.
struct LoggedRequest {
    id: String,
    method: String,
    received: Option<u64>,
}

impl LoggedRequest {
    fn of(request: &Request) -> Self {
        let headers = request.headers();
        let id = headers.get(X_REQUEST_ID).map(|id| String::from_utf8_lossy(id.as_bytes()).into_owned());
        LoggedRequest {
            id: id.unwrap_or_default(),
            method: request.method().as_str().to_owned(),
            received: length(headers),
        }
    }
}

fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH).map(HeaderValue::to_str)?.ok()?.parse().ok()
}
