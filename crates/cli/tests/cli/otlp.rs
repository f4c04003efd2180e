//! Traces and metrics over OTLP, received by a small collector in this process.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{Metric, metric};
use opentelemetry_proto::tonic::trace::v1::{Span, span};
use quire_grpc::proto::QueuesRequest;
use quire_grpc::proto::jobs_client::JobsClient;
use tokio::runtime::Runtime;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use crate::support::{Server, quire, run};

/// Longer than any step takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A collector that hands on what it gets.
struct Collector {
    runtime: Runtime,
    address: SocketAddr,
    spans: Receiver<(Vec<KeyValue>, Span)>,
    metrics: Receiver<Metric>,
}

struct Spans(Sender<(Vec<KeyValue>, Span)>);

struct Metrics(Sender<Metric>);

#[tonic::async_trait]
impl TraceService for Spans {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for of_resource in request.into_inner().resource_spans {
            let resource = of_resource.resource.map(|resource| resource.attributes).unwrap_or_default();
            for span in of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                // The test may have ended.
                let _ = self.0.send((resource.clone(), span));
            }
        }
        Ok(Response::new(Default::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Metrics {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        let scopes = request.into_inner().resource_metrics.into_iter().flat_map(|resource| resource.scope_metrics);
        for metric in scopes.flat_map(|scope| scope.metrics) {
            // The test may have ended.
            let _ = self.0.send(metric);
        }
        Ok(Response::new(Default::default()))
    }
}

impl Collector {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let (span_sender, spans) = mpsc::channel();
        let (metric_sender, metrics) = mpsc::channel();
        let incoming = {
            let _in_runtime = runtime.enter();
            TcpIncoming::bind("127.0.0.1:0".parse().expect("an address")).expect("a port")
        };
        let address = incoming.local_addr().expect("an address");
        runtime.spawn(
            tonic::transport::Server::builder()
                .add_service(TraceServiceServer::new(Spans(span_sender)))
                .add_service(MetricsServiceServer::new(Metrics(metric_sender)))
                .serve_with_incoming(incoming),
        );
        Collector { runtime, address, spans, metrics }
    }

    /// The next span with this name, with the attributes of its resource.
    #[track_caller]
    fn span(&self, name: &str) -> (Vec<KeyValue>, Span) {
        loop {
            let received = self.spans.recv_timeout(PATIENCE).expect("a span arrives");
            if received.1.name == name {
                return received;
            }
        }
    }

    /// The next metric with this name.
    #[track_caller]
    fn metric(&self, name: &str) -> metric::Data {
        loop {
            let metric = self.metrics.recv_timeout(PATIENCE).expect("a metric arrives");
            if metric.name == name {
                return metric.data.expect("it has data");
            }
        }
    }
}

/// The value of an attribute as text.
fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.key == key)?;
    match attribute.value.as_ref()?.value.as_ref()? {
        any_value::Value::StringValue(text) => Some(text.clone()),
        any_value::Value::IntValue(number) => Some(number.to_string()),
        other => Some(format!("{other:?}")),
    }
}

#[test]
fn a_collector_gets_a_span_of_each_request_and_the_metrics() {
    let collector = Collector::start();
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = quire();
    command.env_remove("QUIRE_LOG").env("OTEL_BSP_SCHEDULE_DELAY", "50").arg("serve");
    command.arg("--data").arg(folder.path().join("data"));
    command.args(["--otlp-endpoint", &format!("http://{}", collector.address), "--otlp-metrics-interval-ms", "100"]);
    let server = Server::spawn(&mut command);

    let traceparent = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let mut stream = TcpStream::connect(&server.http).expect("it listens");
    let host = &server.http;
    write!(stream, "GET /v1/queues/none HTTP/1.0\r\nHost: {host}\r\n{traceparent}\r\n\r\n").expect("sent");
    std::io::copy(&mut stream, &mut std::io::sink()).expect("answered");
    let (resource, span) = collector.span("GET /v1/queues/{queue}");
    assert_eq!(text(&resource, "service.name").as_deref(), Some("quire"));
    assert_eq!(text(&span.attributes, "http.response.status_code").as_deref(), Some("404"));
    assert_eq!(text(&span.attributes, "http.route").as_deref(), Some("/v1/queues/{queue}"));
    assert_eq!(span.kind, span::SpanKind::Server as i32);
    assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(hex(&span.trace_id), "0af7651916cd43dd8448eb211c80319c", "it continues the trace of its client");
    assert_eq!(hex(&span.parent_span_id), "b7ad6b7169203331");

    // ApiVersions, version 0, number 1, without a name of the client.
    server.ask_kafka(b"\0\x12\0\0\0\0\0\x01\xff\xff");
    let (_, span) = collector.span("kafka ApiVersions");
    assert_eq!(text(&span.attributes, "kafka.api.version").as_deref(), Some("0"));

    let grpc = format!("http://{}", server.grpc);
    collector.runtime.block_on(async {
        let mut jobs = JobsClient::connect(grpc).await.expect("it listens");
        jobs.queues(QueuesRequest::default()).await.expect("an answer");
    });
    let (_, span) = collector.span("quire.v1.Jobs/Queues");
    assert_eq!(text(&span.attributes, "rpc.grpc.status_code").as_deref(), Some("0"));

    let metric::Data::Gauge(connections) = collector.metric("quire_connections") else { panic!("a gauge") };
    let mut front_ends: Vec<_> =
        connections.data_points.iter().filter_map(|point| text(&point.attributes, "front_end")).collect();
    front_ends.sort();
    assert_eq!(front_ends, ["grpc", "http", "kafka"]);
    let metric::Data::Histogram(durations) = collector.metric("quire_http_request_duration_seconds") else {
        panic!("a histogram")
    };
    let point = &durations.data_points[0];
    assert_eq!((point.count, point.bucket_counts.iter().sum::<u64>()), (1, 1), "{point:?}");
    assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
    assert_eq!(server.stop_by("TERM").0, Some(0));
}

#[test]
fn a_collector_that_is_away_has_one_line_and_stops_no_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let mut command = quire();
    command.env_remove("QUIRE_LOG").arg("serve").arg("--data").arg(folder.path().join("data"));
    // Nothing listens on port 1.
    command.args(["--otlp-endpoint", "http://127.0.0.1:1", "--otlp-metrics-interval-ms", "100"]);
    let server = Server::logging(&mut command, &log);
    let read = || std::fs::read_to_string(&log).expect("a log");
    while !read().contains("WARN server: can't export to the collector signal=metrics error=") {
        std::thread::yield_now();
    }
    assert_eq!(server.ask("GET", "/v1/stats", "").0, 200);
    assert_eq!(server.stop_by("TERM").0, Some(0));
    assert_eq!(read().matches("can't export to the collector signal=metrics").count(), 1, "{}", read());
}

#[test]
fn an_endpoint_with_tls_is_refused_with_the_reason() {
    let ran = run(&["serve", "--data", "d", "--otlp-endpoint", "https://127.0.0.1:4317"]);
    assert!(ran.status == Some(2) && ran.stderr.contains("expected http://HOST:PORT"), "{ran:?}");
}
