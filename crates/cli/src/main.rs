//! The `quire` command. It wires: flags to the database, the database to the servers, answers to the terminal.

mod bench;
mod calendar;
mod demo;
mod failure;
mod latencies;
mod promise;
mod serve;
mod servers;
mod stop;
mod stopwatch;
mod text;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::{Failure, Result};

/// One durable log that serves four models: streams, events, jobs and graphs
#[derive(Debug, Parser)]
#[command(name = "quire", version)]
struct Quire {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve a database over the Kafka protocol and HTTP
    Serve(serve::Serve),
    /// See it work: a week of flights through all four models
    Demo(demo::Demo),
    /// Measure how fast it is here
    Bench(bench::Bench),
}

fn main() -> ExitCode {
    let quire = Quire::parse();
    let mut out = io::stdout().lock();
    let done = run(quire.command, &mut out).and_then(|()| Ok(out.flush()?));
    match done {
        Ok(()) | Err(Failure::ClosedPipe) => ExitCode::SUCCESS,
        Err(Failure::Message(message)) => {
            eprintln!("quire: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command, out: &mut dyn Write) -> Result {
    match command {
        Command::Serve(serve) => serve.run(out),
        Command::Demo(demo) => demo.run(out),
        Command::Bench(bench) => bench.run(out),
    }
}
