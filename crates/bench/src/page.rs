//! `quire-bench page`: a report as a page of Markdown. No number on it is typed by hand.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::SUITES;
use super::measurement::Measurement;
use super::report::BenchReport;
use quire_cli::failure::Result;
use quire_cli::text::{amount, grouped, nanos};

/// The legend of the tables.
const COLUMNS: [&str; 7] = [
    "*entries an operation*: for example, a batch of 100 records is one operation with 100 entries.",
    "*an entry*: the time of the whole case, divided by its entries.",
    "*without Quire*: the calibration of the case, measured before and after it.",
    "`others_percent`: the share of the processors that other processes used.",
    "`undisturbed_percent`, `undisturbed_p50_ns`: the share of operations that other processes did not disturb, and their median.",
    "`page_faults_per_op`, `commits_per_sync`, `memory_bytes`: page faults, commits covered by one sync, and memory in use.",
    "`zeros_ns`: the time to write an entry's share of zeros to a file before the case, so that the host has provided the memory.",
];

/// Writes a report as Markdown.
#[derive(Debug, Args)]
pub(crate) struct ReportPage {
    /// Report: the output of `quire-bench --json`
    report: PathBuf,
}

impl ReportPage {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        ReportPage::write(&BenchReport::read(&self.report)?, out)
    }

    pub(super) fn write(report: &BenchReport, out: &mut dyn Write) -> Result {
        let BenchReport { heading, results } = report;
        let (memory, calibration) = (heading.memory_bytes >> 30, &heading.calibration);
        writeln!(out, "# Benchmarks\n")?;
        writeln!(
            out,
            "`quire-bench all --json > report.json` measured the numbers, and `quire-bench page report.json` wrote this page.\n"
        )?;
        writeln!(
            out,
            "* Machine: {}, {} processors, {memory} GiB, {}, {}.",
            heading.cpu, heading.cores, heading.system, heading.file_system
        )?;
        writeln!(
            out,
            "* Program: version {}, commit {}, profile `{}`.",
            heading.version, heading.commit, heading.build
        )?;
        writeln!(out, "\n## Calibration\n")?;
        writeln!(out, "These operations do not use Quire. The numbers are medians.\n")?;
        writeln!(out, "| operation | time | compare with |\n|---|---|---|")?;
        for (operation, ns, cases) in [
            ("hash, look up and copy 10,000 small records", calibration.work_ns, "all other cases"),
            ("`pwrite` and `fdatasync` of a block", calibration.sync_ns, "`sync` cases"),
            ("a round trip on loopback", calibration.loopback_ns, "served cases"),
            (
                "a round trip between two processors through memory",
                calibration.handover_ns,
                "cases in which another process spins",
            ),
        ] {
            writeln!(out, "| {operation} | {} | {cases} |", nanos(ns))?;
        }
        writeln!(out, "\n## Columns\n")?;
        for line in COLUMNS {
            writeln!(out, "* {line}")?;
        }
        let missing = missing(results);
        if !missing.is_empty() {
            writeln!(out, "\nNot measured: {}.", missing.join(", "))?;
        }
        let mut suite = "";
        for result in results {
            if result.suite != suite {
                suite = &result.suite;
                writeln!(out, "\n## {suite}\n")?;
                writeln!(
                    out,
                    "| case | durability | payload | entries an operation | clients | operations | a second | an entry | p50 | p95 | p99 | p99.9 | max | without Quire | |"
                )?;
                writeln!(out, "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")?;
            }
            let also: Vec<String> =
                result.also.iter().map(|(name, value)| format!("{name} {}", amount(*value))).collect();
            writeln!(
                out,
                "| {} | {} | {} B | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                result.case,
                result.durability,
                result.payload_bytes,
                grouped(result.batch as u64),
                result.clients,
                grouped(result.ops),
                grouped(result.ops_per_s as u64),
                an_entry(result.ns_per_entry),
                nanos(result.p50_ns),
                nanos(result.p95_ns),
                nanos(result.p99_ns),
                nanos(result.p999_ns),
                nanos(result.max_ns),
                nanos(result.bound_ns),
                also.join(", ")
            )?;
        }
        Ok(())
    }
}

/// The cases of `quire-bench all` that the report lacks.
fn missing(results: &[Measurement]) -> Vec<String> {
    let names: Vec<String> = results.iter().map(Measurement::name).collect();
    let cases = SUITES.iter().copied().flatten();
    let cases = cases.map(|case| format!("{} {} {}", case.suite, case.name, case.durability));
    cases.filter(|case| !names.contains(case)).collect()
}

/// The time of one entry of a batch, in tenths of a nanosecond when it is short.
fn an_entry(ns: f64) -> String {
    if ns < 1_000.0 { format!("{ns:.1} ns") } else { nanos(ns as u64) }
}

#[cfg(test)]
mod tests {
    use super::super::case::Case;
    use super::*;

    #[test]
    fn cases_that_were_not_measured_are_named() {
        let of = |case: &&Case| Measurement {
            suite: case.suite.to_owned(),
            case: case.name.to_owned(),
            durability: case.durability.to_string(),
            ..Measurement::default()
        };
        let cases: Vec<&Case> = SUITES.iter().copied().flatten().collect();
        let mut results: Vec<_> = cases.iter().map(of).collect();
        assert_eq!(missing(&results), [""; 0]);
        let name = results.remove(1).name();
        assert_eq!(missing(&results), [name]);
    }
}
