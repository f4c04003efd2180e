//! `quire-sim`: runs seeds of the simulation until one fails, none are left, or the time is up.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use quire_sim::{Report, run, shrink};

/// Runs the database in a world that breaks everything, and shows what must not be.
#[derive(Debug, Parser)]
struct Arguments {
    /// The seeds to run, such as 0..1000
    #[arg(long, default_value = "0..1000", value_parser = range)]
    seeds: (u64, u64),
    /// Stop after so many minutes
    #[arg(long)]
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

fn range(text: &str) -> Result<(u64, u64), String> {
    let bounds = text.split_once("..").and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    bounds.filter(|(from, to)| from < to).ok_or_else(|| format!("{text} is not a range such as 0..1000"))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // A panic is a failure as others are, and told with its run.
    std::panic::set_hook(Box::new(|_| {}));
    match arguments.seed {
        Some(seed) => show(&run(seed, arguments.steps.as_deref(), true)),
        None => run_all(&arguments),
    }
}

fn run_all(arguments: &Arguments) -> ExitCode {
    let Arguments { seeds: (from, to), minutes, .. } = *arguments;
    #[expect(clippy::disallowed_methods, reason = "how long to go on is a matter of real time; no run knows of it")]
    let begun = Instant::now();
    let limit = minutes.map_or(Duration::MAX, |minutes| Duration::from_secs(minutes * 60));
    let (mut runs, mut steps) = (0, 0);
    for seed in from..to {
        if begun.elapsed() >= limit {
            break;
        }
        let report = run(seed, None, false);
        match &report.failure {
            Some(failure) if arguments.brief => {
                println!("seed {seed} fails: {}", failure.replace('\n', " "));
                return ExitCode::FAILURE;
            }
            Some(_) => return fail(&report),
            None => {}
        }
        runs += 1;
        steps += report.steps;
    }
    println!("{runs} runs with {steps} steps, none failed, in {:.1} s", begun.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}

fn fail(report: &Report) -> ExitCode {
    let seed = report.seed;
    println!("seed {seed} fails: {}", report.failure.as_deref().unwrap_or_default());
    println!("replay it with: quire-sim --seed {seed}");
    let steps: Vec<String> = shrink(seed).iter().map(usize::to_string).collect();
    let steps = steps.join(",");
    println!(
        "{} of its {} steps are enough: quire-sim --seed {seed} --steps {steps}",
        steps.split(',').count(),
        report.steps
    );
    let kept: Vec<usize> = steps.split(',').filter_map(|step| step.parse().ok()).collect();
    show(&run(seed, Some(&kept), true))
}

fn show(report: &Report) -> ExitCode {
    report.lines.iter().for_each(|line| println!("{line}"));
    println!("trace {:016x}", report.hash);
    match &report.failure {
        None => ExitCode::SUCCESS,
        Some(failure) => {
            println!("FAILED at {failure}");
            ExitCode::FAILURE
        }
    }
}
