//! Metrics as families of samples, and their text format for Prometheus.
//!
//! The source of the format is Prometheus' page "Exposition formats", version 0.0.4. A family
//! without samples is absent.

use std::fmt::Write;
use std::time::Duration;

/// The content type.
pub(crate) const CONTENT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The metrics at one moment.
#[derive(Debug, Default)]
pub(crate) struct Exposition(Vec<MetricFamily>);

/// The samples of one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricFamily {
    /// The name, as on the page of metrics.
    pub name: &'static str,
    /// The meaning.
    pub help: &'static str,
    /// The kind.
    pub kind: MetricKind,
    /// The samples, at least one.
    pub samples: Vec<MetricSample>,
}

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows, until a restart.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Durations in seconds, by how long they are.
    Histogram,
}

/// A sample of a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricSample {
    /// The labels, with their values.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: SampleValue,
}

/// The value of a sample.
#[derive(Debug, Clone, PartialEq)]
pub enum SampleValue {
    /// A number of things.
    Count(u64),
    /// A duration in seconds.
    Seconds(f64),
    /// A histogram.
    Durations {
        /// Bounds in seconds, in rising order, each with the number of durations up to that bound.
        up_to: Vec<(f64, u64)>,
        /// The number of all durations.
        count: u64,
        /// Their sum, in seconds.
        sum: f64,
    },
}

impl MetricKind {
    fn name(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        }
    }
}

impl Exposition {
    /// A counter: it only grows, until a restart.
    pub(crate) fn counter(&mut self, name: &'static str, help: &'static str) -> &mut MetricFamily {
        assert!(name.ends_with("_total"), "the name of the counter {name} must end in _total");
        self.family(name, MetricKind::Counter, help)
    }

    /// A gauge: it goes up and down.
    pub(crate) fn gauge(&mut self, name: &'static str, help: &'static str) -> &mut MetricFamily {
        self.family(name, MetricKind::Gauge, help)
    }

    /// A histogram of durations, in seconds.
    pub(crate) fn histogram(&mut self, name: &'static str, help: &'static str) -> &mut MetricFamily {
        assert!(name.ends_with("_seconds"), "the name of the histogram {name} must end in _seconds");
        self.family(name, MetricKind::Histogram, help)
    }

    fn family(&mut self, name: &'static str, kind: MetricKind, help: &'static str) -> &mut MetricFamily {
        self.0.push(MetricFamily { name, help, kind, samples: Vec::new() });
        self.0.last_mut().expect("a family was pushed")
    }

    /// Removes the samples that `keep` does not keep.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&MetricSample) -> bool) {
        self.0.iter_mut().for_each(|family| family.samples.retain(&mut keep));
    }

    /// Returns the families that have samples.
    pub(crate) fn into_families(mut self) -> Vec<MetricFamily> {
        self.0.retain(|family| !family.samples.is_empty());
        self.0
    }

    /// Returns the text.
    pub(crate) fn into_text(self) -> String {
        let mut text = String::new();
        self.into_families().iter().for_each(|family| family.write(&mut text));
        text
    }
}

impl MetricFamily {
    /// Adds a sample with these labels.
    pub(crate) fn sample(&mut self, labels: &[(&'static str, &str)], value: u64) {
        self.push(labels, SampleValue::Count(value));
    }

    /// Adds a sample in seconds.
    pub(crate) fn seconds(&mut self, labels: &[(&'static str, &str)], value: Duration) {
        self.push(labels, SampleValue::Seconds(value.as_secs_f64()));
    }

    /// Adds a histogram with these labels. `up_to` are bounds in rising order, each with the number
    /// of durations up to that bound.
    pub(crate) fn durations(
        &mut self,
        labels: &[(&'static str, &str)],
        up_to: impl Iterator<Item = (Duration, u64)>,
        count: u64,
        total: Duration,
    ) {
        let up_to = up_to.map(|(bound, count)| (bound.as_secs_f64(), count)).collect();
        self.push(labels, SampleValue::Durations { up_to, count, sum: total.as_secs_f64() });
    }

    fn push(&mut self, labels: &[(&'static str, &str)], value: SampleValue) {
        let labels = labels.iter().map(|(label, value)| (*label, (*value).to_owned())).collect();
        self.samples.push(MetricSample { labels, value });
    }

    fn write(&self, text: &mut String) {
        let MetricFamily { name, help, kind, samples } = self;
        writeln!(text, "# HELP {name} {help}\n# TYPE {name} {}", kind.name()).expect(INFALLIBLE);
        for MetricSample { labels, value } in samples {
            let mut line = |suffix: &str, bound: Option<String>, value: &dyn std::fmt::Display| {
                write!(text, "{name}{suffix}").expect(INFALLIBLE);
                let all = labels.iter().map(|(label, value)| (*label, value)).chain(bound.iter().map(|le| ("le", le)));
                let mut opened = false;
                for (label, value) in all {
                    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
                    write!(text, "{}{label}=\"{value}\"", if opened { ',' } else { '{' }).expect(INFALLIBLE);
                    opened = true;
                }
                writeln!(text, "{} {value}", if opened { "}" } else { "" }).expect(INFALLIBLE);
            };
            match value {
                SampleValue::Count(count) => line("", None, count),
                SampleValue::Seconds(seconds) => line("", None, seconds),
                SampleValue::Durations { up_to, count, sum } => {
                    for (bound, count) in up_to {
                        line("_bucket", Some(bound.to_string()), count);
                    }
                    line("_bucket", Some("+Inf".to_owned()), count);
                    line("_sum", None, sum);
                    line("_count", None, count);
                }
            }
        }
    }
}

const INFALLIBLE: &str = "writing to a string can't fail";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_one_head_and_labels_are_escaped() {
        let mut out = Exposition::default();
        let family = out.counter("a_total", "Help.");
        family.sample(&[], 1);
        family.sample(&[("x", "q\"\\\n"), ("y", "z")], 2);
        out.gauge("empty", "None.");
        let expect = "# HELP a_total Help.\n# TYPE a_total counter\na_total 1\na_total{x=\"q\\\"\\\\\\n\",y=\"z\"} 2\n";
        assert_eq!(out.into_text(), expect);
    }

    #[test]
    fn a_histogram_has_cumulative_buckets_a_sum_and_a_count() {
        let mut out = Exposition::default();
        let up_to = [(Duration::from_micros(250), 1), (Duration::from_secs(1), 3)].into_iter();
        out.histogram("a_seconds", "Help.").durations(&[("x", "y")], up_to, 4, Duration::from_millis(2_500));
        let expect = "# HELP a_seconds Help.\n# TYPE a_seconds histogram\na_seconds_bucket{x=\"y\",le=\"0.00025\"} 1\n\
            a_seconds_bucket{x=\"y\",le=\"1\"} 3\na_seconds_bucket{x=\"y\",le=\"+Inf\"} 4\n\
            a_seconds_sum{x=\"y\"} 2.5\na_seconds_count{x=\"y\"} 4\n";
        assert_eq!(out.into_text(), expect);
    }
}
