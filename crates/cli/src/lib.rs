//! The `quire` command. It connects flags to the database, the database to the servers, and results
//! to the terminal.
//!
//! It is a library for two users. Fuzz targets call the parsers in [`outside`]. The benchmarks, the
//! crate `quire-bench`, use its flags, errors and clock. [`main`] is the command.

mod calendar;
mod cluster;
mod config;
mod connections;
mod demo;
pub mod durability;
mod exposure;
pub mod failure;
mod graph_memory;
mod grpc;
mod http;
mod kafka;
pub mod latencies;
mod logging;
mod memory;
mod oidc;
pub mod opening;
#[cfg(feature = "otlp")]
mod otlp;
pub mod outside;
mod private_directory;
mod profile;
mod progress;
mod reload;
mod serve;
mod served_address;
mod server_address;
mod servers;
mod service_manager;
mod settings;
mod shell;
pub mod stop;
pub mod stopwatch;
mod storage;
pub mod text;
pub mod threads;
mod tls;
mod tools;
mod verbs;
mod watch;
pub mod with_parent;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::{CommandError, Result, aside};
use settings::ParsedArguments;

/// The commit that the program was built from, as `git describe` names it.
pub const COMMIT: &str = env!("QUIRE_COMMIT");

/// The profile that the program was built with.
pub const PROFILE: &str = env!("QUIRE_PROFILE");

/// The commands in groups. A test checks that no command is missing.
const HELP: &str = "\
{about-section}
{usage-heading} {usage}

Run:
  serve    Serve a database over the Kafka protocol, HTTP and gRPC
  config   Check and print the settings of `serve`
  demo     See it work: an order, a race, two crashes, a week of real flights

Use a database in a directory (--data DIR) or behind a server (--http URL):
  commit   Commit parts of any models, all or none
  events   Event stores: list, append, read, tail, project, import, export
  topics   Topics: list, describe, create, alter, delete
  groups   Consumer groups: list, describe, reset, delete
  consume  Read the messages of a topic
  jobs     Queues: enqueue, work, list, show, retry, cancel, hold, move, bulk
  graph    Graphs: put, get, delete, blocks, link, unlink, neighbours, walk, path, import, export
  produce  Produce messages to a topic
  sql      Run read-only SQL over all models, or open a shell for it
  index    Text indexes over events, for `sql`: create, list, delete
  export   Export any rows as Parquet files, and continue with new ones
  refusals Show the last refused commits of a server, with their reasons
  history  Show figures of the last hour of a server

Administer a database:
  access   Users, API keys, roles and rules
  cluster  Members of a cluster: status, remove, replace, transfer, recover

Maintain a database, also while it is in use:
  stat     Show counts, latencies and consumer group lag
  top      Show rates, refreshed until Ctrl-C
  verify   Check every byte, and report damage
  inspect  Show the contents of its files
  repair   Rebuild files that follow from the log
  compact  Rewrite segments without expired, deleted and finished data
  backup   Back it up
  restore  Create a database from a backup
  salvage  Copy every whole record of a damaged database to a new one

Set up a shell:
  completions  Print completions for a shell
  man          Write man pages

Options:
{options}

Examples:
  quire demo --keep
  quire serve --data ./data --durability sync
  quire events read air/flights --data ./data --type Departed --tag plane:N14228
  quire consume departures --http http://127.0.0.1:7070 --limit 10 --json

Run `quire COMMAND --help` for the options of a command.
";

/// One durable log that serves four models: streams, events, jobs and graphs.
///
/// One commit may append events under a condition, produce to a topic, enqueue or acknowledge a job
/// and change a graph: all of it, or none.
#[derive(Debug, Parser)]
#[command(name = "quire", version, help_template = HELP)]
struct Quire {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve a database over the Kafka protocol, HTTP and gRPC
    Serve(Box<serve::Serve>),
    /// Check and print the settings of `quire serve`
    #[command(subcommand)]
    Config(config::Config),
    /// See it work: an order, a race, two crashes, a week of real flights
    Demo(demo::Demo),
    /// Show counts, latencies and consumer group lag
    Stat(tools::Stat),
    /// Show rates, refreshed until Ctrl-C
    Top(tools::Top),
    /// Check every byte of a database; the exit status is 3 when damage is found
    Verify(tools::Verify),
    /// Show the contents of database files: segments, records, entries, tags
    Inspect(tools::Inspect),
    /// Rebuild files that follow from the log; without --yes, only print the plan
    Repair(tools::Repair),
    /// Rewrite segments now, without expired, deleted and finished data
    Compact(verbs::Compact),
    /// Back up a database while it is in use
    Backup(tools::Backup),
    /// Create a database from a backup, and verify it
    Restore(tools::Restore),
    /// Copy every whole record of a damaged database to a new one; the exit status is 3 when
    /// records are lost
    Salvage(tools::Salvage),
    /// Commit parts of any models, all or none
    Commit(verbs::CommitFile),
    /// Append, read and follow events
    #[command(subcommand)]
    Events(verbs::Events),
    /// List, create, alter and delete topics
    #[command(subcommand)]
    Topics(verbs::Topics),
    /// List consumer groups and reset their offsets
    #[command(subcommand)]
    Groups(verbs::Groups),
    /// Read the messages of a topic
    Consume(verbs::Consume),
    /// Produce a message to a topic, or one for each line of standard input
    Produce(verbs::Produce),
    /// Enqueue, work, list and change jobs
    #[command(subcommand)]
    Jobs(verbs::Jobs),
    /// Put blocks and edges, walk, import and export
    #[command(subcommand)]
    Graph(verbs::Graph),
    /// Run read-only SQL over events, messages, jobs and graphs, or open a shell for it
    Sql(verbs::SqlVerb),
    /// Create, list and delete text indexes over event stores
    #[command(subcommand)]
    Index(verbs::IndexVerb),
    /// Export events, messages, jobs, graphs or a SELECT as Parquet files
    Export(Box<verbs::ExportVerb>),
    /// Show the last refused commits of a server, with their reasons
    Refusals(verbs::Refusals),
    /// Show figures of the last hour of a server, one sample every 10 seconds
    History(verbs::HistoryVerb),
    /// Create users, API keys, roles and access rules
    #[command(subcommand)]
    Access(verbs::AccessVerb),
    /// Show and change the members of a cluster
    #[command(subcommand)]
    Cluster(verbs::ClusterVerb),
    /// Print completions for a shell
    Completions(shell::Completions),
    /// Write man pages, one for each command
    Man(shell::ManPages),
    /// Run this program as a child that ends when its parent does
    #[command(hide = true)]
    WithParent(with_parent::WithParent),
}

/// Runs the command and returns its exit status.
pub fn main() -> ExitCode {
    exit_status(|out| settings::parse().and_then(|arguments| run(arguments, out)))
}

/// Runs a command with the standard output. Returns its exit status, after its error was printed.
pub fn exit_status(command: impl FnOnce(&mut dyn Write) -> Result) -> ExitCode {
    let mut out = io::stdout().lock();
    let done = command(&mut out).and_then(|()| Ok(out.flush()?));
    match done {
        Ok(()) | Err(CommandError::ClosedPipe) => ExitCode::SUCCESS,
        Err(CommandError::Damaged) => ExitCode::from(3),
        Err(CommandError::Interrupted) => ExitCode::from(130),
        Err(CommandError::Message(message) | CommandError::NotHere(message)) => {
            aside(format_args!("quire: {message}"));
            ExitCode::FAILURE
        }
        // As for arguments that can't be parsed.
        Err(CommandError::Usage(message)) => {
            aside(format_args!("quire: {message}"));
            ExitCode::from(2)
        }
    }
}

fn run(arguments: ParsedArguments, out: &mut dyn Write) -> Result {
    let ParsedArguments { quire, settings, file } = arguments;
    match quire.command {
        Command::Serve(serve) => serve.run(settings, out),
        Command::Config(config) => config.run(&settings, file.as_deref(), out),
        Command::Demo(demo) => demo.run(out),
        Command::Stat(stat) => stat.run(out),
        Command::Top(top) => top.run(out),
        Command::Verify(verify) => verify.run(out),
        Command::Inspect(inspect) => inspect.run(out),
        Command::Repair(repair) => repair.run(out),
        Command::Compact(compact) => compact.run(out),
        Command::Cluster(cluster) => cluster.run(out),
        Command::Backup(backup) => backup.run(out),
        Command::Restore(restore) => restore.run(out),
        Command::Salvage(salvage) => salvage.run(out),
        Command::Commit(commit) => commit.run(out),
        Command::Events(events) => events.run(out),
        Command::Topics(topics) => topics.run(out),
        Command::Groups(groups) => groups.run(out),
        Command::Consume(consume) => consume.run(out),
        Command::Produce(produce) => produce.run(out),
        Command::Jobs(jobs) => jobs.run(out),
        Command::Graph(graph) => graph.run(out),
        Command::Sql(sql) => sql.run(out),
        Command::Index(index) => index.run(out),
        Command::Export(export) => export.run(out),
        Command::Refusals(refusals) => refusals.run(out),
        Command::History(history) => history.run(out),
        Command::Access(access) => access.run(out),
        Command::Completions(completions) => completions.run(out),
        Command::Man(pages) => pages.run(),
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
    fn the_help_lists_every_command_once() {
        let help = Quire::command().render_help().to_string();
        for command in Quire::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            let lines = help.lines().filter(|line| line.starts_with(&format!("  {name} ")));
            assert_eq!(lines.count(), 1, "{name} in\n{help}");
        }
    }
}
