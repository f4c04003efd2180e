//! `quire-sim`: runs seeds of the simulation until one fails, none are left, or the time is up.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use quire_sim::{Report, keep_quiet, run, shrink, steps};

/// Runs the database in a world that breaks everything, and shows what must not be.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// The seeds to run, such as 0..1000
    #[arg(long, default_value = "0..1000", value_parser = range)]
    seeds: (u64, u64),
    /// Stop after so many minutes
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=MINUTES_MAX))]
    minutes: Option<u64>,
    /// Run one seed and show every event
    #[arg(long, conflicts_with_all = ["seeds", "minutes"])]
    seed: Option<u64>,
    /// Tell of the first run that fails in one line, and do not shrink it
    #[arg(long)]
    brief: bool,
    /// Of that seed, run only these steps
    #[arg(long, requires = "seed", value_delimiter = ',')]
    steps: Option<Vec<usize>>,
}

/// A year of them.
const MINUTES_MAX: u64 = 366 * 24 * 60;

/// What ends the program with this is no failure of a run.
const COULD_NOT_RUN: u8 = 2;

fn range(text: &str) -> Result<(u64, u64), String> {
    let bounds = text.split_once("..").and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    bounds.filter(|(from, to)| from < to).ok_or_else(|| format!("{text} is not a range such as 0..1000"))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    keep_quiet();
    let outcome = match arguments.seed {
        Some(seed) => run_one(seed, arguments.steps.as_deref()),
        None => run_all(&arguments),
    };
    outcome.unwrap_or_else(|error| {
        // Nobody may be there to read this either.
        let _ = writeln!(io::stderr(), "quire-sim: {error}");
        ExitCode::from(COULD_NOT_RUN)
    })
}

fn run_one(seed: u64, only: Option<&[usize]>) -> io::Result<ExitCode> {
    let count = steps(seed);
    if let Some(beyond) = only.into_iter().flatten().find(|step| **step >= count) {
        let message = format!("there is no step {beyond}: those of seed {seed} are 0 to {}", count - 1);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    show(&run(seed, only, true))
}

fn run_all(arguments: &Arguments) -> io::Result<ExitCode> {
    let Arguments { seeds: (from, to), minutes, .. } = *arguments;
    #[expect(clippy::disallowed_methods, reason = "how long to go on is a matter of real time; no run knows of it")]
    let begun = Instant::now();
    let limit = minutes.map_or(Duration::MAX, |minutes| Duration::from_secs(minutes * 60));
    let note = Note::new()?;
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

fn fail(report: &Report) -> io::Result<ExitCode> {
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

fn show(report: &Report) -> io::Result<ExitCode> {
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

/// A file that says which seed runs. It is gone when the program ends; what takes the process along leaves it.
struct Note {
    path: PathBuf,
    file: File,
}

impl Note {
    fn new() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("quire-sim-{}", std::process::id()));
        let made = File::create(&path);
        let file =
            made.map_err(|error| io::Error::new(error.kind(), format!("can't make {}: {error}", path.display())))?;
        // Nobody may be there to read it.
        let _ = writeln!(io::stderr(), "should this process be killed by a run, {} says which", path.display());
        Ok(Note { path, file })
    }

    fn runs(&self, seed: u64) -> io::Result<()> {
        // As long as any before it.
        self.file.write_all_at(format!("quire-sim --seed {seed:<20}\n").as_bytes(), 0)
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        // It tells of nothing any more.
        let _ = fs::remove_file(&self.path);
    }
}
