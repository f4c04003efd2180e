//! The text format of metrics for Prometheus.
//!
//! The source is Prometheus' page "Exposition formats", version 0.0.4. A family is written with its
//! first sample, so a family without samples is absent.

use std::fmt::Write;

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
        Family { text: &mut self.0, name, head: Some(("counter", help)) }
    }

    /// A gauge: it goes up and down.
    pub(crate) fn gauge(&mut self, name: &'static str, help: &'static str) -> Family<'_> {
        Family { text: &mut self.0, name, head: Some(("gauge", help)) }
    }

    /// Returns the text.
    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

impl Family<'_> {
    /// Adds a sample with these labels.
    pub(crate) fn sample(&mut self, labels: &[(&str, &str)], value: u64) {
        let Family { text, name, head } = self;
        if let Some((kind, help)) = head.take() {
            writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}").expect(INFALLIBLE);
        }
        text.push_str(name);
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
}
