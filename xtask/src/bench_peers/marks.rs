//! Quire's performance targets: an absolute number, or a multiple of the other broker's result.

use std::fmt;

use super::Durability;
use super::results::{Number, Results};

/// The target of a load.
#[derive(Debug)]
struct Mark {
    load: &'static str,
    durability: Durability,
    number: Number,
    asked: TargetResult,
}

/// The target value.
#[derive(Debug, Clone, Copy)]
enum TargetResult {
    AtLeast(f64),
    AtMost(f64),
    /// A multiple of the other broker's result.
    TimesAtLeast(f64),
    TimesAtMost(f64),
}

use Durability::{Os, Sync};
use Number::{Bytes, Millis, P50, P99, Rate};
use TargetResult::{AtLeast, AtMost, TimesAtLeast, TimesAtMost};

/// The targets next to Kafka, answering from the page cache in both. With a flush for each message,
/// Kafka is no useful reference.
const KAFKA: &[Mark] = &[
    mark("produce-128", Os, Rate, TimesAtLeast(2.0)),
    mark("produce-128", Os, P99, TimesAtMost(0.5)),
    mark("produce-128", Sync, Rate, AtLeast(20_000.0)),
    mark("librdkafka-tasks-128", Sync, Rate, AtLeast(60_000.0)),
    mark("librdkafka-tasks-128", Sync, P99, AtMost(5_000.0)),
    mark("librdkafka-open-loop", Os, Rate, TimesAtLeast(1.5)),
    mark("librdkafka-open-loop-consume", Os, Rate, TimesAtLeast(1.5)),
    mark("end-to-end", Os, P50, TimesAtMost(1.0)),
    mark("end-to-end", Os, P99, TimesAtMost(1.0)),
    mark("librdkafka-end-to-end", Os, P50, TimesAtMost(1.0)),
    mark("librdkafka-end-to-end", Os, P99, TimesAtMost(1.0)),
    mark("memory", Os, Bytes, TimesAtMost(0.1)),
    mark("cold-start", Sync, Millis, AtMost(100.0)),
    mark("process", Os, Rate, AtLeast(10_000_000.0)),
    mark("handoff", Os, P50, AtMost(50.0)),
];

const fn mark(load: &'static str, durability: Durability, number: Number, asked: TargetResult) -> Mark {
    Mark { load, durability, number, asked }
}

/// A target, and the result.
#[derive(Debug)]
pub(super) struct Marks<'r> {
    results: &'r Results,
    peer: &'static str,
    marks: &'static [Mark],
}

impl<'r> Marks<'r> {
    /// The targets next to Kafka.
    pub(super) fn of_kafka(results: &'r Results) -> Self {
        Marks { results, peer: "kafka", marks: KAFKA }
    }
}

impl fmt::Display for Marks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peer = self.peer;
        writeln!(f, "{:<28} {:<5} {:<10} {:>24} {:>13}", "load", "kept", "", "asked", "found")?;
        for Mark { load, durability, number, asked } in self.marks {
            let (ours, theirs) = self.results.medians(load, *durability, *number, peer);
            let ratio = ours.zip(theirs).map(|(ours, theirs)| ours / theirs);
            let (text, found) = match asked {
                AtLeast(least) => (format!("at least {least:.0}"), ours),
                AtMost(most) => (format!("at most {most:.0}"), ours),
                TimesAtLeast(least) => (format!("at least {least} x {peer}"), ratio),
                TimesAtMost(most) => (format!("at most {most} x {peer}"), ratio),
            };
            let is_ratio = matches!(asked, TimesAtLeast(_) | TimesAtMost(_));
            let (found, verdict) = match found {
                Some(found) if is_ratio => (format!("{found:.3}"), asked.verdict(found)),
                Some(found) => (format!("{found:.0}"), asked.verdict(found)),
                None => ("-".to_owned(), "not measured"),
            };
            writeln!(f, "{load:<28} {:<5} {:<10} {text:>24} {found:>13}  {verdict}", durability.name(), number.name())?;
        }
        Ok(())
    }
}

impl TargetResult {
    fn verdict(self, found: f64) -> &'static str {
        let is_reached = match self {
            AtLeast(least) | TimesAtLeast(least) => found >= least,
            AtMost(most) | TimesAtMost(most) => found <= most,
        };
        if is_reached { "reached" } else { "MISSED" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench_peers::results::Measurement;

    #[test]
    fn each_mark_is_held_against_its_number() {
        let mut results = Results::beside(["kafka"]);
        let measured = |rate, p99_us| Measurement { rate: Some(rate), p99_us: Some(p99_us), ..Measurement::default() };
        results.add("produce-128", Os, "quire", measured(30_000.0, 8_000.0));
        results.add("produce-128", Os, "kafka", measured(15_000.0, 10_000.0));
        results.add("produce-128", Sync, "quire", measured(19_999.0, 1.0));
        let table = Marks::of_kafka(&results).to_string();
        let rows: Vec<Vec<_>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows.len(), 1 + KAFKA.len());
        assert_eq!(
            rows[1],
            ["produce-128", "os", "per", "second", "at", "least", "2", "x", "kafka", "2.000", "reached"]
        );
        assert_eq!(rows[2], ["produce-128", "os", "p99", "us", "at", "most", "0.5", "x", "kafka", "0.800", "MISSED"]);
        assert_eq!(rows[3], ["produce-128", "sync", "per", "second", "at", "least", "20000", "19999", "MISSED"]);
        assert!(rows[4..].iter().all(|row| row.ends_with(&["-", "not", "measured"])), "{table}");
    }
}
