//! The `quire` command. It wires: flags to the database, the database to the servers, answers to the terminal.
//!
//! It is a library for what is parsed of outside bytes to be within reach of fuzz targets: [`main`] is the command, and [`outside`] those
//! parsers. Nothing else is public.

mod bench;
mod calendar;
mod demo;
mod failure;
mod graph_memory;
mod http;
mod kafka;
mod latencies;
mod opening;
pub mod outside;
mod profile;
mod progress;
mod promise;
mod serve;
mod servers;
mod stop;
mod stopwatch;
mod text;
mod threads;
mod tools;
mod verbs;
mod with_parent;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::{Failure, Result, aside};

/// The commands stand in groups here; a test checks that none is missing.
const HELP: &str = "\
{about-section}
{usage-heading} {usage}

Run it:
  serve    Serve a database over the Kafka protocol, HTTP and gRPC
  demo     See it work: an order, a race, two crashes, a week of real flights
  bench    Measure how fast it is here

Use a database, in a folder (--data DIR) or behind a server (--http ADDR):
  events   Event stores: stores, append, read, tail, project, import, export
  topics   Topics: list, describe, create, alter, delete
  groups   Consumer groups: list, describe, reset, delete
  consume  Read the messages of a topic
  jobs     Queues: enqueue, work, list, show, retry, cancel, hold, move, bulk
  graph    Graphs: put, get, delete, blocks, link, unlink, neighbours, walk, path, import, export
  produce  Produce messages to a topic

Look after a database, also while it is at work:
  stat     What it has done: counts and latencies
  top      The same as rates, again and again
  verify   Go through every byte, and name each damage
  inspect  Show what its files hold
  repair   Make anew what follows from the log
  compact  Rewrite its segments without what no longer counts
  backup   Copy it as it stands after one record
  restore  Make a database of such a copy

Options:
{options}

Examples:
  quire demo --keep
  quire serve --data ./data --durability sync
  quire events read air/flights --data ./data --type Departed --tag plane:N14228
  quire consume departures --http 127.0.0.1:7070 --limit 10 --json

`quire COMMAND --help` says more.
";

/// One durable log that serves four models: streams, events, jobs and graphs. One commit may append events under a condition,
/// produce to a topic, enqueue or acknowledge a job and change a graph: all of it, or none.
#[derive(Debug, Parser)]
#[command(name = "quire", version, help_template = HELP)]
struct Quire {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve a database over the Kafka protocol, HTTP and gRPC
    Serve(serve::Serve),
    /// See it work: an order, a race, two crashes, a week of real flights
    Demo(demo::Demo),
    /// Measure how fast it is here
    Bench(bench::Bench),
    /// Show what a database has done, counts and latencies, and how far consumer groups are behind
    Stat(tools::Stat),
    /// Show what a database does, again and again, as rates
    Top(tools::Top),
    /// Go through every byte of a database, and name each damage; the status is 3 when there is any
    Verify(tools::Verify),
    /// Show what the files of a database hold: segments, records, entries, tags
    Inspect(tools::Inspect),
    /// Make anew what follows from the log: says what it would do, and does it with --yes
    Repair(tools::Repair),
    /// Rewrite the segments of a database without what no longer counts, now rather than when enough has gathered
    Compact(verbs::Compact),
    /// Copy a database as it stands after one record, while it is at work
    Backup(tools::Backup),
    /// Make a database of a backup, and verify it
    Restore(tools::Restore),
    /// Append to event stores, read and follow them
    #[command(subcommand)]
    Events(verbs::Events),
    /// Look at topics, create, alter and delete them
    #[command(subcommand)]
    Topics(verbs::Topics),
    /// Look at consumer groups, and have them go on elsewhere
    #[command(subcommand)]
    Groups(verbs::Groups),
    /// Read the messages of a topic
    Consume(verbs::Consume),
    /// Produce a message to a topic, or one for each line of the input
    Produce(verbs::Produce),
    /// Enqueue jobs, work on them, look at them and change them
    #[command(subcommand)]
    Jobs(verbs::Jobs),
    /// Put blocks and edges, walk along them, import and export
    #[command(subcommand)]
    Graph(verbs::Graph),
    /// Run this program as a child that ends when its parent does
    #[command(hide = true)]
    WithParent(with_parent::WithParent),
}

/// The command: what it was started with, and the status that it ends with.
pub fn main() -> ExitCode {
    let quire = Quire::parse();
    let mut out = io::stdout().lock();
    let done = run(quire.command, &mut out).and_then(|()| Ok(out.flush()?));
    match done {
        Ok(()) | Err(Failure::ClosedPipe) => ExitCode::SUCCESS,
        Err(Failure::Damaged) => ExitCode::from(3),
        Err(Failure::Interrupted) => ExitCode::from(130),
        Err(Failure::Message(message) | Failure::NotHere(message)) => {
            aside(format_args!("quire: {message}"));
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command, out: &mut dyn Write) -> Result {
    match command {
        Command::Serve(serve) => serve.run(out),
        Command::Demo(demo) => demo.run(out),
        Command::Bench(bench) => bench.run(out),
        Command::Stat(stat) => stat.run(out),
        Command::Top(top) => top.run(out),
        Command::Verify(verify) => verify.run(out),
        Command::Inspect(inspect) => inspect.run(out),
        Command::Repair(repair) => repair.run(out),
        Command::Compact(compact) => compact.run(out),
        Command::Backup(backup) => backup.run(out),
        Command::Restore(restore) => restore.run(out),
        Command::Events(events) => events.run(out),
        Command::Topics(topics) => topics.run(out),
        Command::Groups(groups) => groups.run(out),
        Command::Consume(consume) => consume.run(out),
        Command::Produce(produce) => produce.run(out),
        Command::Jobs(jobs) => jobs.run(out),
        Command::Graph(graph) => graph.run(out),
        Command::WithParent(child) => child.run(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_flags_do_not_contradict_each_other() {
        Quire::command().debug_assert();
    }

    #[test]
    fn every_command_stands_in_the_help_once() {
        let help = Quire::command().render_help().to_string();
        for command in Quire::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            let lines = help.lines().filter(|line| line.starts_with(&format!("  {name} ")));
            assert_eq!(lines.count(), 1, "{name} in\n{help}");
        }
    }
}
