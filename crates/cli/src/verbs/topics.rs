//! `quire topics`, `quire consume` and `quire produce`: topics, and the messages in them.

use std::io::Write;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::client::{Client, Path};
use super::place::Place;
use super::print::{Form, bytes, list, time, word};
use crate::failure::Result;
use crate::text::counted;

/// The most that one request asks for.
const PAGE: u64 = 1_000;

/// What `quire topics` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Topics {
    /// List the topics
    List {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        form: Form,
    },
    /// Show where the partitions of a topic begin and end
    Describe {
        /// The topic
        topic: String,
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        form: Form,
    },
}

/// What `quire consume` takes.
#[derive(Debug, Args)]
pub(crate) struct Consume {
    /// The topic
    topic: String,
    /// Only this partition [default: one after the other]
    #[arg(long, value_name = "N")]
    partition: Option<u64>,
    /// From this offset on [default: the first there is]
    #[arg(long, value_name = "OFFSET", requires = "partition")]
    offset: Option<u64>,
    /// At most so many messages [default: all there are]
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    form: Form,
}

/// What `quire produce` takes.
#[derive(Debug, Args)]
pub(crate) struct Produce {
    /// The topic; one that is not there is created with one partition
    topic: String,
    /// The message, as text
    value: String,
    /// The key, as text: messages of one key go to one partition
    #[arg(long)]
    key: Option<String>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    form: Form,
}

impl Topics {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        match self {
            Topics::List { place, form } => place.visit(|client| {
                let answer = client.get(&Path::new(&["topics"]))?;
                form.print(out, list(&answer, "topics"), |topic| {
                    let partitions = counted(topic["partitions"].as_u64().unwrap_or_default(), "partition");
                    format!("{:<32} {partitions}", word(topic, "topic"))
                })
            }),
            Topics::Describe { topic, place, form } => place.visit(|client| {
                let partitions = partitions(client, &topic)?;
                form.print(out, &partitions, |partition| {
                    let (start, next) = (word(partition, "start"), word(partition, "next"));
                    format!("partition {:>5}  from offset {start:>10}  next {next:>10}", word(partition, "partition"))
                })
            }),
        }
    }
}

impl Consume {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        let Consume { topic, partition, offset, limit, place, form } = self;
        place.visit(|client| {
            let mut left = limit.unwrap_or(u64::MAX);
            for of_topic in partitions(client, &topic)? {
                let (number, start) = (of_topic["partition"].as_u64(), of_topic["start"].as_u64());
                if partition.is_some() && partition != number {
                    continue;
                }
                let number = number.unwrap_or_default();
                let range = Range { from: offset.or(start).unwrap_or_default(), limit: left };
                left -= consume(client, &topic, number, range, |records| {
                    form.print(out, records, |record| line(number, record))
                })?;
            }
            // The server says what is wrong with a partition that is not there.
            match partition.filter(|_| left == limit.unwrap_or(u64::MAX)) {
                Some(asked) => records(client, &topic, asked, offset.unwrap_or_default(), 1).map(|_| ()),
                None => Ok(()),
            }
        })
    }
}

impl Produce {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        let Produce { topic, value, key, place, form } = self;
        place.visit(|client| {
            let part = json!({ "produce": { "topic": topic, "key": key, "value_text": value } });
            let answer = client.post(&Path::new(&["commit"]), &json!({ "parts": [part] }))?;
            let produced = &answer["replies"][0]["produced"];
            form.print(out, std::slice::from_ref(produced), |produced| {
                format!("{topic}, partition {}, offset {}", word(produced, "partition"), word(produced, "offset"))
            })
        })
    }
}

/// Which messages of a partition to read.
struct Range {
    from: u64,
    limit: u64,
}

/// Reads page after page until the partition ends; says how many messages there were.
fn consume(
    client: &Client,
    topic: &str,
    partition: u64,
    range: Range,
    mut print: impl FnMut(&[Value]) -> Result,
) -> Result<u64> {
    let Range { mut from, limit } = range;
    let mut read = 0;
    while read < limit {
        let answer = records(client, topic, partition, from, (limit - read).min(PAGE))?;
        let records = list(&answer, "records");
        print(records)?;
        read += records.len() as u64;
        let next = answer["next_offset"].as_u64().unwrap_or_default();
        if next <= from {
            break;
        }
        from = next;
    }
    Ok(read)
}

fn records(client: &Client, topic: &str, partition: u64, from: u64, limit: u64) -> Result<Value> {
    let path = Path::new(&["topics", topic, &partition.to_string(), "records"]);
    client.get(&path.with("offset", from).with("limit", limit))
}

fn partitions(client: &Client, topic: &str) -> Result<Vec<Value>> {
    let mut answer = client.get(&Path::new(&["topics", topic]))?;
    match answer["partitions"].take() {
        Value::Array(partitions) => Ok(partitions),
        _ => Ok(Vec::new()),
    }
}

fn line(partition: u64, record: &Value) -> String {
    let (offset, time) = (word(record, "offset"), time(record, "timestamp_ms"));
    format!("{partition}:{offset:<8}  {time}  {}  {}", bytes(record, "key"), bytes(record, "value"))
}
