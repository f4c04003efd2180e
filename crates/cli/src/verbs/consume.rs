//! `quire consume`: the messages of a topic, one partition after the other, and those that are yet to come.

use std::collections::BTreeMap;
use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::Value;

use super::client::{Client, Path};
use super::exact;
use super::place::Place;
use super::print::{Form, bytes, list, time, word};
use crate::failure::{Failure, Result, aside};

/// The most that one request asks for.
const PAGE: u64 = 1_000;

/// How long one request waits for messages that are yet to come.
const FOLLOW_MS: u64 = 20_000;

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
    /// Pass over batches that can't be read, since their producer wrote no messages that can be, and say so on standard error [default:
    /// end at the first]
    #[arg(long)]
    skip_unreadable: bool,
    /// Go on with messages that are yet to come, until it is interrupted or has as many as it is to
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    form: Form,
}

impl Consume {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        let Consume { topic, partition, offset, from_time, values, limit, skip_unreadable, follow, place, form } = self;
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
            // The server says what is wrong with a partition that is not there.
            match partition.filter(|asked| !places.contains_key(asked)) {
                Some(asked) => client.get(&records(&topic, asked, offset.unwrap_or_default(), 1)).map(|_| ()),
                None => Ok(()),
            }
        })
    }
}

/// Which messages to read.
struct Range<'t> {
    topic: &'t str,
    partition: u64,
    from: u64,
    limit: u64,
}

/// Reads page after page until the partition ends; says how many messages there were, and where it goes on.
fn consume(
    client: &Client,
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
                let message = problem["message"].as_str().unwrap_or_default();
                from = match problem["next_offset"].as_u64().filter(|behind| *behind > from) {
                    Some(behind) if skip_unreadable => behind,
                    behind => return Err(stopped(topic, partition, from, message, behind)),
                };
                let passed =
                    format_args!("quire: warning: partition {partition}, passed over up to offset {from}: {message}");
                aside(passed);
                continue;
            }
        };
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

/// Why nothing more is read, and how to go on where that is known: of a batch that can't be read it is known what is behind it.
fn stopped(topic: &str, partition: u64, from: u64, message: &str, behind: Option<u64>) -> Failure {
    let how = behind.map_or_else(String::new, |behind| {
        format!(
            "; go on behind it with --partition {partition} --offset {behind}, or pass over all such batches with --skip-unreadable"
        )
    });
    Failure::new(format!("stopped in partition {partition} of {topic} at offset {from}: {message}{how}"))
}

/// Where messages of a partition are asked for.
fn records(topic: &str, partition: u64, from: u64, limit: u64) -> Path {
    Path::new(&["topics", topic, &partition.to_string(), "records"]).with("offset", from).with("limit", limit)
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

fn line(partition: u64, record: &Value) -> String {
    let (offset, time) = (word(record, "offset"), time(record, "timestamp_ms"));
    format!("{partition}:{offset:<8}  {time}  {}  {}", bytes(record, "key"), bytes(record, "value"))
}
