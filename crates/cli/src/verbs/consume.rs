//! `quire consume`: the messages of a topic, one partition after another, and new ones with
//! `--follow`.

use std::collections::BTreeMap;
use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::Value;

use super::client::{HttpClient, Path};
use super::exact;
use super::place::DatabaseArgs;
use super::print::{OutputForm, bytes, list, time, word};
use crate::failure::{CommandError, Result, aside};

/// Most messages per request.
const PAGE: u64 = 1_000;

/// Time that one request waits for new messages.
const FOLLOW_MS: u64 = 20_000;

/// Arguments of `quire consume`.
#[derive(Debug, Args)]
pub(crate) struct Consume {
    /// The topic
    topic: String,
    /// Read only this partition [default: one after another]
    #[arg(long, value_name = "N")]
    partition: Option<u64>,
    /// Start at this offset [default: the first one]
    #[arg(long, value_name = "OFFSET", requires = "partition")]
    offset: Option<u64>,
    /// Start at the first message that is not earlier than this time, in milliseconds since 1970
    #[arg(long, value_name = "MS", conflicts_with = "offset")]
    from_time: Option<i64>,
    /// Print only the values, one per line, as they are
    #[arg(long, conflicts_with = "json")]
    values: bool,
    /// Stop after this many messages [default: read all]
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Skip batches that can't be read, with a warning on standard error [default: stop at the
    /// first one]
    #[arg(long)]
    skip_unreadable: bool,
    /// Wait for new messages, until Ctrl-C or until --limit is reached
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

impl Consume {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        let Consume { topic, partition, offset, from_time, values, limit, skip_unreadable, follow, place, form } = self;
        place.visit(|client| {
            let mut left = limit.unwrap_or(u64::MAX);
            // The next offset of each partition.
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
                    let range = Range { topic: &topic, partition: number, from, limit: left };
                    let (read, next) = consume(client, range, skip_unreadable, |records| match values {
                        true => records.iter().try_for_each(|record| print_value(out, record)),
                        false => form.print(out, records, |record| line(number, record)),
                    })?;
                    left -= read;
                    places.insert(number, next);
                }
                out.flush()?;
                if !follow || left == 0 || place.ends_here() {
                    break;
                }
                let written = described["written"].as_u64().unwrap_or_default();
                let path = Path::new(&["topics", &topic]).with("written", written).with("wait_ms", FOLLOW_MS);
                described = client.get(&path)?;
            }
            // The server reports the error of a partition that does not exist.
            match partition.filter(|asked| !places.contains_key(asked)) {
                Some(asked) => client.get(&records(&topic, asked, offset.unwrap_or_default(), 1)).map(|_| ()),
                None => Ok(()),
            }
        })
    }
}

/// The messages to read.
struct Range<'t> {
    topic: &'t str,
    partition: u64,
    from: u64,
    limit: u64,
}

/// Reads page after page until the partition ends. Returns the number of messages, and the next
/// offset.
fn consume(
    client: &HttpClient,
    range: Range<'_>,
    skip_unreadable: bool,
    mut print: impl FnMut(&[Value]) -> Result,
) -> Result<(u64, u64)> {
    let Range { topic, partition, mut from, limit } = range;
    let mut read = 0;
    while read < limit {
        let answer = match client.try_get(&records(topic, partition, from, (limit - read).min(PAGE)))? {
            Ok(answer) => answer,
            Err(problem) => {
                let message = problem["detail"].as_str().unwrap_or_default();
                from = match problem["next_offset"].as_u64().filter(|behind| *behind > from) {
                    Some(behind) if skip_unreadable => behind,
                    behind => return Err(stopped(topic, partition, from, message, behind)),
                };
                let passed = format_args!("quire: warning: partition {partition}: skipped to offset {from}: {message}");
                aside(passed);
                continue;
            }
        };
        let records = list(&answer, "data");
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

/// Explains why a read stopped. After an unreadable batch the next offset is known, and the message
/// says how to continue there.
fn stopped(topic: &str, partition: u64, from: u64, message: &str, behind: Option<u64>) -> CommandError {
    let how = behind.map_or_else(String::new, |behind| {
        format!(
            "; skip it with --partition {partition} --offset {behind}, or skip all such batches with --skip-unreadable"
        )
    });
    CommandError::new(format!("stopped in partition {partition} of {topic} at offset {from}: {message}{how}"))
}

/// The path of messages of a partition.
fn records(topic: &str, partition: u64, from: u64, limit: u64) -> Path {
    Path::new(&["topics", topic, "partitions", &partition.to_string(), "records"])
        .with("offset", from)
        .with("limit", limit)
}

/// Finds the offset of the first message that is not earlier than `time_ms`, or the end.
pub(super) fn offset_at_time(client: &HttpClient, topic: &str, partition: u64, time_ms: i64) -> Result<u64> {
    let path = Path::new(&["topics", topic, "partitions", &partition.to_string(), "records"]);
    let answer = client.get(&path.with("timestamp_ms", time_ms).with("limit", 1))?;
    let first = list(&answer, "data").first().and_then(|record| record["offset"].as_u64());
    Ok(first.or(answer["next_offset"].as_u64()).unwrap_or_default())
}

/// Prints the bytes of a value. A tombstone is an empty line.
fn print_value(out: &mut dyn Write, record: &Value) -> Result {
    let base64 = record["value_base64"].as_str().and_then(|text| STANDARD.decode(text).ok());
    let bytes = base64.unwrap_or_else(|| match &record["value"] {
        Value::Null => record["value_text"].as_str().unwrap_or_default().as_bytes().to_vec(),
        json => exact::text(json).into_bytes(),
    });
    out.write_all(&bytes)?;
    Ok(writeln!(out)?)
}

fn line(partition: u64, record: &Value) -> String {
    let (offset, time) = (word(record, "offset"), time(record, "timestamp_ms"));
    format!("{partition}:{offset:<8}  {time}  {}  {}", bytes(record, "key"), bytes(record, "value"))
}
