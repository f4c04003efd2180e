//! Counts calls by method and status, times them, traces them, and logs each one at debug. Calls of
//! pages of other sites end here; see `browsers`.
//!
//! A call that no service knows has the status `UNIMPLEMENTED`. Such calls, those of unknown
//! clients, and those that end here, are counted together, so a client cannot add names.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use quire_access::{RequestSpan, TRACEPARENT, Traffic};
use tokio::time::Instant;
use tonic::Code;
use tonic::codegen::{Service, http};
use tower_layer::Layer;
use tracing::debug;

use crate::browsers::{self, BrowserGate, GateResult};

/// The target of the access log.
const TARGET: &str = "quire::grpc";

/// The header of a response whose call failed before its first message.
const STATUS: &str = "grpc-status";

/// Adds [`CountedCalls`] to the services.
#[derive(Debug, Clone)]
pub(crate) struct CountCalls {
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) gate: Arc<BrowserGate>,
}

/// The services, with counts of their calls.
#[derive(Debug, Clone)]
pub(crate) struct CountedCalls<S> {
    services: S,
    traffic: Arc<Traffic>,
    gate: Arc<BrowserGate>,
}

impl<S> Layer<S> for CountCalls {
    type Service = CountedCalls<S>;

    fn layer(&self, services: S) -> CountedCalls<S> {
        CountedCalls { services, traffic: Arc::clone(&self.traffic), gate: Arc::clone(&self.gate) }
    }
}

impl<S, B, R> Service<http::Request<B>> for CountedCalls<S>
where
    S: Service<http::Request<B>, Response = http::Response<R>>,
    S::Future: Send + 'static,
    R: Default,
{
    type Response = http::Response<R>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.services.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let begun = Instant::now();
        let path = request.uri().path().to_owned();
        let span = RequestSpan::grpc(request.headers().get(TRACEPARENT).map(|parent| parent.as_bytes()));
        let traffic = Arc::clone(&self.traffic);
        let entry = self.gate.check(&request);
        let called = matches!(entry, GateResult::Call(_)).then(|| self.services.call(request));
        Box::pin(async move {
            let _active = traffic.grpc.begin();
            let (is_called, response) = match (called, entry) {
                (Some(called), GateResult::Call(allowed)) => {
                    let mut response = called.await?;
                    if let Some(origin) = allowed {
                        browsers::allow(response.headers_mut(), origin);
                    }
                    (true, response)
                }
                (_, entry) => (false, browsers::answer(entry)),
            };
            let took = begun.elapsed();
            let status = response.headers().get(STATUS).map_or(Code::Ok, |status| Code::from_bytes(status.as_bytes()));
            // Requests over HTTP/1.1 that are no calls have another status of HTTP.
            let is_unknown = !is_called
                || matches!(status, Code::Unimplemented | Code::Unauthenticated)
                || response.status() != http::StatusCode::OK;
            let method = if is_unknown { "unknown" } else { path.trim_start_matches('/') };
            traffic.grpc.end(method, status as u16, took);
            span.end_grpc(method, status as u16, is_failure(status));
            let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
            debug!(target: TARGET, method, status = status as u16, us, "call");
            Ok(response)
        })
    }
}

/// Whether a status is a failure of the server, by OpenTelemetry's conventions.
fn is_failure(status: Code) -> bool {
    use Code::{DataLoss, DeadlineExceeded, Internal, Unavailable, Unimplemented, Unknown};
    matches!(status, Unknown | DeadlineExceeded | Unimplemented | Internal | Unavailable | DataLoss)
}
