//! `quire events forget`, `trim` and `retain`: deletion of events.

use std::io::Write;

use clap::Args;
use serde_json::{Value, json};

use crate::failure::Result;
use crate::verbs::client::Path;
use crate::verbs::place::DatabaseArgs;

/// Deletes all events with a tag. Reads, conditions and ids ignore them at once; their bytes go
/// with the next compaction. Backups made before still contain them.
#[derive(Debug, Args)]
pub(crate) struct Forget {
    /// The event store, like air/flights
    store: String,
    /// The tag, like person:ann
    tag: String,
    #[command(flatten)]
    place: DatabaseArgs,
}

/// Deletes all events up to a position.
#[derive(Debug, Args)]
pub(crate) struct TrimEventsArgs {
    /// The event store
    store: String,
    /// Position of the last event to delete
    up_to: u64,
    #[command(flatten)]
    place: DatabaseArgs,
}

/// Sets how long events are kept. Older events are deleted within a minute.
#[derive(Debug, Args)]
pub(crate) struct RetainEventsArgs {
    /// The event store; created when it does not exist
    store: String,
    /// Retention time in milliseconds, by the times of the events [default: forever]
    #[arg(long, value_name = "MS")]
    retention_ms: Option<u64>,
    #[command(flatten)]
    place: DatabaseArgs,
}

impl Forget {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        commit(&self.place, &json!({ "forget_tag": { "store": self.store, "tag": self.tag } }))?;
        Ok(writeln!(out, "{} has no event with the tag {} any more", self.store, self.tag)?)
    }
}

impl TrimEventsArgs {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        commit(&self.place, &json!({ "trim_events": { "store": self.store, "up_to": self.up_to } }))?;
        Ok(writeln!(out, "{} has no event up to position {} any more", self.store, self.up_to)?)
    }
}

impl RetainEventsArgs {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        commit(&self.place, &json!({ "retain_events": { "store": self.store, "retention_ms": self.retention_ms } }))?;
        match self.retention_ms {
            Some(ms) => Ok(writeln!(out, "{} keeps events for {ms} ms", self.store)?),
            None => Ok(writeln!(out, "{} keeps events forever", self.store)?),
        }
    }
}

fn commit(place: &DatabaseArgs, part: &Value) -> Result {
    place.visit(|client| client.post(&Path::new(&["commit"]), &json!({ "parts": [part] })).map(|_| ()))
}
