//! The span of a request, for traces.
//!
//! The names and fields are OpenTelemetry's conventions for servers. A span is made only when the
//! process exports traces; otherwise it costs one relaxed load. With the feature `otlp`, a request
//! with the header `traceparent` continues the trace of its client (W3C Trace Context).
//!
//! Invariant: names and fields come from tables of the front ends, never from clients, and no
//! field has a payload.

use tracing::{Span, field, info_span};

/// The target of the spans of requests.
pub const SPAN_TARGET: &str = "quire::span";

/// The span of a request. It ends when it is dropped.
#[derive(Debug)]
pub struct RequestSpan(Span);

/// The header of W3C Trace Context.
pub const TRACEPARENT: &str = "traceparent";

/// The methods that a span names. Any other one is `_OTHER`.
const METHODS: [&str; 7] = ["GET", "POST", "DELETE", "PUT", "HEAD", "OPTIONS", "PATCH"];

impl RequestSpan {
    /// Begins the span of an HTTP request.
    pub fn http(method: &str, route: &str, traceparent: Option<&[u8]>) -> Self {
        let known = METHODS.into_iter().find(|known| *known == method).unwrap_or("_OTHER");
        let span = info_span!(
            target: SPAN_TARGET, "http",
            otel.name = format!("{known} {route}"), otel.kind = "server", otel.status_code = field::Empty,
            http.request.method = known, http.route = route, http.response.status_code = field::Empty,
        );
        RequestSpan(span).within(traceparent)
    }

    /// Begins the span of a gRPC call.
    pub fn grpc(traceparent: Option<&[u8]>) -> Self {
        let span = info_span!(
            target: SPAN_TARGET, "grpc",
            otel.name = field::Empty, otel.kind = "server", otel.status_code = field::Empty,
            rpc.system = "grpc", rpc.method = field::Empty, rpc.grpc.status_code = field::Empty,
        );
        RequestSpan(span).within(traceparent)
    }

    /// Begins the span of a request of the Kafka protocol.
    pub fn kafka(api: &str, version: i16) -> Self {
        RequestSpan(info_span!(
            target: SPAN_TARGET, "kafka",
            otel.name = format!("kafka {api}"), otel.kind = "server",
            messaging.system = "kafka", messaging.operation.name = api, kafka.api.version = version,
        ))
    }

    /// Ends the span of an HTTP request with the status of its response.
    pub fn end_http(self, status: u16) {
        self.0.record("http.response.status_code", status);
        self.end(status >= 500);
    }

    /// Ends the span of a gRPC call. `is_error` is for failures of the server.
    pub fn end_grpc(self, method: &str, status: u16, is_error: bool) {
        self.0.record("otel.name", method);
        self.0.record("rpc.method", method);
        self.0.record("rpc.grpc.status_code", status);
        self.end(is_error);
    }

    fn end(self, is_error: bool) {
        if is_error {
            self.0.record("otel.status_code", "ERROR");
        }
    }

    /// Makes the span a part of its client's trace.
    #[cfg(feature = "otlp")]
    fn within(self, traceparent: Option<&[u8]>) -> Self {
        use opentelemetry::propagation::TextMapPropagator;
        use opentelemetry_sdk::propagation::TraceContextPropagator;
        use tracing_opentelemetry::OpenTelemetrySpanExt;

        let text = traceparent.filter(|_| !self.0.is_disabled()).map(str::from_utf8);
        if let Some(Ok(text)) = text {
            let headers = std::collections::HashMap::from([(TRACEPARENT.to_owned(), text.to_owned())]);
            // An invalid header is ignored, as the standard says. The span is new, so setting its
            // parent cannot fail.
            let _ = self.0.set_parent(TraceContextPropagator::new().extract(&headers));
        }
        self
    }

    #[cfg(not(feature = "otlp"))]
    fn within(self, _: Option<&[u8]>) -> Self {
        self
    }
}
