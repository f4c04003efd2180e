//! `quire events forget`, `trim`, `retain`: which events a store lets go of.

use std::io::Write;

use clap::Args;
use serde_json::{Value, json};

use crate::failure::Result;
use crate::verbs::client::Path;
use crate::verbs::place::Place;

/// Lets go of all events with a tag: for every read, condition and id at once, on disk with the next compaction. Backups that were made
/// before have them still.
#[derive(Debug, Args)]
pub(crate) struct Forget {
    /// The event store, like air/flights
    store: String,
    /// The tag, like person:ann
    tag: String,
    #[command(flatten)]
    place: Place,
}

/// Lets go of all events up to a position.
#[derive(Debug, Args)]
pub(crate) struct Trim {
    /// The event store
    store: String,
    /// The position of the last event that goes
    up_to: u64,
    #[command(flatten)]
    place: Place,
}

/// Sets how long events are kept. What is older goes within a minute.
#[derive(Debug, Args)]
pub(crate) struct Retain {
    /// The event store; created when it is not there
    store: String,
    /// How long, in milliseconds, by the times of the events [default: for ever]
    #[arg(long, value_name = "MS")]
    retention_ms: Option<u64>,
    #[command(flatten)]
    place: Place,
}

impl Forget {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        commit(&self.place, &json!({ "forget_tag": { "store": self.store, "tag": self.tag } }))?;
        Ok(writeln!(out, "{} has no event with the tag {} any more", self.store, self.tag)?)
    }
}

impl Trim {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        commit(&self.place, &json!({ "trim_events": { "store": self.store, "up_to": self.up_to } }))?;
        Ok(writeln!(out, "{} has no event up to position {} any more", self.store, self.up_to)?)
    }
}

impl Retain {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        commit(&self.place, &json!({ "retain_events": { "store": self.store, "retention_ms": self.retention_ms } }))?;
        match self.retention_ms {
            Some(ms) => Ok(writeln!(out, "{} keeps events for {ms} ms", self.store)?),
            None => Ok(writeln!(out, "{} keeps events for ever", self.store)?),
        }
    }
}

fn commit(place: &Place, part: &Value) -> Result {
    place.visit(|client| client.post(&Path::new(&["commit"]), &json!({ "parts": [part] })).map(|_| ()))
}
