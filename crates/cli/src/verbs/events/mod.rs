//! `quire events`: event stores, projections, subscriptions, import, export and copies.

mod append;
mod cloud;
mod copy;
mod forget;
mod named;
mod project;
mod read;
mod transfer;

use std::io::Write;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::client::Path;
use super::names::check_store;
use super::place::DatabaseArgs;
use super::print::{OutputForm, list, word};
use crate::failure::Result;
use append::Append;
use copy::Copy;
use forget::{Forget, RetainEventsArgs, TrimEventsArgs};
use named::{DropProjection, Projections, Subscribe, Subscriptions, Unsubscribe};
use project::Project;
use read::{ReadEvents, TailEvents};
use transfer::{ExportEvents, ImportEvents};

pub(crate) use transfer::is_event;

/// The commands of `quire events`.
#[derive(Debug, Subcommand)]
pub(crate) enum Events {
    /// List the event stores, each with the position of its last event
    #[command(visible_alias = "list")]
    Stores {
        #[command(flatten)]
        place: DatabaseArgs,
        #[command(flatten)]
        form: OutputForm,
    },
    /// Append an event, optionally under a condition
    Append(Append),
    /// Read events, filtered by type and tag
    Read(ReadEvents),
    /// Print events as they are appended, until Ctrl-C
    Tail(TailEvents),
    /// Fold events into a count, a sum or the last event
    Project(Project),
    /// Append the events of a file
    Import(ImportEvents),
    /// Export all events, one per line
    Export(ExportEvents),
    /// Copy events to another database; resumes an interrupted copy
    Copy(Copy),
    /// Show statistics of a store
    Stats {
        /// The event store, like air/flights
        store: String,
        #[command(flatten)]
        place: DatabaseArgs,
        #[command(flatten)]
        form: OutputForm,
    },
    /// List the named subscriptions of a store
    Subscriptions(Subscriptions),
    /// Create or change a named subscription, which delivers events as jobs of the queue with its
    /// name
    Subscribe(Subscribe),
    /// Delete a named subscription; delivered jobs stay in its queue
    Unsubscribe(Unsubscribe),
    /// List the saved projections of a store
    Projections(Projections),
    /// Delete the saved state of a projection, so that it is rebuilt
    DropProjection(DropProjection),
    /// Delete all events with a tag
    Forget(Forget),
    /// Delete all events up to a position
    Trim(TrimEventsArgs),
    /// Set how long events are kept
    Retain(RetainEventsArgs),
}

/// The filter of a read.
#[derive(Debug, Clone, Args)]
struct EventConditions {
    /// Only events of this type; given several times, of any of them
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Only events with this tag; given several times, with all of them
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
}

impl EventConditions {
    /// Adds the filter to the parameters of a read.
    fn on(&self, path: Path) -> Path {
        path.with_all("type", &self.types).with_all("tag", &self.tags)
    }

    /// The filter as a query in a request body.
    fn query(&self) -> Value {
        json!({ "items": [{ "types": self.types, "tags": self.tags }] })
    }
}

impl Events {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        match self {
            Events::Stores { place, form } => place.visit(|client| {
                let answer = client.get(&Path::new(&["events"]))?;
                let line = |store: &Value| format!("{:<32} {:>12}", word(store, "store"), word(store, "head"));
                form.print(out, list(&answer, "data"), line)
            }),
            Events::Append(append) => append.run(out),
            Events::Read(read) => read.run(out),
            Events::Tail(tail) => tail.run(out),
            Events::Project(project) => project.run(out),
            Events::Import(import) => import.run(out),
            Events::Export(export) => export.run(out),
            Events::Copy(copy) => copy.run(out),
            Events::Stats { store, place, form } => place.visit(|client| {
                let stats = client.get(&Path::new(&["events", &store, "stats"]))?;
                if stats["head"] == 0 {
                    check_store(client, &store)?;
                }
                let shown = ["head", "trimmed", "forgotten", "retention_ms", "sources", "subscriptions", "projections"];
                let line = |stats: &Value| shown.map(|name| format!("{name} {}", word(stats, name))).join("  ");
                form.print(out, std::slice::from_ref(&stats), line)
            }),
            Events::Subscriptions(subscriptions) => subscriptions.run(out),
            Events::Subscribe(subscribe) => subscribe.run(out),
            Events::Unsubscribe(unsubscribe) => unsubscribe.run(out),
            Events::Projections(projections) => projections.run(out),
            Events::DropProjection(drop) => drop.run(out),
            Events::Forget(forget) => forget.run(out),
            Events::Trim(trim) => trim.run(out),
            Events::Retain(retain) => retain.run(out),
        }
    }
}
