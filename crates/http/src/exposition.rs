//! The text format of metrics for Prometheus.
//!
//! The source is Prometheus' page "Exposition formats", version 0.0.4. A family is written with its
//! first sample, so a family without samples is absent.

use std::fmt::Write;
use std::time::Duration;

/// The content type.
pub(crate) const CONTENT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A page of metrics being written.
#[derive(Debug, Default)]
pub(crate) struct Exposition(String);

/// The samples of one metric.
#[derive(Debug)]
pub(crate) struct Family<'e> {
    text: &'e mut String,
    name: &'static str,
    /// Written before the first sample.
    head: Option<(&'static str, &'static str)>,
}

impl Exposition {
    /// A counter: it only grows, until a restart.
    pub(crate) fn counter(&mut self, name: &'static str, help: &'static str) -> Family<'_> {
        assert!(name.ends_with("_total"), "the name of the counter {name} must end in _total");
        self.family(name, "counter", help)
    }

    /// A gauge: it goes up and down.
    pub(crate) fn gauge(&mut self, name: &'static str, help: &'static str) -> Family<'_> {
        self.family(name, "gauge", help)
    }

    /// A histogram of durations, in seconds.
    pub(crate) fn histogram(&mut self, name: &'static str, help: &'static str) -> Family<'_> {
        assert!(name.ends_with("_seconds"), "the name of the histogram {name} must end in _seconds");
        self.family(name, "histogram", help)
    }

    fn family(&mut self, name: &'static str, kind: &'static str, help: &'static str) -> Family<'_> {
        Family { text: &mut self.0, name, head: Some((kind, help)) }
    }

    /// Returns the text.
    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

impl Family<'_> {
    /// Adds a sample with these labels.
    pub(crate) fn sample(&mut self, labels: &[(&str, &str)], value: u64) {
        self.begin();
        self.line("", labels, value);
    }

    /// Adds a sample in seconds.
    pub(crate) fn seconds(&mut self, labels: &[(&str, &str)], value: Duration) {
        self.begin();
        self.line("", labels, value.as_secs_f64());
    }

    /// Adds a histogram with these labels. `up_to` are bounds in rising order, each with the number
    /// of durations up to that bound.
    pub(crate) fn durations(
        &mut self,
        labels: &[(&str, &str)],
        up_to: impl Iterator<Item = (Duration, u64)>,
        count: u64,
        total: Duration,
    ) {
        self.begin();
        let mut bucket = |bound: &str, count: u64| {
            self.line("_bucket", &[labels, &[("le", bound)]].concat(), count);
        };
        for (bound, count) in up_to {
            bucket(&bound.as_secs_f64().to_string(), count);
        }
        bucket("+Inf", count);
        self.line("_sum", labels, total.as_secs_f64());
        self.line("_count", labels, count);
    }

    fn begin(&mut self) {
        let name = self.name;
        if let Some((kind, help)) = self.head.take() {
            writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}").expect(INFALLIBLE);
        }
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let Family { text, name, .. } = self;
        write!(text, "{name}{suffix}").expect(INFALLIBLE);
        for (index, (label, value)) in labels.iter().enumerate() {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            write!(text, "{}{label}=\"{value}\"", if index == 0 { '{' } else { ',' }).expect(INFALLIBLE);
        }
        writeln!(text, "{} {value}", if labels.is_empty() { "" } else { "}" }).expect(INFALLIBLE);
    }
}

const INFALLIBLE: &str = "writing to a string can't fail";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_one_head_and_labels_are_escaped() {
        let mut out = Exposition::default();
        let mut family = out.counter("a_total", "Help.");
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
