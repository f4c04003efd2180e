//! `quire-bench compare`: compares two reports, case by case. Each result is set against the speed
//! of its machine at that time.
//!
//! The median shows a general slowdown. The mean shows a slowdown of a few operations in a hundred,
//! or pauses; it may vary by twice as much. The 99th percentile is printed and not judged: it
//! varies tenfold for one program on a shared disk.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use super::measurement::Measurement;
use super::report::BenchReport;
use quire_cli::failure::{CommandError, Result};
use quire_cli::text::nanos;

/// The allowance for a mean, as a multiple of the allowance for a median.
const MEAN_TIMES: f64 = 2.0;

/// The largest ratio of machine speeds that allows a judgement. The sync of a shared disk varied
/// fortyfold within seconds, and no comparison holds across that.
const MACHINE_TIMES_MAX: f64 = 100.0;

/// The largest share of the processors, in percent, that other programs may use during a judged
/// case. With all processors in use, threads that wait for each other's syncs took up to 17 times
/// as long. The loops without Quire do not show that.
const OTHERS_PERCENT_MAX: f64 = 20.0;

/// Compares two reports. Fails when a case is missing, or slower than allowed relative to the speed
/// of the machine.
#[derive(Debug, Args)]
pub(crate) struct Compare {
    /// Report to compare with: the output of `quire-bench --json`
    before: PathBuf,
    /// Report to judge
    after: PathBuf,
    /// Largest allowed ratio of medians; means may have twice that
    #[arg(long, value_name = "TIMES", default_value_t = 1.5, value_parser = times)]
    at_most: f64,
}

/// A case of both reports.
#[derive(Debug, PartialEq)]
pub(super) struct CompareRow {
    name: String,
    before_ns: u64,
    after_ns: u64,
    /// The ratio of the results: after to before.
    ratio: f64,
    /// The same ratio, each result set against its machine.
    calibrated: f64,
    /// As `calibrated`, for the means.
    calibrated_mean: f64,
    /// As `calibrated`, for the 99th percentiles.
    calibrated_p99: f64,
    /// The ratio of the machine's times without Quire: after to before.
    machine: f64,
    /// The share of the processors that other programs used, before and after.
    others_percent: [f64; 2],
}

impl CompareRow {
    fn is_slower(&self, at_most: f64) -> bool {
        self.calibrated > at_most || self.calibrated_mean > at_most * MEAN_TIMES
    }

    /// Whether it was slower while other programs ran, which may be the reason.
    fn is_not_judged(&self, at_most: f64) -> bool {
        self.is_slower(at_most) && self.others_percent[1] > OTHERS_PERCENT_MAX
    }
}

impl Compare {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        let (before, after) = (self.read(&self.before)?, self.read(&self.after)?);
        if before.heading.build != after.heading.build {
            let (before, after) = (before.heading.build, after.heading.build);
            return Err(CommandError::new(format!("profile {after} can't be compared with profile {before}")));
        }
        let rows = rows(&before, &after);
        if rows.is_empty() {
            return Err(CommandError::new("the reports have no case in common"));
        }
        writeln!(
            out,
            "{:<40} {:>10} {:>10} {:>7} {:>11} {:>6} {:>6}",
            "case", "before", "after", "ratio", "calibrated", "mean", "p99"
        )?;
        for row in &rows {
            let CompareRow { name, before_ns, after_ns, ratio, calibrated, calibrated_mean, calibrated_p99, .. } = row;
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
            writeln!(out, "not compared, missing in {}: {}", self.before.display(), unheld.join(", "))?;
        }
        let missing = alone(&before, &after);
        if !missing.is_empty() {
            let (after, missing) = (self.after.display(), missing.join(", "));
            return Err(CommandError::new(format!(
                "not in {after}, or measured with another payload, batch or number of clients: {missing}"
            )));
        }
        let is_other = |row: &&CompareRow| row.machine.max(1.0 / row.machine) > MACHINE_TIMES_MAX;
        if let Some(CompareRow { name, machine, .. }) = rows.iter().find(is_other) {
            return Err(CommandError::new(format!(
                "{name}: without Quire the machine took {machine:.3} times as long as before; measure again"
            )));
        }
        if let Some(CompareRow { name, others_percent: [others, _], .. }) =
            rows.iter().find(|row| row.others_percent[0] > OTHERS_PERCENT_MAX)
        {
            return Err(CommandError::new(format!(
                "{}: other programs used {others} % of the processors during {name}; measure it again",
                self.before.display()
            )));
        }
        let (not_judged, slower): (Vec<&CompareRow>, _) =
            rows.iter().filter(|row| row.is_slower(self.at_most)).partition(|row| row.is_not_judged(self.at_most));
        if !not_judged.is_empty() {
            let names: Vec<_> =
                not_judged.iter().map(|row| format!("{} ({} %)", row.name, row.others_percent[1])).collect();
            writeln!(
                out,
                "not judged because other programs used this share of the processors; measure again: {}",
                names.join(", ")
            )?;
        }
        let slower: Vec<&str> = slower.iter().map(|row: &&CompareRow| row.name.as_str()).collect();
        match slower[..] {
            [] => Ok(()),
            _ => {
                let times = self.at_most;
                Err(CommandError::new(format!("more than {times} times as slow as before: {}", slower.join(", "))))
            }
        }
    }

    fn read(&self, path: &Path) -> Result<BenchReport> {
        let report = BenchReport::read(path)?;
        let is_told = |result: &&Measurement| result.bound_ns > 0 && result.p50_ns > 0 && result.mean_ns > 0.0;
        match report.results.iter().find(|result| !is_told(result)) {
            None => Ok(report),
            Some(result) => Err(CommandError::new(format!(
                "{}: {} lacks its machine time, median or mean: an earlier version wrote it; measure it again",
                path.display(),
                result.name()
            ))),
        }
    }
}

/// The cases of one report that the other lacks.
fn alone(of: &BenchReport, beside: &BenchReport) -> Vec<String> {
    let is_there = |result: &&Measurement| beside.results.iter().any(|other| other.is_of_the_case_of(result));
    of.results.iter().filter(|result| !is_there(result)).map(Measurement::name).collect()
}

fn times(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(times) if times.is_finite() && times > 0.0 => Ok(times),
        _ => Err("it must be a number above 0".to_owned()),
    }
}

pub(super) fn rows(before: &BenchReport, after: &BenchReport) -> Vec<CompareRow> {
    let pairs = before.results.iter().filter_map(|old| {
        let new = after.results.iter().find(|new| new.is_of_the_case_of(old))?;
        Some((old, new))
    });
    let row = |(old, new): (&Measurement, &Measurement)| {
        let ratio = new.p50_ns as f64 / old.p50_ns as f64;
        let machine = new.bound_ns as f64 / old.bound_ns as f64;
        let mean = new.mean_ns / old.mean_ns;
        let p99 = new.p99_ns as f64 / old.p99_ns.max(1) as f64;
        CompareRow {
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
