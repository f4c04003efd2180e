//! `quire events`: appends to event stores, reads, projections, import and export.

mod append;
mod cloud;
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
use project::Project;
use read::{Read, Tail};
use transfer::{Export, Import};

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
        }
    }
}
