//! `quire-chaos`: real processes on a real disk, killed, stopped and starved, for as long as told.
//!
//! ```text
//! rounds ─▶ a server, its clients, embedded writers, on one directory ─▶ what they were told: the ledger
//!              ▲                                                             │
//!              └── attacks: SIGKILL, SIGSTOP, a full disk, no file handles   ▼
//!                          the directory is opened and held against it: nothing lost, nothing twice, nothing half
//! ```
//!
//! What is told counts, and nothing else: an answer that was lost may be of a commit that happened or not. The moments of the attacks
//! follow from a seed, but what runs when is the machine's to say: a run is not the same twice. That is what the simulation is for.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod attack;
mod client;
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
    Run(Run),
    /// What a run starts itself as
    #[command(hide = true)]
    Client(client::Task),
    /// What a run starts every process through: a program that ends when the run does, however that ends
    #[command(hide = true)]
    Along(processes::Along),
}

/// What a run takes.
#[derive(Debug, clap::Args)]
struct Run {
    /// For how many seconds to go on; the last round may take longer
    #[arg(long, default_value = "40")]
    seconds: u64,
    /// The program `quire`, which serves
    #[arg(long, value_name = "FILE")]
    server: PathBuf,
    /// What the moments of the attacks are drawn from [default: at random]
    #[arg(long)]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Client(task) => {
            // A thread that ends by itself ends the process, which the run takes for what it is.
            task.work();
            return ExitCode::SUCCESS;
        }
        Command::Along(program) => program.become_it(),
        Command::Run(Run { seconds, server, seed }) => {
            place::remove_left();
            let seed = seed.unwrap_or_else(|| fastrand::u64(..));
            println!("the attacks are those of --seed {seed}");
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
