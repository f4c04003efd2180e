//! `quire events`: reads of event stores.

use std::io::Write;

use clap::Subcommand;
use serde_json::Value;

use super::client::{Client, Path};
use super::place::Place;
use super::print::{Form, bytes, list, time, word, words};
use crate::failure::{Failure, Result};

/// The most that one request asks for.
const PAGE: u64 = 1_000;

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
    /// Read events of any of the types that carry all of the tags
    Read {
        /// The event store, like air/flights
        store: String,
        /// Only events of this type; given several times, of any of them
        #[arg(long = "type", value_name = "TYPE")]
        types: Vec<String>,
        /// Only events with this tag; given several times, with all of them
        #[arg(long = "tag", value_name = "TAG")]
        tags: Vec<String>,
        /// Only events behind this position
        #[arg(long, value_name = "POSITION", default_value_t = 0)]
        after: u64,
        /// At most so many events [default: all]
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        form: Form,
    },
}

impl Events {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        match self {
            Events::Stores { place, form } => place.visit(|client| {
                let answer = client.get(&Path::new(&["events"]))?;
                let line = |store: &Value| format!("{:<32} {:>12}", word(store, "store"), word(store, "head"));
                form.print(out, list(&answer, "stores"), line)
            }),
            Events::Read { store, types, tags, after, limit, place, form } => place.visit(|client| {
                let path = Path::new(&["events", &store]).with_all("type", &types).with_all("tag", &tags);
                read(client, &store, &path, after, limit.unwrap_or(u64::MAX), |events| form.print(out, events, line))
            }),
        }
    }
}

/// Reads page after page.
fn read(
    client: &Client,
    store: &str,
    path: &Path,
    after: u64,
    limit: u64,
    mut print: impl FnMut(&[Value]) -> Result,
) -> Result {
    let (mut after, mut left) = (after, limit);
    while left > 0 {
        let answer = client.get(&path.clone().with("after", after).with("limit", left.min(PAGE)))?;
        // A store is there from its first event on.
        if answer["head"] == 0 {
            return Err(Failure::new(format!("there is no event store {store}")));
        }
        let events = list(&answer, "events");
        print(events)?;
        left -= events.len() as u64;
        match events.last().and_then(|last| last["position"].as_u64()) {
            Some(last) if answer["more"] == true => after = last,
            _ => break,
        }
    }
    Ok(())
}

fn line(event: &Value) -> String {
    let (position, time) = (word(event, "position"), time(event, "time_ms"));
    format!("{position:>8}  {time}  {}  [{}]  {}", word(event, "type"), words(event, "tags"), bytes(event, "data"))
}
