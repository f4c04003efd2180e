//! The export of metrics: the families of `GET /metrics` as OTLP messages.
//!
//! The SDK of OpenTelemetry makes its own histograms and counters. Quire's exist already, so their
//! messages are made here.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource as ResourceMessage;
use opentelemetry_sdk::Resource;
use quire::{Clock, SystemClock};
use quire_http::{MetricFamily, MetricKind, MetricSample, MetricsSource, SampleValue};
use tokio::sync::watch;
use tonic::transport::Channel;

use super::SERVICE;
use super::delivery::DeliveryState;

/// Exports the metrics of a server.
#[derive(Debug)]
pub(super) struct MetricsExport {
    source: MetricsSource,
    client: MetricsServiceClient<Channel>,
    resource: ResourceMessage,
    clock: SystemClock,
    /// The time from which counters count, in nanoseconds since 1970.
    start_ns: u64,
    state: DeliveryState,
}

impl MetricsExport {
    pub(super) fn new(source: MetricsSource, channel: Channel, resource: &Resource) -> Self {
        let attributes = resource.iter().map(|(key, value)| attribute(key.as_str(), value.to_string())).collect();
        let resource = ResourceMessage { attributes, ..ResourceMessage::default() };
        let (client, state) = (MetricsServiceClient::new(channel), DeliveryState::new("metrics"));
        let clock = SystemClock;
        let start_ns = now_ns(&clock);
        MetricsExport { source, client, resource, clock, start_ns, state }
    }

    /// Exports once in `interval`, and a last time when `ending` says so.
    pub(super) async fn run(mut self, interval: Duration, mut ending: watch::Receiver<bool>) {
        loop {
            let is_last = tokio::select! {
                _ = ending.wait_for(|ending| *ending) => true,
                () = tokio::time::sleep(interval) => false,
            };
            let exported = self.export().await;
            self.state.note(&exported);
            if is_last {
                return;
            }
        }
    }

    async fn export(&mut self) -> Result<(), String> {
        let families = self.source.read().await.map_err(|error| error.to_string())?;
        let times = SampleTimes { start_ns: self.start_ns, now_ns: now_ns(&self.clock) };
        let metrics = families.into_iter().map(|family| message(family, times)).collect();
        let scope = InstrumentationScope {
            name: SERVICE.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        let scope_metrics = vec![ScopeMetrics { scope: Some(scope), metrics, ..ScopeMetrics::default() }];
        let resource = Some(self.resource.clone());
        let resource_metrics = vec![ResourceMetrics { resource, scope_metrics, ..ResourceMetrics::default() }];
        let request = ExportMetricsServiceRequest { resource_metrics };
        self.client.export(request).await.map(drop).map_err(|status| status.to_string())
    }
}

/// The times of every sample of an export.
#[derive(Debug, Clone, Copy)]
struct SampleTimes {
    start_ns: u64,
    now_ns: u64,
}

fn now_ns(clock: &SystemClock) -> u64 {
    clock.now().as_millis().saturating_mul(1_000_000)
}

fn attribute(key: &str, value: String) -> KeyValue {
    let value = AnyValue { value: Some(any_value::Value::StringValue(value)) };
    KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() }
}

/// The message of a family. The unit of a metric in seconds is `s`.
fn message(family: MetricFamily, times: SampleTimes) -> Metric {
    let MetricFamily { name, help, kind, samples } = family;
    let unit = if name.ends_with("_seconds") || name.ends_with("_seconds_total") { "s" } else { "" };
    let cumulative = AggregationTemporality::Cumulative.into();
    let data = match kind {
        MetricKind::Gauge => metric::Data::Gauge(Gauge { data_points: numbers(samples, times) }),
        MetricKind::Counter => metric::Data::Sum(Sum {
            data_points: numbers(samples, times),
            aggregation_temporality: cumulative,
            is_monotonic: true,
        }),
        MetricKind::Histogram => metric::Data::Histogram(Histogram {
            data_points: samples.into_iter().filter_map(|sample| histogram(sample, times)).collect(),
            aggregation_temporality: cumulative,
        }),
    };
    Metric {
        name: name.to_owned(),
        description: help.to_owned(),
        unit: unit.to_owned(),
        data: Some(data),
        ..Metric::default()
    }
}

fn attributes(labels: Vec<(&'static str, String)>) -> Vec<KeyValue> {
    labels.into_iter().map(|(label, value)| attribute(label, value)).collect()
}

fn numbers(samples: Vec<MetricSample>, SampleTimes { start_ns, now_ns }: SampleTimes) -> Vec<NumberDataPoint> {
    let point = |MetricSample { labels, value }| {
        let value = match value {
            SampleValue::Count(count) => number_data_point::Value::AsInt(i64::try_from(count).unwrap_or(i64::MAX)),
            SampleValue::Seconds(seconds) => number_data_point::Value::AsDouble(seconds),
            SampleValue::Durations { .. } => return None,
        };
        Some(NumberDataPoint {
            attributes: attributes(labels),
            start_time_unix_nano: start_ns,
            time_unix_nano: now_ns,
            value: Some(value),
            ..NumberDataPoint::default()
        })
    };
    samples.into_iter().filter_map(point).collect()
}

/// A histogram of OTLP counts each duration in one bucket, and has a last bucket without bound.
fn histogram(sample: MetricSample, SampleTimes { start_ns, now_ns }: SampleTimes) -> Option<HistogramDataPoint> {
    let MetricSample { labels, value: SampleValue::Durations { up_to, count, sum } } = sample else { return None };
    let mut below = 0;
    let mut own = |up_to: u64| {
        let own = up_to.saturating_sub(below);
        below = below.max(up_to);
        own
    };
    let mut bucket_counts: Vec<u64> = up_to.iter().map(|(_, count)| own(*count)).collect();
    bucket_counts.push(own(count));
    // The message must be consistent, also when the counts were read while they grew.
    let count = bucket_counts.iter().sum();
    Some(HistogramDataPoint {
        attributes: attributes(labels),
        start_time_unix_nano: start_ns,
        time_unix_nano: now_ns,
        count,
        sum: Some(sum),
        bucket_counts,
        explicit_bounds: up_to.iter().map(|(bound, _)| *bound).collect(),
        ..HistogramDataPoint::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_each_duration_once() {
        let value = SampleValue::Durations { up_to: vec![(0.5, 2), (1.0, 2), (2.0, 5)], count: 7, sum: 9.5 };
        let sample = MetricSample { labels: vec![("route", "/x".to_owned())], value };
        let point = histogram(sample, SampleTimes { start_ns: 1, now_ns: 2 }).expect("a histogram");
        assert_eq!(point.bucket_counts, [2, 0, 3, 2]);
        assert_eq!((point.explicit_bounds, point.count, point.sum), (vec![0.5, 1.0, 2.0], 7, Some(9.5)));
        assert_eq!(point.attributes, [attribute("route", "/x".to_owned())]);
    }

    #[test]
    fn a_counter_is_a_cumulative_sum_and_seconds_have_a_unit() {
        let sample = MetricSample { labels: Vec::new(), value: SampleValue::Seconds(1.5) };
        let name = "process_cpu_seconds_total";
        let family = MetricFamily { name, help: "Help.", kind: MetricKind::Counter, samples: vec![sample] };
        let metric = message(family, SampleTimes { start_ns: 1, now_ns: 2 });
        assert_eq!((&*metric.name, &*metric.unit), (name, "s"));
        let Some(metric::Data::Sum(sum)) = metric.data else { panic!("a sum") };
        assert!(sum.is_monotonic && sum.aggregation_temporality == AggregationTemporality::Cumulative as i32);
        assert_eq!(sum.data_points[0].value, Some(number_data_point::Value::AsDouble(1.5)));
    }
}
