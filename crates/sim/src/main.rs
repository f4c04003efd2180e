//! `quire-sim`: runs seeds of the simulation until one fails, all have run, or the time is up.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use quire_sim::{RunReport, keep_quiet, run, shrink, steps};
#[cfg(target_os = "linux")]
use quire_sim::{agree, run_cluster};

/// Runs the database in a world that injects faults, and reports violations.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// The seeds to run, such as 0..1000
    #[arg(long, default_value = "0..1000", value_parser = range)]
    seeds: (u64, u64),
    /// Stop after this many minutes
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=MINUTES_MAX))]
    minutes: Option<u64>,
    /// Run one seed and show every event
    #[arg(long, conflicts_with_all = ["seeds", "minutes"])]
    seed: Option<u64>,
    /// Report the first failing run in one line, and do not shrink it
    #[arg(long)]
    brief: bool,
    /// Run only these steps of the seed
    #[arg(long, requires = "seed", value_delimiter = ',')]
    steps: Option<Vec<usize>>,
    /// Run schedules of the agreement of a cluster, without the database
    #[cfg(target_os = "linux")]
    #[arg(long, conflicts_with_all = ["steps", "brief"])]
    agreement: bool,
    /// Run clusters of databases
    #[cfg(target_os = "linux")]
    #[arg(long, conflicts_with_all = ["steps", "brief", "agreement"])]
    cluster: bool,
}

/// The default: a year.
const MINUTES_MAX: u64 = 366 * 24 * 60;

/// A panic outside of a run.
const COULD_NOT_RUN: u8 = 2;

fn range(text: &str) -> Result<(u64, u64), String> {
    let bounds = text.split_once("..").and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    bounds.filter(|(from, to)| from < to).ok_or_else(|| format!("invalid range {text}: use a range such as 0..1000"))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    keep_quiet();
    #[cfg(target_os = "linux")]
    if arguments.agreement {
        return agreement(&arguments).unwrap_or_else(|error| could_not_run(&error));
    }
    #[cfg(target_os = "linux")]
    if arguments.cluster {
        return cluster(&arguments).unwrap_or_else(|error| could_not_run(&error));
    }
    let outcome = match arguments.seed {
        Some(seed) => run_one(seed, arguments.steps.as_deref()),
        None => run_all(&arguments),
    };
    outcome.unwrap_or_else(|error| could_not_run(&error))
}

fn could_not_run(error: &io::Error) -> ExitCode {
    // Standard error may be closed, too.
    let _ = writeln!(io::stderr(), "quire-sim: {error}");
    ExitCode::from(COULD_NOT_RUN)
}

/// Runs schedules of the agreement of a cluster.
#[cfg(target_os = "linux")]
fn agreement(arguments: &Arguments) -> io::Result<ExitCode> {
    let Arguments { seeds: (from, to), minutes, seed: one, .. } = *arguments;
    #[expect(clippy::disallowed_methods, reason = "the time limit is real time, which no schedule sees")]
    let begun = Instant::now();
    let limit = minutes.map_or(Duration::MAX, |minutes| Duration::from_secs(minutes * 60));
    let seeds = one.map_or(from..to, |seed| seed..seed + 1);
    let (mut schedules, mut published, mut terms) = (0, 0, 0);
    for seed in seeds.take_while(|_| begun.elapsed() < limit) {
        let report = agree(seed, one.is_some());
        report.lines.iter().try_for_each(|line| tell(line))?;
        if let Some(failure) = report.failure {
            tell(&format!("seed {seed} fails: {failure}"))?;
            tell(&format!("replay it with: quire-sim --agreement --seed {seed}"))?;
            return Ok(ExitCode::FAILURE);
        }
        schedules += 1;
        published += report.published.get();
        terms += report.terms;
    }
    let seconds = begun.elapsed().as_secs_f64();
    tell(&format!(
        "{schedules} schedules with {published} published records and {terms} terms, none failed, in {seconds:.1} s"
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs clusters of databases.
#[cfg(target_os = "linux")]
fn cluster(arguments: &Arguments) -> io::Result<ExitCode> {
    let Arguments { seeds: (from, to), minutes, seed: one, .. } = *arguments;
    #[expect(clippy::disallowed_methods, reason = "the time limit is real time, which no run sees")]
    let begun = Instant::now();
    let limit = minutes.map_or(Duration::MAX, |minutes| Duration::from_secs(minutes * 60));
    let seeds = one.map_or(from..to, |seed| seed..seed + 1);
    let (mut runs, mut acknowledged, mut unsettled, mut terms, mut truncations) = (0, 0, 0, 0, 0);
    let (mut compacted, mut shipments) = (0, 0);
    for seed in seeds.take_while(|_| begun.elapsed() < limit) {
        let report = run_cluster(seed, one.is_some());
        report.lines.iter().try_for_each(|line| tell(line))?;
        if let Some(failure) = report.failure {
            tell(&format!("seed {seed} fails: {failure}"))?;
            tell(&format!("replay it with: quire-sim --cluster --seed {seed}"))?;
            return Ok(ExitCode::FAILURE);
        }
        runs += 1;
        acknowledged += report.acknowledged;
        unsettled += report.unsettled;
        terms += report.terms;
        truncations += report.truncations;
        compacted += report.compacted;
        shipments += report.shipments;
    }
    let seconds = begun.elapsed().as_secs_f64();
    tell(&format!(
        "{runs} clusters with {acknowledged} acknowledged and {unsettled} unsettled commits, {terms} terms, \
         {truncations} truncations, {compacted} nodes that compacted and {shipments} that got files, none failed, in \
         {seconds:.1} s"
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn run_one(seed: u64, only: Option<&[usize]>) -> io::Result<ExitCode> {
    let count = steps(seed);
    if let Some(beyond) = only.into_iter().flatten().find(|step| **step >= count) {
        let message = format!("unknown step {beyond}: seed {seed} has the steps 0 to {}", count - 1);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    show(&run(seed, only, true))
}

fn run_all(arguments: &Arguments) -> io::Result<ExitCode> {
    let Arguments { seeds: (from, to), minutes, .. } = *arguments;
    #[expect(clippy::disallowed_methods, reason = "the time limit is real time, which no run sees")]
    let begun = Instant::now();
    let limit = minutes.map_or(Duration::MAX, |minutes| Duration::from_secs(minutes * 60));
    let note = SeedFile::new()?;
    let (mut runs, mut steps) = (0, 0);
    for seed in from..to {
        if begun.elapsed() >= limit {
            break;
        }
        note.runs(seed)?;
        let report = run(seed, None, false);
        match &report.failure {
            Some(failure) if arguments.brief => {
                tell(&format!("seed {seed} fails: {}", failure.replace('\n', " ")))?;
                return Ok(ExitCode::FAILURE);
            }
            Some(_) => return fail(&report),
            None => {}
        }
        runs += 1;
        steps += report.steps;
    }
    tell(&format!("{runs} runs with {steps} steps, none failed, in {:.1} s", begun.elapsed().as_secs_f64()))?;
    Ok(ExitCode::SUCCESS)
}

fn fail(report: &RunReport) -> io::Result<ExitCode> {
    let seed = report.seed;
    tell(&format!("seed {seed} fails: {}", report.failure.as_deref().unwrap_or_default()))?;
    tell(&format!("replay it with: quire-sim --seed {seed}"))?;
    let kept = shrink(seed);
    let steps: Vec<String> = kept.iter().map(usize::to_string).collect();
    tell(&format!(
        "{} of its {} steps are enough: quire-sim --seed {seed} --steps {}",
        steps.len(),
        report.steps,
        steps.join(",")
    ))?;
    show(&run(seed, Some(&kept), true))
}

fn show(report: &RunReport) -> io::Result<ExitCode> {
    report.lines.iter().try_for_each(|line| tell(line))?;
    tell(&format!("trace {:016x}", report.hash))?;
    match &report.failure {
        None => Ok(ExitCode::SUCCESS),
        Some(failure) => {
            tell(&format!("FAILED at {failure}"))?;
            Ok(ExitCode::FAILURE)
        }
    }
}

fn tell(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
        .map_err(|error| io::Error::new(error.kind(), format!("can't write to standard output: {error}: {line}")))
}

/// A file that names the running seed. It is deleted when the program ends; a crash of the process
/// leaves it.
struct SeedFile {
    path: PathBuf,
    file: File,
}

impl SeedFile {
    fn new() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("quire-sim-{}", std::process::id()));
        let made = File::create(&path);
        let file =
            made.map_err(|error| io::Error::new(error.kind(), format!("can't make {}: {error}", path.display())))?;
        // Standard error may be closed.
        let _ = writeln!(io::stderr(), "if a run kills this process, {} has its seed", path.display());
        Ok(SeedFile { path, file })
    }

    fn runs(&self, seed: u64) -> io::Result<()> {
        // As long as any earlier content.
        self.file.write_all_at(format!("quire-sim --seed {seed:<20}\n").as_bytes(), 0)
    }
}

impl Drop for SeedFile {
    fn drop(&mut self) {
        // The file is no longer needed.
        let _ = fs::remove_file(&self.path);
    }
}
