//! `quire events read` and `tail`: present events, and new ones.

use std::io::Write;

use clap::Args;
use serde_json::Value;

use super::EventConditions;
use crate::failure::{CommandError, Result};
use crate::verbs::client::{HttpClient, Path};
use crate::verbs::names::check_store;
use crate::verbs::place::DatabaseArgs;
use crate::verbs::print::{OutputForm, bytes, list, time, word, words};

/// Most events per request.
const PAGE: u64 = 1_000;

/// Reads events.
#[derive(Debug, Args)]
pub(crate) struct ReadEvents {
    /// The event store, like air/flights
    store: String,
    #[command(flatten)]
    filter: EventConditions,
    /// Only events after this position
    #[arg(long, value_name = "POSITION", default_value_t = 0)]
    after: u64,
    /// Only events up to this position
    #[arg(long, value_name = "POSITION")]
    up_to: Option<u64>,
    /// Read from the last event to the first
    #[arg(long)]
    backwards: bool,
    /// Stop after this many events [default: read all]
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

/// The range and direction of a read.
#[derive(Debug, Clone, Copy)]
pub(super) struct EventRange {
    /// Only events after this position.
    pub(super) after: u64,
    pub(super) backwards: bool,
    /// Largest number of events.
    pub(super) limit: u64,
}

/// Prints events as they are appended. With --read-only, prints the present ones.
#[derive(Debug, Args)]
pub(crate) struct TailEvents {
    /// The event store, like air/flights; need not exist yet
    store: String,
    #[command(flatten)]
    filter: EventConditions,
    /// Start after this position [default: only new events]
    #[arg(long, value_name = "POSITION")]
    after: Option<u64>,
    /// Stop after this many events
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

impl ReadEvents {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        self.place.visit(|client| {
            let path = self.filter.on(Path::new(&["events", &self.store]));
            let path = self.up_to.iter().fold(path, |path, up_to| path.with("up_to", up_to));
            let span =
                EventRange { after: self.after, backwards: self.backwards, limit: self.limit.unwrap_or(u64::MAX) };
            pages(client, &self.store, &path, span, |events| self.form.print(out, events, line))
        })
    }
}

impl TailEvents {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        self.place.visit(|client| {
            let after = match self.after {
                Some(after) => after,
                None => {
                    let answer = client.get(&Path::new(&["events", &self.store, "head"]))?;
                    answer["head"].as_u64().unwrap_or_default()
                }
            };
            let path = self.filter.on(Path::new(&["events", &self.store, "subscribe"])).with("after", after);
            let mut left = self.limit.unwrap_or(u64::MAX);
            if left == 0 {
                return Ok(());
            }
            let mut seen = after;
            let ended = client.follow(&path, |name, event| {
                if name == "caught_up" {
                    return Ok(!self.place.ends_here());
                }
                self.form.print(out, std::slice::from_ref(&event), line)?;
                out.flush()?;
                seen = event["position"].as_u64().unwrap_or(seen);
                left -= 1;
                Ok(left > 0)
            })?;
            match ended {
                true => Ok(()),
                false => {
                    Err(CommandError::new(format!("the server has ended the response; resume with --after {seen}")))
                }
            }
        })
    }
}

/// Reads page after page.
pub(super) fn pages(
    client: &HttpClient,
    store: &str,
    path: &Path,
    span: EventRange,
    mut print: impl FnMut(&[Value]) -> Result,
) -> Result {
    let (mut seen, mut left) = (None, span.limit);
    while left > 0 {
        let page = path.clone().with("limit", left.min(PAGE));
        let page = match (span.backwards, seen) {
            (false, seen) => page.with("after", seen.unwrap_or(span.after)),
            (true, None) => page.with("after", span.after).with("backwards", true),
            (true, Some(seen)) => page.with("after", span.after).with("backwards", true).with("before", seen),
        };
        let answer = client.get(&page)?;
        if answer["head"] == 0 {
            check_store(client, store)?;
        }
        let events = list(&answer, "data");
        print(events)?;
        left -= events.len() as u64;
        match events.last().and_then(|last| last["position"].as_u64()) {
            Some(last) if answer["has_more"] == true => seen = Some(last),
            _ => break,
        }
    }
    Ok(())
}

/// An event, for people.
pub(super) fn line(event: &Value) -> String {
    let (position, time) = (word(event, "position"), time(event, "time_ms"));
    format!("{position:>8}  {time}  {}  [{}]  {}", word(event, "type"), words(event, "tags"), bytes(event, "data"))
}
