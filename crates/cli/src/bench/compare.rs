//! `quire bench compare`: two reports, case by case, each result held against what its machine could do at that moment.
//!
//! A median that became slower is told by the median; what became slower for a few operations in a hundred, or stands still at times, by the
//! mean, which may vary by as much again. The 99th percentile is shown and not judged: of the same program it varies tenfold on a disk that
//! others use.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use super::measurement::Measurement;
use super::report::Report;
use crate::failure::{Failure, Result};
use crate::text::nanos;

/// How many times as far as a median a mean may go.
const MEAN_TIMES: f64 = 2.0;

/// How many times as long a machine may have taken without Quire: the sync of a shared disk varied fortyfold within seconds, and what is held
/// against more than this tells nothing.
const MACHINE_TIMES_MAX: f64 = 100.0;

/// How much of the processors, in percent, others may have beside a case for it to be judged: with all of them taken, threads that wait for each other's
/// syncs took up to 17 times as long, which nothing that one thread does without Quire tells.
const OTHERS_PERCENT_MAX: f64 = 20.0;

/// Compares two reports. It fails when a case has become slower than allowed, next to what the machine took without Quire before and
/// behind it, or is missing.
#[derive(Debug, Args)]
pub(crate) struct Compare {
    /// The report to compare with: what `quire bench --json` printed
    before: PathBuf,
    /// The report to be compared
    after: PathBuf,
    /// How many times as long a median may take; a mean may take twice that
    #[arg(long, value_name = "TIMES", default_value_t = 1.5, value_parser = times)]
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
    /// The same, each held against its machine.
    calibrated: f64,
    /// As `calibrated`, of the means.
    calibrated_mean: f64,
    /// As `calibrated`, of the 99th percentiles.
    calibrated_p99: f64,
    /// What the machine took without Quire: after to before.
    machine: f64,
    /// What others had of the processors, before and after.
    others_percent: [f64; 2],
}

impl Row {
    fn is_slower(&self, at_most: f64) -> bool {
        self.calibrated > at_most || self.calibrated_mean > at_most * MEAN_TIMES
    }

    /// Whether it was slower beside others, who may be the reason.
    fn is_not_judged(&self, at_most: f64) -> bool {
        self.is_slower(at_most) && self.others_percent[1] > OTHERS_PERCENT_MAX
    }
}

impl Compare {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        let (before, after) = (self.read(&self.before)?, self.read(&self.after)?);
        if before.heading.build != after.heading.build {
            let (before, after) = (before.heading.build, after.heading.build);
            return Err(Failure::new(format!("a {after} build can't be held against a {before} build")));
        }
        let rows = rows(&before, &after);
        if rows.is_empty() {
            return Err(Failure::new("the reports have no case in common"));
        }
        writeln!(
            out,
            "{:<40} {:>10} {:>10} {:>7} {:>11} {:>6} {:>6}",
            "case", "before", "after", "ratio", "calibrated", "mean", "p99"
        )?;
        for row in &rows {
            let Row { name, before_ns, after_ns, ratio, calibrated, calibrated_mean, calibrated_p99, .. } = row;
            let (before, after) = (nanos(*before_ns), nanos(*after_ns));
            let mark = match row.is_slower(self.at_most) {
                true if row.is_not_judged(self.at_most) => "  not judged",
                true => "  slower",
                false => "",
            };
            writeln!(
                out,
                "{name:<40} {before:>10} {after:>10} {ratio:>7.2} {calibrated:>11.2} {calibrated_mean:>6.2} {calibrated_p99:>6.2}{mark}"
            )?;
        }
        let unheld = alone(&after, &before);
        if !unheld.is_empty() {
            writeln!(out, "held against nothing, for {} has none of it: {}", self.before.display(), unheld.join(", "))?;
        }
        let missing = alone(&before, &after);
        if !missing.is_empty() {
            let (after, missing) = (self.after.display(), missing.join(", "));
            return Err(Failure::new(format!(
                "not in {after}, or done with another payload, batch or number of clients: {missing}"
            )));
        }
        let is_other = |row: &&Row| row.machine.max(1.0 / row.machine) > MACHINE_TIMES_MAX;
        if let Some(Row { name, machine, .. }) = rows.iter().find(is_other) {
            return Err(Failure::new(format!(
                "{name}: without Quire the machine took {machine:.3} times as long as before, so nothing can be told; measure again"
            )));
        }
        if let Some(Row { name, others_percent: [others, _], .. }) =
            rows.iter().find(|row| row.others_percent[0] > OTHERS_PERCENT_MAX)
        {
            return Err(Failure::new(format!(
                "{}: others had {others} % of the processors beside {name}, so nothing can be held against it; make it anew",
                self.before.display()
            )));
        }
        let (not_judged, slower): (Vec<&Row>, _) =
            rows.iter().filter(|row| row.is_slower(self.at_most)).partition(|row| row.is_not_judged(self.at_most));
        if !not_judged.is_empty() {
            let names: Vec<_> =
                not_judged.iter().map(|row| format!("{} ({} %)", row.name, row.others_percent[1])).collect();
            writeln!(
                out,
                "not judged, for others had so much of the processors beside them; measure again: {}",
                names.join(", ")
            )?;
        }
        let slower: Vec<&str> = slower.iter().map(|row: &&Row| row.name.as_str()).collect();
        match slower[..] {
            [] => Ok(()),
            _ => {
                let times = self.at_most;
                Err(Failure::new(format!("more than {times} times as slow as before: {}", slower.join(", "))))
            }
        }
    }

    fn read(&self, path: &Path) -> Result<Report> {
        let report = Report::read(path)?;
        let is_told = |result: &&Measurement| result.bound_ns > 0 && result.p50_ns > 0 && result.mean_ns > 0.0;
        match report.results.iter().find(|result| !is_told(result)) {
            None => Ok(report),
            Some(result) => Err(Failure::new(format!(
                "{}: {} says nothing of its machine, its median or its mean: an earlier version made it; make it anew",
                path.display(),
                result.name()
            ))),
        }
    }
}

/// The cases of one report that another has not.
fn alone(of: &Report, beside: &Report) -> Vec<String> {
    let is_there = |result: &&Measurement| beside.results.iter().any(|other| other.is_of_the_case_of(result));
    of.results.iter().filter(|result| !is_there(result)).map(Measurement::name).collect()
}

fn times(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(times) if times.is_finite() && times > 0.0 => Ok(times),
        _ => Err("it is to be a number above 0".to_owned()),
    }
}

pub(super) fn rows(before: &Report, after: &Report) -> Vec<Row> {
    let pairs = before.results.iter().filter_map(|old| {
        let new = after.results.iter().find(|new| new.is_of_the_case_of(old))?;
        Some((old, new))
    });
    let row = |(old, new): (&Measurement, &Measurement)| {
        let ratio = new.p50_ns as f64 / old.p50_ns as f64;
        let machine = new.bound_ns as f64 / old.bound_ns as f64;
        let mean = new.mean_ns / old.mean_ns;
        let p99 = new.p99_ns as f64 / old.p99_ns.max(1) as f64;
        Row {
            name: old.name(),
            before_ns: old.p50_ns,
            after_ns: new.p50_ns,
            ratio,
            calibrated: ratio / machine,
            calibrated_mean: mean / machine,
            calibrated_p99: p99 / machine,
            machine,
            others_percent: [old.others_percent(), new.others_percent()],
        }
    };
    pairs.map(row).collect()
}
