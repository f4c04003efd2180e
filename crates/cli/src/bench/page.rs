//! `quire bench page`: a report as a page of Markdown, so that no number on it was typed by hand.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::SUITES;
use super::measurement::Measurement;
use super::report::Report;
use crate::failure::Result;
use crate::text::{amount, grouped, nanos};

/// Writes a report as Markdown.
#[derive(Debug, Args)]
pub(crate) struct Page {
    /// The report: what `quire bench --json` printed
    report: PathBuf,
}

impl Page {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        Page::write(&Report::read(&self.report)?, out)
    }

    pub(super) fn write(report: &Report, out: &mut dyn Write) -> Result {
        let Report { heading, results } = report;
        let (memory, calibration) = (heading.memory_bytes >> 30, &heading.calibration);
        writeln!(out, "# Benchmarks\n")?;
        writeln!(
            out,
            "Made by `quire bench all --json > report.json` and `quire bench page report.json`; not edited.\n"
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
        writeln!(
            out,
            "* Calibration (medians): hashing, looking up and copying 10,000 small records {}, `pwrite` and `fdatasync` of a block {}, a round trip on loopback {}, one between two processors through memory {}.",
            nanos(calibration.work_ns),
            nanos(calibration.sync_ns),
            nanos(calibration.loopback_ns),
            nanos(calibration.handover_ns)
        )?;
        writeln!(
            out,
            "* *Without Quire* is what one of these took before and behind the case: of `sync` cases the second, of served ones the third, where another process looks all the time the fourth, of all others the first."
        )?;
        writeln!(
            out,
            "* `zeros_ns` is what an entry's share of as many bytes of zeros took that were written to a file before the case, so that it has memory which the host of the machine has given already."
        )?;
        let missing = missing(results);
        if !missing.is_empty() {
            writeln!(out, "* Not measured: {}.", missing.join(", "))?;
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

/// The cases of `quire bench all` that are not among these.
fn missing(results: &[Measurement]) -> Vec<String> {
    let names: Vec<String> = results.iter().map(Measurement::name).collect();
    let cases = SUITES.iter().copied().flatten();
    let cases = cases.map(|case| format!("{} {} {}", case.suite, case.name, case.durability));
    cases.filter(|case| !names.contains(case)).collect()
}

/// The time that one of many entries took: in tenths of a nanosecond where that tells something.
fn an_entry(ns: f64) -> String {
    if ns < 1_000.0 { format!("{ns:.1} ns") } else { nanos(ns as u64) }
}

#[cfg(test)]
mod tests {
    use super::super::case::Case;
    use super::*;

    #[test]
    fn what_was_not_measured_is_named() {
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
