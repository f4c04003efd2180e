//! `quire produce`: a message to a topic, or one for each line of the input.

use std::io::{self, BufRead, Write};

use clap::Args;
use serde_json::{Value, json};

use super::place::Place;
use super::print::{Form, list, word};
use super::topics::commit;
use crate::failure::{Failure, Result};

/// How many lines are in one commit.
const LINES_AT_ONCE: usize = 1_000;

/// What `quire produce` takes.
#[derive(Debug, Args)]
pub(crate) struct Produce {
    /// The topic; one that is not there is created with one partition
    topic: String,
    /// The message, as text [default: a message for each line of the standard input]
    value: Option<String>,
    /// The key, as text: messages of one key go to one partition
    #[arg(long)]
    key: Option<String>,
    /// No value: in a topic that compacts, it tells that the key is gone
    #[arg(long, conflicts_with = "value", requires = "key")]
    tombstone: bool,
    /// The partition [default: that of the key]
    #[arg(long, value_name = "N")]
    partition: Option<u32>,
    /// A header; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = header)]
    header: Vec<Header>,
    /// The time of the message, in milliseconds since 1970 [default: now]
    #[arg(long, value_name = "MS")]
    timestamp_ms: Option<i64>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    form: Form,
}

/// A header's name and value.
#[derive(Debug, Clone)]
struct Header(String, String);

fn header(text: &str) -> Result<Header, String> {
    let (name, value) = text.split_once('=').ok_or("there is no =: NAME=VALUE")?;
    Ok(Header(name.to_owned(), value.to_owned()))
}

impl Produce {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        self.place.visit(|client| {
            let mut tell = |parts: &[Value]| {
                let answer = commit(client, parts)?;
                let produced: Vec<Value> =
                    list(&answer, "replies").iter().map(|reply| reply["produced"].clone()).collect();
                self.form.print(out, &produced, |produced| {
                    let [partition, offset] = ["partition", "offset"].map(|name| word(produced, name));
                    format!("{}, partition {partition}, offset {offset}", self.topic)
                })
            };
            if self.value.is_some() || self.tombstone {
                return tell(&[self.part(self.value.as_deref())]);
            }
            let mut lines = io::stdin().lock().lines();
            loop {
                let parts: Vec<_> = lines
                    .by_ref()
                    .take(LINES_AT_ONCE)
                    .map(|line| line.map(|line| self.part(Some(&line))))
                    .collect::<io::Result<_>>()
                    .map_err(|error| Failure::at("read the standard input", error))?;
                if parts.is_empty() {
                    return Ok(());
                }
                tell(&parts)?;
            }
        })
    }

    /// The part of a commit that produces this.
    fn part(&self, value: Option<&str>) -> Value {
        let headers = self.header.iter().map(|Header(name, value)| json!({ "key": name, "value": value }));
        json!({ "produce": {
            "topic": self.topic,
            "key": self.key,
            "value_text": value,
            "partition": self.partition,
            "timestamp_ms": self.timestamp_ms,
            "headers": headers.collect::<Vec<_>>(),
        } })
    }
}
