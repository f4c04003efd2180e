//! The gate of a connection: every request passes it before the routes, and every response after
//! them.
//!
//! It names the request, gives its body a deadline, and refuses what no route may see. The layers
//! below find the name in the header `X-Request-Id` of the request.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::http::header::{CONNECTION, EXPECT};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use quire_access::{ConnectionCounters, ConnectionPlace, FirstRequest, MadeRequestId, is_request_id};

use crate::Settings;
use crate::arriving::ArrivingBody;
use crate::error::Problem;

/// The header of a request's id.
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The routes that answer on a connection beyond the limits.
const HEALTH_ROUTES: [&str; 4] = ["/healthz", "/livez", "/metrics", "/readyz"];

/// When to retry after a refused connection, in milliseconds.
const RETRY_MS: u64 = 1_000;

/// The gate of a connection; see the module.
#[derive(Debug)]
pub(crate) struct ConnectionGate {
    routes: TowerToHyperService<Router>,
    settings: Arc<Settings>,
    counters: Arc<ConnectionCounters>,
    first: FirstRequest,
    is_reserved: bool,
}

impl ConnectionGate {
    pub(crate) fn new(routes: Router, settings: Arc<Settings>, place: &ConnectionPlace, first: FirstRequest) -> Self {
        ConnectionGate {
            routes: TowerToHyperService::new(routes),
            settings,
            counters: Arc::clone(place.counters()),
            first,
            is_reserved: place.is_reserved(),
        }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn counters(&self) -> &ConnectionCounters {
        &self.counters
    }

    /// Answers a request.
    pub(crate) async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Response, Infallible> {
        self.first.arrived();
        let id = request_id(request.headers());
        // A client that waits for a sign before it sends the body may also send its next request.
        let drains = !request.headers().contains_key(EXPECT);
        let mut request = request.map(|body| ArrivingBody::new(body, &self, drains));
        let mut response = match self.check(&request) {
            Ok(()) => {
                request.headers_mut().insert(X_REQUEST_ID, id.clone());
                self.routes.call(request).await?
            }
            Err(problem) => problem.into_response(),
        };
        if self.is_reserved {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response.headers_mut().insert(X_REQUEST_ID, id);
        Ok(response)
    }

    /// Refuses a request that no route may see.
    fn check(&self, request: &Request<ArrivingBody>) -> Result<(), Problem> {
        if self.is_reserved && !HEALTH_ROUTES.contains(&request.uri().path()) {
            return Err(Problem::too_many_connections().fact("retry_after_ms", RETRY_MS));
        }
        Ok(())
    }
}

/// The id that the client gives, if it is well-formed, or a new one.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    match headers.get(X_REQUEST_ID) {
        Some(given) if is_request_id(given.as_bytes()) => given.clone(),
        _ => HeaderValue::from_str(MadeRequestId::make().as_str()).expect("hexadecimal digits are valid"),
    }
}
