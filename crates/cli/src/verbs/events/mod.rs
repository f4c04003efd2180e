//! `quire events`: appends to event stores, reads, projections, subscriptions, import, export and copies.

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
use super::place::Place;
use super::print::{Form, list, word};
use crate::failure::Result;
use append::Append;
use copy::Copy;
use forget::{Forget, Retain, Trim};
use named::{DropProjection, Projections, Subscribe, Subscriptions, Unsubscribe};
use project::Project;
use read::{Read, Tail};
use transfer::{Export, Import};

pub(crate) use transfer::is_event;

/// What `quire events` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Events {
    /// List the event stores, each with the position of its last event
    Stores {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        form: Form,
    },
    /// Append an event, on a condition if one is given
    Append(Append),
    /// Read events of any of the types that carry all of the tags
    Read(Read),
    /// Print events as they are appended, until Ctrl-C
    Tail(Tail),
    /// Fold events into a number, or the last of them
    Project(Project),
    /// Append the events of a file
    Import(Import),
    /// Write all events, one a line
    Export(Export),
    /// Copy the events of a store into another database, and go on where the last copy ended
    Copy(Copy),
    /// Show what there is of a store
    Stats {
        /// The event store, like air/flights
        store: String,
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        form: Form,
    },
    /// List the named subscriptions of a store
    Subscriptions(Subscriptions),
    /// Create or change a named subscription, which delivers events as jobs of the queue of its name
    Subscribe(Subscribe),
    /// Remove a named subscription; what it delivered stays in its queue
    Unsubscribe(Unsubscribe),
    /// List the saved projections of a store
    Projections(Projections),
    /// Remove the saved state of a projection, so that it is folded anew
    DropProjection(DropProjection),
    /// Let go of all events with a tag that were appended before, as if they had never been
    Forget(Forget),
    /// Let go of all events up to a position
    Trim(Trim),
    /// Set how long events are kept
    Retain(Retain),
}

/// Which events are meant.
#[derive(Debug, Clone, Args)]
struct Filter {
    /// Only events of this type; given several times, of any of them
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Only events with this tag; given several times, with all of them
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
}

impl Filter {
    /// As parameters of a read.
    fn on(&self, path: Path) -> Path {
        path.with_all("type", &self.types).with_all("tag", &self.tags)
    }

    /// As a query in a body.
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
                form.print(out, list(&answer, "stores"), line)
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
