//! `quire export`: rows of SQL as Parquet files, for DuckDB, Spark and other engines.
//!
//! ```text
//! plans: statements ─▶ reading: rows ─▶ ordered · snapshot ─▶ parquet_file ─▶ directory: temporary name, sync, rename
//!                                            ▲ position of the newest file ◀──────┘
//! ```
//!
//! # Invariants
//! * The files are the only state. An ordered export continues after the position in its newest
//!   file.
//! * A file appears whole, and after all earlier ones. A snapshot appears whole, as a directory.

#[cfg(feature = "parquet")]
mod cells;
#[cfg(feature = "parquet")]
mod directory;
#[cfg(feature = "parquet")]
mod disk;
#[cfg(feature = "parquet")]
mod ordered;
#[cfg(feature = "parquet")]
mod parquet_file;
#[cfg(feature = "parquet")]
mod plans;
#[cfg(feature = "parquet")]
mod reading;
#[cfg(feature = "parquet")]
mod snapshot;

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::place::DatabaseArgs;
#[cfg(not(feature = "parquet"))]
use crate::failure::CommandError;
use crate::failure::Result;

/// Arguments of `quire export`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  quire export --parquet ./lake/orders --events orders --data ./data
  quire export --parquet ./lake/late --follow --http http://127.0.0.1:7070 \\
    \"SELECT position, time_ms, data FROM events WHERE store = 'orders' AND position > :after ORDER BY position\"")]
pub(crate) struct ExportVerb {
    /// A SELECT. With :after, which is the position in the newest file, it is an ordered export: it
    /// must be ordered by the column of --position
    #[arg(required_unless_present_any = ["events", "records", "jobs", "graph"])]
    #[arg(conflicts_with_all = ["events", "records", "jobs", "graph"])]
    statement: Option<String>,
    /// Directory for the files. A snapshot needs a new or empty one
    #[arg(long, value_name = "DIR", required = true)]
    parquet: PathBuf,
    /// Export the events of a store, ordered
    #[arg(long, value_name = "STORE", conflicts_with_all = ["records", "jobs", "graph"])]
    events: Option<String>,
    /// Export the messages of a topic, ordered, each partition into a directory
    #[arg(long, value_name = "TOPIC", conflicts_with_all = ["jobs", "graph"])]
    records: Option<String>,
    /// Export the jobs of a queue as they are now, a snapshot
    #[arg(long, value_name = "QUEUE", conflicts_with = "graph")]
    jobs: Option<String>,
    /// Export the blocks and the edges of a graph, a snapshot
    #[arg(long, value_name = "GRAPH")]
    graph: Option<String>,
    /// Continue with new rows until Ctrl-C; for an ordered export
    #[arg(long)]
    follow: bool,
    /// Milliseconds between two looks for new rows
    #[arg(long, value_name = "MS", default_value_t = 60_000, requires = "follow")]
    interval_ms: u64,
    /// Column of a statement with :after that says where to continue: an integer that grows with
    /// each row
    #[arg(long, value_name = "COLUMN", default_value = "position")]
    position: String,
    /// Column whose UTC day is the directory of a row, in milliseconds since 1970 [default: time_ms
    /// or else enqueued_at_ms; no directories without them]
    #[arg(long, value_name = "COLUMN")]
    day_of: Option<String>,
    /// Type of a column, like data=binary [default: the type of the column of a table, and that of
    /// the first values of a statement]
    #[arg(long = "type", value_name = "COLUMN=TYPE", value_parser = parse_type)]
    types: Vec<(String, ExportType)>,
    #[command(flatten)]
    place: DatabaseArgs,
}

/// The type of a column in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExportType {
    /// A 64-bit integer.
    Integer,
    /// A 64-bit floating-point number.
    Real,
    /// UTF-8.
    Text,
    /// Bytes.
    Binary,
}

fn parse_type(text: &str) -> Result<(String, ExportType), String> {
    let expected = "expected COLUMN=integer, COLUMN=real, COLUMN=text or COLUMN=binary";
    let (column, kind) = text.split_once('=').ok_or(expected)?;
    Ok((column.to_owned(), ExportType::from_str(kind, false).map_err(|_| expected)?))
}

impl ExportVerb {
    #[cfg(not(feature = "parquet"))]
    pub(crate) fn run(self, _: &mut dyn Write) -> Result {
        // Each build has the arguments and their help.
        let ExportVerb { statement, parquet, events, records, jobs, graph, position, day_of, types, place, .. } = self;
        drop((statement, parquet, events, records, jobs, graph, position, day_of, types, place));
        let (_follow, _interval_ms) = (self.follow, self.interval_ms);
        let message = "this build has no Parquet: build it with `cargo build --release --features quire-cli/parquet`";
        Err(CommandError::NotHere(message.to_owned()))
    }

    #[cfg(feature = "parquet")]
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        use plans::{Export, ExportRequest};

        let request = ExportRequest {
            statement: self.statement,
            events: self.events,
            records: self.records,
            jobs: self.jobs,
            graph: self.graph,
            position: self.position,
        };
        let export = Export::of(request);
        let options = ordered::ExportOptions { day_of: self.day_of, types: self.types };
        let interval = self.follow.then(|| std::time::Duration::from_millis(self.interval_ms));
        self.place.visit(|client| match export {
            Export::Snapshot(snapshot) => snapshot::run(client, &snapshot, &self.parquet, &options, self.follow, out),
            Export::Ordered(source) => ordered::run(client, &source, &self.parquet, &options, interval, out),
        })
    }
}
