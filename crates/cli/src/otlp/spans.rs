//! The exporter of spans, with the state of its exports.

use std::time::Duration;

use opentelemetry_otlp::SpanExporter as OtlpSpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};

use super::delivery::DeliveryState;

/// Exports spans, and logs when that begins and ceases to fail.
#[derive(Debug)]
pub(super) struct WatchedExporter {
    exporter: OtlpSpanExporter,
    state: DeliveryState,
}

impl WatchedExporter {
    pub(super) fn new(exporter: OtlpSpanExporter) -> Self {
        WatchedExporter { exporter, state: DeliveryState::new("traces") }
    }
}

impl SpanExporter for WatchedExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let result = self.exporter.export(batch).await;
        self.state.note(&result);
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
