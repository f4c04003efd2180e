//! `quire topics`, `quire consume` and `quire produce`: topics, and the messages in them.

use std::collections::BTreeMap;
use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::client::{Client, Path};
use super::exact;
use super::place::Place;
use super::print::{Form, bytes, list, time, word};
use crate::failure::{Failure, Result};
use crate::text::counted;

/// The most that one request asks for.
const PAGE: u64 = 1_000;

/// How long one request waits for messages that are yet to come.
const FOLLOW_MS: u64 = 20_000;

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
    /// Show the settings of a topic, and where its partitions begin and end
    Describe {
        /// The topic
        topic: String,
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        form: Form,
    },
    /// Create a topic
    Create {
        /// The topic
        topic: String,
        /// How many partitions it has
        #[arg(long, value_name = "N", default_value = "1")]
        partitions: u32,
        #[command(flatten)]
        settings: Settings,
        #[command(flatten)]
        place: Place,
    },
    /// Change the settings of a topic, or give it more partitions
    Alter {
        /// The topic
        topic: String,
        /// How many partitions it is to have
        #[arg(long, value_name = "N")]
        partitions: Option<u32>,
        #[command(flatten)]
        settings: Settings,
        /// Keep what this group has not read, whatever the retention says; may be given several times
        #[arg(long, value_name = "GROUP")]
        protect: Vec<String>,
        /// Keep it no longer
        #[arg(long, value_name = "GROUP")]
        unprotect: Vec<String>,
        #[command(flatten)]
        place: Place,
    },
    /// Delete a topic, with its messages and the offsets committed in it
    Delete {
        /// The topic
        topic: String,
        #[command(flatten)]
        place: Place,
    },
}

/// What a topic keeps and takes.
#[derive(Debug, Args)]
pub(crate) struct Settings {
    /// For how many milliseconds messages are kept; `none` for ever
    #[arg(long, value_name = "MS", value_parser = limit)]
    retention_ms: Option<Limit>,
    /// How many bytes each partition keeps at least; `none` for all
    #[arg(long, value_name = "BYTES", value_parser = limit)]
    retention_bytes: Option<Limit>,
    /// The most bytes of a batch of messages; `none` for the default
    #[arg(long, value_name = "BYTES", value_parser = limit)]
    batch_bytes_max: Option<Limit>,
    /// What producers that do not compress themselves have their messages compressed with: Quire's own and HTTP's
    #[arg(long, value_name = "CODEC", value_parser = ["none", "gzip", "snappy", "lz4", "zstd"])]
    compression: Option<String>,
    /// How messages go: by retention, when their key has a newer one, or by both
    #[arg(long, value_name = "HOW", value_parser = ["delete", "compact", "compact,delete"])]
    cleanup: Option<String>,
    /// For how many milliseconds a compacted topic tells that a key is gone; `none` for the default
    #[arg(long, value_name = "MS", value_parser = limit)]
    delete_retention_ms: Option<Limit>,
}

/// A number, or none.
#[derive(Debug, Clone, Copy)]
struct Limit(Option<u64>);

fn limit(text: &str) -> Result<Limit, String> {
    match text {
        "none" => Ok(Limit(None)),
        number => {
            number.parse().map(|number| Limit(Some(number))).map_err(|error| format!("{error}, nor is it `none`"))
        }
    }
}

impl Settings {
    /// As the server takes them: null for none, and nothing for what is not said.
    fn json(&self) -> Value {
        let said = [
            ("retention_ms", self.retention_ms),
            ("retention_bytes", self.retention_bytes),
            ("batch_bytes_max", self.batch_bytes_max),
            ("delete_retention_ms", self.delete_retention_ms),
        ];
        let named = [("compression", &self.compression), ("cleanup", &self.cleanup)];
        let named = named.into_iter().filter_map(|(name, chosen)| Some((name.to_owned(), json!(chosen.as_ref()?))));
        said.into_iter()
            .filter_map(|(name, limit)| Some((name.to_owned(), json!(limit?.0))))
            .chain(named)
            .collect::<Map<_, _>>()
            .into()
    }
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
    /// From the first message on that is not earlier, in milliseconds since 1970
    #[arg(long, value_name = "MS", conflicts_with = "offset")]
    from_time: Option<i64>,
    /// Only the values, as they are, each in a line
    #[arg(long, conflicts_with = "json")]
    values: bool,
    /// At most so many messages [default: all there are]
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Go on with messages that are yet to come, until it is interrupted or has as many as it is to
    #[arg(long)]
    follow: bool,
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
                let mut answer = client.get(&Path::new(&["topics", &topic]))?;
                let partitions = answer["partitions"].take();
                form.print(out, std::slice::from_ref(&answer), shown)?;
                form.print(out, partitions.as_array().map_or(&[], Vec::as_slice), |partition| {
                    let [number, start, next, bytes] =
                        ["partition", "start", "next", "bytes"].map(|name| word(partition, name));
                    format!("partition {number:>5}  from offset {start:>10}  next {next:>10}  bytes {bytes:>12}")
                })
            }),
            Topics::Create { topic, partitions, settings, place } => place.visit(|client| {
                let part =
                    json!({ "create_topic": { "name": topic, "partitions": partitions, "settings": settings.json() } });
                commit(client, &[part])?;
                Ok(writeln!(out, "created {topic} with {}", counted(partitions.into(), "partition"))?)
            }),
            Topics::Alter { topic, partitions, settings, protect, unprotect, place } => place.visit(|client| {
                let settings = settings.json();
                let more = partitions.map(|partitions| json!({ "topic": topic, "partitions": partitions }));
                let set = (settings != json!({})).then(|| json!({ "topic": topic, "settings": settings }));
                let keep = |protects: bool| {
                    let topic = &topic;
                    move |group: &String| {
                        json!({ "protect_unread": { "group": group, "topic": topic, "protects": protects } })
                    }
                };
                let kept = protect.iter().map(keep(true)).chain(unprotect.iter().map(keep(false)));
                let altered = [more, set].into_iter().flatten().map(|part| json!({ "alter_topic": part }));
                let parts: Vec<Value> = altered.chain(kept).collect();
                if parts.is_empty() {
                    return Err(Failure::new(
                        "there is nothing to change: say --partitions, --protect, --unprotect or a setting",
                    ));
                }
                commit(client, &parts)?;
                Ok(writeln!(out, "altered {topic}")?)
            }),
            Topics::Delete { topic, place } => place.visit(|client| {
                commit(client, &[json!({ "delete_topic": { "topic": topic } })])?;
                Ok(writeln!(out, "deleted {topic}")?)
            }),
        }
    }
}

/// Commits these parts, all or none.
pub(super) fn commit(client: &Client, parts: &[Value]) -> Result<Value> {
    client.post(&Path::new(&["commit"]), &json!({ "parts": parts }))
}

impl Consume {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        let Consume { topic, partition, offset, from_time, values, limit, follow, place, form } = self;
        place.visit(|client| {
            let mut left = limit.unwrap_or(u64::MAX);
            // Where each partition goes on.
            let mut places: BTreeMap<u64, u64> = BTreeMap::new();
            let mut described = client.get(&Path::new(&["topics", &topic]))?;
            loop {
                for of_topic in list(&described, "partitions") {
                    let (number, start) = (of_topic["partition"].as_u64(), of_topic["start"].as_u64());
                    if partition.is_some() && partition != number {
                        continue;
                    }
                    let number = number.unwrap_or_default();
                    let from = match (places.get(&number), from_time) {
                        (Some(place), _) => *place,
                        (None, Some(time_ms)) => offset_at_time(client, &topic, number, time_ms)?,
                        (None, None) => offset.or(start).unwrap_or_default(),
                    };
                    let range = Range { from, limit: left };
                    let (read, next) = consume(client, &topic, number, range, |records| match values {
                        true => records.iter().try_for_each(|record| print_value(out, record)),
                        false => form.print(out, records, |record| line(number, record)),
                    })?;
                    left -= read;
                    places.insert(number, next);
                }
                out.flush()?;
                if !follow || left == 0 {
                    break;
                }
                let written = described["written"].as_u64().unwrap_or_default();
                let path = Path::new(&["topics", &topic]).with("written", written).with("wait_ms", FOLLOW_MS);
                described = client.get(&path)?;
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

/// Reads page after page until the partition ends; says how many messages there were, and where it goes on.
fn consume(
    client: &Client,
    topic: &str,
    partition: u64,
    range: Range,
    mut print: impl FnMut(&[Value]) -> Result,
) -> Result<(u64, u64)> {
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
    Ok((read, from))
}

fn records(client: &Client, topic: &str, partition: u64, from: u64, limit: u64) -> Result<Value> {
    let path = Path::new(&["topics", topic, &partition.to_string(), "records"]);
    client.get(&path.with("offset", from).with("limit", limit))
}

/// Where the first message of a partition stands that is not earlier, or the end.
pub(super) fn offset_at_time(client: &Client, topic: &str, partition: u64, time_ms: i64) -> Result<u64> {
    let path = Path::new(&["topics", topic, &partition.to_string(), "records"]);
    let answer = client.get(&path.with("timestamp_ms", time_ms).with("limit", 1))?;
    let first = list(&answer, "records").first().and_then(|record| record["offset"].as_u64());
    Ok(first.or(answer["next_offset"].as_u64()).unwrap_or_default())
}

/// Prints the bytes of a value; of a tombstone, an empty line.
fn print_value(out: &mut dyn Write, record: &Value) -> Result {
    let base64 = record["value_base64"].as_str().and_then(|text| STANDARD.decode(text).ok());
    let bytes = base64.unwrap_or_else(|| match &record["value"] {
        Value::Null => record["value_text"].as_str().unwrap_or_default().as_bytes().to_vec(),
        json => exact::text(json).into_bytes(),
    });
    out.write_all(&bytes)?;
    Ok(writeln!(out)?)
}

pub(super) fn partitions(client: &Client, topic: &str) -> Result<Vec<Value>> {
    let mut answer = client.get(&Path::new(&["topics", topic]))?;
    match answer["partitions"].take() {
        Value::Array(partitions) => Ok(partitions),
        _ => Ok(Vec::new()),
    }
}

/// The settings of a topic, for people.
fn shown(topic: &Value) -> String {
    let settings = &topic["settings"];
    let said = |name: &str| match &settings[name] {
        Value::Null => format!("{name} none"),
        _ => format!("{name} {}", word(settings, name)),
    };
    let names = ["retention_ms", "retention_bytes", "batch_bytes_max", "compression", "cleanup", "delete_retention_ms"];
    let settings = names.map(said).join("  ");
    let groups: Vec<&str> = list(topic, "protected_for").iter().filter_map(Value::as_str).collect();
    let kept = if groups.is_empty() { String::new() } else { format!("  kept for {}", groups.join(", ")) };
    format!("{settings}{kept}")
}

fn line(partition: u64, record: &Value) -> String {
    let (offset, time) = (word(record, "offset"), time(record, "timestamp_ms"));
    format!("{partition}:{offset:<8}  {time}  {}  {}", bytes(record, "key"), bytes(record, "value"))
}
