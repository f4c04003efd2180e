//! Traces and metrics to an OpenTelemetry collector, over OTLP with gRPC. Only with the feature
//! `otlp`.
//!
//! ```text
//! spans of requests ─▶ tracing layer ─▶ queue of the SDK ─▶ spans ─┐
//! metrics of /metrics, once in an interval ─▶ metrics ─────────────┴─▶ channel ─▶ collector
//! ```
//!
//! * The metrics are those of `GET /metrics`, with the same names and labels.
//! * The SDK reads the variables of OpenTelemetry: `OTEL_SERVICE_NAME`,
//!   `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER`, `OTEL_BSP_*`.
//! * A collector that is slow or away stops no request: spans beyond the SDK's queue are dropped,
//!   and the log has a line when exports begin to fail, and one when they succeed again.

mod delivery;
mod metrics;
mod spans;

use std::time::Duration;

use clap::Args;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use quire_access::SPAN_TARGET;
use quire_http::MetricsSource;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Layer;

use crate::failure::{CommandError, Result};
use crate::logging::BoxedLayer;
use crate::threads;
use metrics::MetricsExport;
use spans::WatchedExporter;

/// The name of the service, without `OTEL_SERVICE_NAME`.
const SERVICE: &str = "quire";

/// How long an export may take, in all its tries.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the last exports may take when the server stops.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// The flags of OTLP.
#[derive(Debug, Args)]
pub(crate) struct OtlpArgs {
    /// Address of an OpenTelemetry collector that gets traces and metrics over gRPC, like
    /// http://127.0.0.1:4317
    #[arg(long = "otlp-endpoint", value_name = "URL", value_parser = endpoint)]
    endpoint: Option<String>,
    /// Milliseconds between two exports of the metrics
    #[arg(long = "otlp-metrics-interval-ms", value_name = "MS", default_value_t = 60_000,
        value_parser = clap::value_parser!(u64).range(100..))]
    metrics_interval_ms: u64,
}

/// Checks the address of a collector.
fn endpoint(text: &str) -> Result<String, String> {
    if !text.starts_with("http://") {
        return Err("expected http://HOST:PORT; for TLS, run a collector on this machine that forwards".to_owned());
    }
    Endpoint::from_shared(text.to_owned()).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

impl OtlpArgs {
    /// Starts the export, if there is a collector. Call it before the log starts: the log gets the
    /// layer.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub(crate) fn start(&self) -> Result<Option<OtlpExport>> {
        self.endpoint.as_deref().map(|endpoint| OtlpExport::start(endpoint, self.metrics_interval_ms)).transpose()
    }
}

/// An export that is running.
#[derive(Debug)]
pub(crate) struct OtlpExport {
    /// Runs the connection to the collector.
    runtime: Runtime,
    channel: Channel,
    resource: Resource,
    interval: Duration,
    tracers: SdkTracerProvider,
    /// Ends the export of metrics.
    ending: watch::Sender<bool>,
    metrics: Option<JoinHandle<()>>,
}

impl OtlpExport {
    fn start(endpoint: &str, interval_ms: u64) -> Result<Self> {
        let failed = |error: &dyn std::fmt::Display| CommandError::at("export over OTLP", error);
        let runtime = threads::start(1)?;
        let endpoint = Endpoint::from_shared(endpoint.to_owned()).map_err(|error| failed(&error))?;
        let _in_runtime = runtime.enter();
        let channel = endpoint.timeout(EXPORT_TIMEOUT).connect_timeout(EXPORT_TIMEOUT).connect_lazy();
        let exporter =
            SpanExporter::builder().with_tonic().with_channel(channel.clone()).with_timeout(EXPORT_TIMEOUT).build();
        let exporter = WatchedExporter::new(exporter.map_err(|error| failed(&error))?);
        let resource = resource();
        let tracers =
            SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.clone()).build();
        drop(_in_runtime);
        let (ending, _) = watch::channel(false);
        let interval = Duration::from_millis(interval_ms);
        Ok(OtlpExport { runtime, channel, resource, interval, tracers, ending, metrics: None })
    }

    /// The layer that turns spans of requests into spans of OpenTelemetry.
    pub(crate) fn layer(&self) -> BoxedLayer {
        let layer = tracing_opentelemetry::layer()
            .with_tracer(self.tracers.tracer(SERVICE))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_level(false)
            .with_tracked_inactivity(false);
        layer.with_filter(Targets::new().with_target(SPAN_TARGET, LevelFilter::INFO)).boxed()
    }

    /// Exports these metrics, once in an interval and once at the end.
    pub(crate) fn export_metrics(&mut self, source: MetricsSource) {
        let export = MetricsExport::new(source, self.channel.clone(), &self.resource);
        self.metrics = Some(self.runtime.spawn(export.run(self.interval, self.ending.subscribe())));
    }

    /// Exports the metrics once more, and no longer: releases the database. It takes a few seconds
    /// at most.
    pub(crate) fn end_metrics(&mut self) {
        self.ending.send_replace(true);
        if let Some(metrics) = self.metrics.take() {
            let abort = metrics.abort_handle();
            let ended = self.runtime.block_on(async { tokio::time::timeout(END_TIMEOUT, metrics).await });
            if ended.is_err() {
                abort.abort();
            }
        }
        self.ending.send_replace(false);
    }

    /// Exports the rest, and ends. It takes a few seconds at most, and releases the database.
    pub(crate) fn end(mut self) {
        self.end_metrics();
        // The log has a line about a collector that does not answer.
        let _ = self.tracers.shutdown_with_timeout(END_TIMEOUT);
        self.runtime.shutdown_timeout(END_TIMEOUT);
    }
}

/// The description of this server, with the variables of OpenTelemetry.
fn resource() -> Resource {
    let mut resource = Resource::builder();
    if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
        resource = resource.with_service_name(SERVICE);
    }
    resource.with_attribute(opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION"))).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_address_without_tls_is_an_endpoint() {
        assert_eq!(endpoint("http://127.0.0.1:4317"), Ok("http://127.0.0.1:4317".to_owned()));
        for wrong in ["https://127.0.0.1:4317", "127.0.0.1:4317", "http://", "http://a b"] {
            assert!(endpoint(wrong).is_err(), "{wrong}");
        }
    }
}
