//! `quire-chaos`: real processes on a real disk, killed, stopped and starved, for a given time.
//!
//! ```text
//! rounds ─▶ a server, its clients, embedded writers, on one directory ─▶ what they were told: the ledger
//!              ▲                                                             │
//!              └── attacks: SIGKILL, SIGSTOP, a full disk, no file handles   ▼
//!                          the directory is opened and held against it: nothing lost, nothing twice, nothing half
//! ```
//!
//! Only received answers count: a commit whose answer was lost may have happened or not. The
//! moments of the attacks follow from a seed, but scheduling depends on the machine. So no run
//! repeats exactly; the simulation's runs do.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod attack;
mod client;
mod cluster;
mod inspect;
mod ledger;
mod place;
mod processes;
mod round;

/// Attacks a database from outside.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run rounds of processes and attacks until the time is up
    Run(RunArguments),
    /// Attack the servers of one cluster until the time is up
    Cluster(ClusterArguments),
    /// Run one client (a run starts its clients with this command)
    #[command(hide = true)]
    Client(client::Task),
    /// Run a program that ends with the run, even if the run is killed (used for every process of a
    /// run)
    #[command(hide = true)]
    WithParent(processes::WrapArguments),
}

/// The options of a run of a cluster.
#[derive(Debug, clap::Args)]
struct ClusterArguments {
    #[command(flatten)]
    run: RunArguments,
    /// Only kill leaders, to measure the gaps
    #[arg(long)]
    figures: bool,
}

/// The options of a run.
#[derive(Debug, clap::Args)]
struct RunArguments {
    /// How many seconds to run; the last round may take longer
    #[arg(long, default_value = "40")]
    seconds: u64,
    /// The program `quire`, for the server
    #[arg(long, value_name = "FILE")]
    server: PathBuf,
    /// The seed of the attacks' moments [default: random]
    #[arg(long)]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Client(task) => {
            // A thread that panics ends the process, which the run reports.
            task.work();
            return ExitCode::SUCCESS;
        }
        Command::WithParent(program) => program.become_it(),
        Command::Cluster(ClusterArguments { run: RunArguments { seconds, server, seed }, figures }) => {
            place::remove_left();
            let seed = seed.unwrap_or_else(|| fastrand::u64(..));
            cluster::run(seconds, &server, seed, figures)
        }
        Command::Run(RunArguments { seconds, server, seed }) => {
            place::remove_left();
            let seed = seed.unwrap_or_else(|| fastrand::u64(..));
            println!("repeat the attacks with --seed {seed}");
            round::run(seconds, &server, seed)
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("FAILED: {message}");
            ExitCode::FAILURE
        }
    }
}
