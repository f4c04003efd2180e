//! `quire-bench`: benchmarks through the public API.
//!
//! ```text
//! suites (log, events, ...) ─▶ Case ─▶ Run: a scratch directory per case ─▶ CaseResult ─▶ Measurement ─▶ table, or JSON lines
//! ```
//! A suite is a directory or a file of this module that lists its cases. Selection, running and
//! printing are the same for all.

mod calibration;
mod case;
mod child;
mod cluster;
mod cold;
mod compare;
mod counters;
mod events;
mod graph;
mod heading;
mod jobs;
mod kafka;
mod kept_connection;
mod limit;
mod log;
mod measurement;
mod memory;
mod others;
mod output;
mod page;
mod report;
mod room;
mod scratch;
mod served;
mod size;
mod streams;
mod undisturbed;
mod zeros;

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use calibration::LimitingResource;
use case::{Case, CaseRun};
use compare::Compare;
use events::Dataset;
use heading::Heading;
use measurement::OTHERS;
use others::OtherPrograms;
use page::ReportPage;
use quire_cli::durability::DurabilityArg;
use quire_cli::failure::{CommandError, Result, aside};
use quire_cli::stop::StopSignal;
use quire_cli::threads;
use report::BenchReport;
use scratch::ScratchDirectory;

/// The cases of every suite, in the order in which they run.
const SUITES: &[&[Case]] =
    &[log::CASES, streams::CASES, events::CASES, jobs::CASES, graph::CASES, kafka::CASES, cluster::CASES];

/// Measure the speed of this machine.
#[derive(Debug, Parser)]
#[command(name = "quire-bench", version, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
struct Bench {
    #[command(subcommand)]
    other: Option<BenchCommand>,
    /// Suite to run
    #[arg(required_unless_present = "list", value_parser = ["all", "log", "streams", "events", "jobs", "graph", "kafka", "cluster"])]
    suite: Option<String>,
    /// List the cases, and run nothing
    #[arg(long)]
    list: bool,
    /// Run only the case with this name, or the cases whose names start with it; may be given
    /// several times
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,
    /// Append only this course data set; for the suite `events`
    #[arg(long, value_enum, conflicts_with = "cases")]
    dataset: Option<Dataset>,
    /// Run only with this durability [default: both]
    #[arg(long, value_enum)]
    durability: Option<DurabilityArg>,
    /// Running Kafka broker to load, with its durability as --durability; for the suite `kafka`
    /// [default: each case starts its own `quire serve`]
    #[arg(long, value_name = "HOST:PORT", requires = "durability")]
    bootstrap: Option<String>,
    /// Servers of a case: 1 is a server alone; for the suite `cluster`
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=9))]
    nodes: u32,
    /// Operations per case [default: set by the case, see --list]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    ops: Option<u64>,
    /// Directory for the databases, which are removed afterwards [default: the system's temporary
    /// directory]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print one JSON object per line: first machine and commit, then each case
    #[arg(long)]
    json: bool,
}

/// The commands of `quire` that a case starts as a server of its own.
const SERVER_COMMANDS: [&str; 2] = ["serve", "with-parent"];

/// Runs the program and returns its exit status.
pub fn main() -> ExitCode {
    let is_server = |argument: std::ffi::OsString| SERVER_COMMANDS.iter().any(|command| argument == *command);
    if std::env::args_os().nth(1).is_some_and(is_server) {
        return quire_cli::main();
    }
    let bench = Bench::parse();
    quire_cli::exit_status(|out| bench.run(out))
}

/// The commands that run no case.
#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Compare two reports, and fail when a case is slower
    Compare(Compare),
    /// Print a report as a page of Markdown
    Page(ReportPage),
    /// The other process of the case `handoff`
    #[command(hide = true)]
    Handler(streams::Handler),
    /// Another process of the cases `append-processes` and `recover`
    #[command(hide = true)]
    Appender(log::AppenderProcess),
    /// Another process of the case `entry-append-processes`
    #[command(hide = true)]
    EntryAppender(log::EntryAppender),
    /// The other process of the case `entry-seen-spinning`
    #[command(hide = true)]
    EntryWatcher(log::EntryWatcher),
    /// The other process of the cases `seen-spinning` and `seen-sleeping`
    #[command(hide = true)]
    Watcher(log::WatcherProcess),
}

impl Bench {
    fn run(self, out: &mut dyn Write) -> Result {
        match self.other {
            Some(BenchCommand::Compare(compare)) => return compare.run(out),
            Some(BenchCommand::Page(page)) => return page.run(out),
            Some(BenchCommand::Handler(handler)) => return handler.run(out),
            Some(BenchCommand::Appender(appender)) => return appender.run(out),
            Some(BenchCommand::EntryAppender(appender)) => return appender.run(out),
            Some(BenchCommand::EntryWatcher(watcher)) => return watcher.run(out),
            Some(BenchCommand::Watcher(watcher)) => return watcher.run(out),
            None => {}
        }
        let selected: Vec<&Case> = SUITES.iter().copied().flatten().filter(|case| self.selects(case)).collect();
        if self.list {
            return Ok(output::list(out, &selected)?);
        }
        let of_suite = |case: &&Case| self.suite.as_deref().is_none_or(|suite| suite == "all" || suite == case.suite);
        let is_known =
            |name: &str| SUITES.iter().copied().flatten().filter(of_suite).any(|case| is_meant(case.name, name));
        if let Some(unknown) = self.cases.iter().find(|name| !is_known(name)) {
            return Err(CommandError::new(format!("unknown case {unknown}; `quire-bench --list` lists the cases")));
        }
        if self.dataset.is_some() && self.suite.as_deref().is_some_and(|suite| suite != "events") {
            return Err(CommandError::new("--dataset selects cases of the suite `events` only"));
        }
        if selected.is_empty() {
            return Err(CommandError::new("no case matches; `quire-bench --list` lists the cases"));
        }
        let runtime = threads::start(1)?;
        let stop = StopSignal::on_signals(&runtime)?;
        let scratch = ScratchDirectory::create(self.data.as_deref())?;
        let heading = Heading::here(scratch.path())?;
        match self.json {
            true => output::json_line(out, &heading)?,
            false => output::heading(out, &heading, scratch.path())?,
        }
        for case in selected {
            let path = scratch.path().join(format!("{}-{}-{}", case.suite, case.name, case.durability));
            let (ops, bootstrap, nodes) = (self.ops.unwrap_or(case.ops), self.bootstrap.as_deref(), self.nodes);
            let run = CaseRun { case, ops, path, bootstrap, nodes, stop: &stop };
            let bound = LimitingResource::of(case);
            let mut idle = bound.sample(scratch.path())?;
            let others = OtherPrograms::begin();
            let measured = match (case.run)(&run) {
                Err(CommandError::NotHere(why)) => {
                    aside(format_args!("{} {} {}: not measured: {why}", case.suite, case.name, case.durability));
                    None
                }
                measured => Some(measured?),
            };
            // A broker that ran before is not a part of the case.
            let others = others.filter(|_| bootstrap.is_none()).and_then(OtherPrograms::percent);
            idle.add(&bound.sample(scratch.path())?);
            if run.path.exists() {
                fs::remove_dir_all(&run.path)
                    .map_err(|error| CommandError::at(format_args!("remove {}", run.path.display()), error))?;
            }
            let Some(measured) = measured else { continue };
            let measured = others.into_iter().fold(measured, |measured, percent| measured.with(OTHERS, percent));
            let measurement = measured.of(case, idle.quantile_ns(0.5));
            match self.json {
                true => output::json_line(out, &measurement)?,
                false => output::row(out, &measurement)?,
            }
        }
        Ok(())
    }

    fn selects(&self, case: &Case) -> bool {
        let suite = self.suite.as_deref().is_none_or(|suite| suite == "all" || suite == case.suite);
        let durability = self.durability.is_none_or(|promise| case.durability == promise.into());
        let named = match self.dataset {
            Some(dataset) => case.suite == "events" && case.name == dataset.case(),
            None => self.cases.is_empty() || self.cases.iter().any(|name| is_meant(case.name, name)),
        };
        // A case that needs no broker omits the broker from its facts.
        let for_broker = self.bootstrap.is_none() || (case.suite == "kafka" && case.name != kafka::COLD_START);
        suite && durability && named && for_broker
    }
}

/// Whether a name selects a case: the full name, or a prefix that is not the full name of another
/// case.
fn is_meant(case: &str, name: &str) -> bool {
    let is_whole = SUITES.iter().copied().flatten().any(|case| case.name == name);
    if is_whole { case == name } else { case.starts_with(name) }
}

/// A report of `quire-bench --json`, which is compared with itself and printed as a page. Returns
/// whether the bytes are one, for the fuzz target.
pub fn report(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let Ok(report) = BenchReport::parse(text) else { return false };
    let rows = compare::rows(&report, &report);
    assert_eq!(rows.len(), report.results.len(), "each case is one of its own report");
    ReportPage::write(&report, &mut std::io::sink()).expect("nothing refuses to be written to");
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_selects_its_case_or_the_cases_with_that_prefix() {
        let meant = |name: &str| {
            let names = SUITES.iter().copied().flatten().map(|case| case.name);
            names.filter(|case| is_meant(case, name)).collect::<Vec<_>>()
        };
        assert_eq!(meant("grpc-append-clients-1"), ["grpc-append-clients-1"]);
        assert_eq!(
            meant("grpc-append-clients"),
            ["grpc-append-clients-1", "grpc-append-clients-16", "grpc-append-clients-64"]
        );
    }

    #[test]
    fn each_data_set_has_one_case() {
        for dataset in [Dataset::Tiny, Dataset::Small, Dataset::Large] {
            assert_eq!(events::CASES.iter().filter(|case| case.name == dataset.case()).count(), 1);
        }
    }

    #[test]
    fn the_name_of_every_result_is_unique() {
        let mut names: Vec<_> =
            SUITES.iter().copied().flatten().map(|case| (case.suite, case.name, case.durability)).collect();
        let count = names.len();
        names.sort_by_key(|(suite, name, durability)| (*suite, *name, durability.to_string()));
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
