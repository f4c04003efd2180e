//! `quire bench compare`: two reports, case by case, each result held against what its machine could do at that moment.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::measurement::Measurement;
use super::report::Report;
use crate::failure::{Failure, Result};
use crate::text::nanos;

/// Compares two reports. A case whose median has become slower than allowed, next to the calibration of its own run, fails the
/// comparison.
#[derive(Debug, Args)]
pub(crate) struct Compare {
    /// The report to compare with: what `quire bench --json` printed
    before: PathBuf,
    /// The report to be compared
    after: PathBuf,
    /// How many times as long a median may take
    #[arg(long, value_name = "TIMES", default_value_t = 1.5)]
    at_most: f64,
}

/// A case of both.
#[derive(Debug, PartialEq)]
pub(super) struct Row {
    name: String,
    before_ns: u64,
    after_ns: u64,
    /// After to before.
    ratio: f64,
    /// The same, each held against its calibration.
    calibrated: f64,
}

impl Compare {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        let (before, after) = (Report::read(&self.before)?, Report::read(&self.after)?);
        let rows = rows(&before, &after);
        writeln!(out, "{:<40} {:>10} {:>10} {:>7} {:>11}", "case", "before", "after", "ratio", "calibrated")?;
        for Row { name, before_ns, after_ns, ratio, calibrated } in &rows {
            let (before, after) = (nanos(*before_ns), nanos(*after_ns));
            let mark = if *calibrated > self.at_most { "  slower" } else { "" };
            writeln!(out, "{name:<40} {before:>10} {after:>10} {ratio:>7.2} {calibrated:>11.2}{mark}")?;
        }
        for result in &before.results {
            if !after.results.iter().any(|other| is_same(other, result)) {
                writeln!(out, "{:<40} is not in {}", name(result), self.after.display())?;
            }
        }
        if rows.is_empty() {
            return Err(Failure::new("the reports have no case in common"));
        }
        let slower: Vec<&str> =
            rows.iter().filter(|row| row.calibrated > self.at_most).map(|row| row.name.as_str()).collect();
        match slower[..] {
            [] => Ok(()),
            _ => {
                let times = self.at_most;
                Err(Failure::new(format!("more than {times} times as slow as before: {}", slower.join(", "))))
            }
        }
    }
}

pub(super) fn rows(before: &Report, after: &Report) -> Vec<Row> {
    let pairs = before.results.iter().filter_map(|old| {
        let new = after.results.iter().find(|new| is_same(new, old))?;
        Some((old, new))
    });
    let row = |(old, new): (&Measurement, &Measurement)| {
        let ratio = new.p50_ns as f64 / old.p50_ns.max(1) as f64;
        let machine =
            after.heading.calibration.bound_of(new) as f64 / before.heading.calibration.bound_of(old).max(1) as f64;
        Row { name: name(old), before_ns: old.p50_ns, after_ns: new.p50_ns, ratio, calibrated: ratio / machine }
    };
    pairs.map(row).collect()
}

fn name(result: &Measurement) -> String {
    format!("{} {} {}", result.suite, result.case, result.durability)
}

fn is_same(one: &Measurement, other: &Measurement) -> bool {
    name(one) == name(other) && one.payload_bytes == other.payload_bytes && one.batch == other.batch
}
