//! Reads of topics: the topics, one with its partitions, records from an offset on, and where a group goes on.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use quire::streams::wire::{Header, Record};
use quire::streams::{Partition, PartitionOffsets, Stored, StreamReadError, TopicSettings};
use quire::{Database, PartitionStatistics, Sequence, TopicStatistics};
use serde::Serialize;

use crate::answer::{Answer, aside};
use crate::app::App;
use crate::bytes::Shown;
use crate::error::Problem;
use crate::params::{Named, Params, within};

/// The longest wait for new records, in milliseconds.
const WAIT_MS_MAX: u64 = 60_000;

/// How many bytes of batches a read of records takes in when it is not said how many.
const BYTES_DEFAULT: usize = 1 << 20;

/// The most bytes of batches that a read of records takes in, but for the first batch.
const BYTES_MAX: usize = 16 << 20;

#[derive(Debug, Serialize)]
struct TopicReply {
    topic: String,
    partitions: u32,
}

#[derive(Debug, Serialize)]
struct Topics {
    topics: Vec<TopicReply>,
}

#[derive(Debug, Serialize)]
struct PartitionReply {
    partition: u32,
    /// The offset of the first record that is still there.
    start: u64,
    /// The offset that the next record gets.
    next: u64,
    /// Of its batches, up to one part in 32 too many.
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct TopicWithPartitions {
    topic: String,
    settings: SettingsReply,
    /// The groups whose unread records are kept.
    protected_for: Vec<String>,
    partitions: Vec<PartitionReply>,
    /// How many records were ever written.
    written: u64,
}

#[derive(Debug, Serialize)]
struct SettingsReply {
    retention_ms: Option<u64>,
    retention_bytes: Option<u64>,
    batch_bytes_max: u32,
    compression: String,
    cleanup: String,
    delete_retention_ms: u64,
}

impl From<TopicSettings> for SettingsReply {
    fn from(settings: TopicSettings) -> Self {
        let TopicSettings { retention_ms, retention_bytes, batch_bytes_max, compression, cleanup, delete_retention_ms } =
            settings;
        let (compression, cleanup) = (compression.to_string(), cleanup.to_string());
        SettingsReply { retention_ms, retention_bytes, batch_bytes_max, compression, cleanup, delete_retention_ms }
    }
}

#[derive(Debug, Serialize)]
struct Records {
    records: Vec<RecordReply>,
    next_offset: u64,
}

#[derive(Debug, Serialize)]
struct RecordReply {
    offset: u64,
    timestamp_ms: i64,
    #[serde(flatten)]
    key: Shown<'static>,
    #[serde(flatten)]
    value: Shown<'static>,
    headers: Vec<HeaderReply>,
}

#[derive(Debug, Serialize)]
struct HeaderReply {
    #[serde(flatten)]
    key: Shown<'static>,
    #[serde(flatten)]
    value: Shown<'static>,
}

#[derive(Debug, Serialize)]
struct OffsetReply {
    partition: u32,
    offset: u64,
    metadata: String,
    time_ms: u64,
}

#[derive(Debug, Serialize)]
struct GroupReply {
    topic: String,
    group: String,
    /// One for each partition in which the group committed an offset.
    offsets: Vec<OffsetReply>,
}

/// `GET /v1/topics`: the topics.
pub(crate) async fn topics(State(app): State<Arc<App>>, params: Params) -> Result<Answer, Problem> {
    params.end()?;
    let topics = names(&app.database)?.into_iter().map(|(topic, partitions)| TopicReply { topic, partitions });
    Ok(Answer::of(&Topics { topics: topics.collect() }))
}

/// Every topic with the number of its partitions.
pub(crate) fn names(database: &Database) -> Result<Vec<(String, u32)>, Problem> {
    let topics = database.read_published(|view| {
        view.streams.topics().map(|topic| (topic.name.to_owned(), topic.partitions)).collect::<Vec<_>>()
    })?;
    Ok(topics)
}

/// Where each partition of a topic begins and ends.
pub(crate) fn offsets(database: &Database, topic: &str) -> Result<Vec<PartitionOffsets>, Problem> {
    let partitions: Option<Vec<Partition>> = database.read_published(|view| {
        let found = view.streams.topic_named(topic)?;
        (0..found.partitions).map(|partition| view.streams.partition(found.id, partition).ok()).collect()
    })?;
    let partitions = partitions.ok_or_else(|| unknown_topic(topic))?;
    let history = database.history();
    let offsets = partitions.iter().map(|partition| partition.offsets(&history));
    Ok(offsets.collect::<Result<_, _>>().map_err(quire::Error::from)?)
}

/// `GET /v1/topics/{topic}`: what it is like, and where its partitions begin and end. With `wait_ms` it waits until more records
/// were written than `written` says.
pub(crate) async fn topic(
    State(app): State<Arc<App>>,
    Named(topic): Named<String>,
    mut params: Params,
) -> Result<Answer, Problem> {
    let known: Option<u64> = params.one("written")?;
    let wait_ms = within("wait_ms", params.one("wait_ms")?.unwrap_or(0), 0..=WAIT_MS_MAX)?;
    params.end()?;
    let deadline = tokio::time::Instant::now() + Duration::from_millis(wait_ms);
    loop {
        // Taken before the look, so that what is published during it wakes us.
        let seen = app.database.published();
        let (theirs, name) = (Arc::clone(&app), topic.clone());
        let described = aside(move || describe(&theirs.database, name)).await?;
        if wait_ms == 0 || known.is_some_and(|known| described.written > known) {
            return Ok(Answer::of(&described));
        }
        tokio::select! {
            arrived = app.database.arrival_after(seen) => arrived?,
            () = tokio::time::sleep_until(deadline) => return Ok(Answer::of(&described)),
            () = app.closing() => return Ok(Answer::of(&described)),
        }
    }
}

fn describe(database: &Database, topic: String) -> Result<TopicWithPartitions, Problem> {
    let TopicStatistics { settings, protected_for, partitions } = database.topic(&topic).statistics()?;
    let partitions: Vec<PartitionReply> = partitions
        .into_iter()
        .map(|PartitionStatistics { partition, start, next, bytes }| PartitionReply {
            partition,
            start: start.get(),
            next: next.get(),
            bytes,
        })
        .collect();
    let written = partitions.iter().map(|partition| partition.next).sum();
    Ok(TopicWithPartitions { topic, settings: settings.into(), protected_for, partitions, written })
}

/// Where a read of records begins.
#[derive(Debug, Clone, Copy)]
enum Begin {
    Offset(Sequence),
    /// At the first record that is not earlier, in milliseconds since 1970, or at the end.
    Time(i64),
}

/// `GET /v1/topics/{topic}/{partition}/records`: records from an offset on.
pub(crate) async fn records(
    State(app): State<Arc<App>>,
    Named((topic, partition)): Named<(String, u32)>,
    mut params: Params,
) -> Result<Answer, Problem> {
    let from = match (params.one("offset")?, params.one("timestamp_ms")?) {
        (Some(_), Some(_)) => return Err(Problem::invalid("records are read from an offset or from a time, not both")),
        (offset, None) => Begin::Offset(Sequence::new(offset.unwrap_or_default())),
        (None, Some(timestamp_ms)) => Begin::Time(timestamp_ms),
    };
    let bytes_max = within("bytes_max", params.one("bytes_max")?.unwrap_or(BYTES_DEFAULT), 1..=BYTES_MAX)?;
    let limit = params.limit()?;
    params.end()?;
    aside(move || {
        let found = app.database.read_published(|view| {
            let found = view.streams.topic_named(&topic)?;
            Some(view.streams.partition(found.id, partition))
        })?;
        let found = found.ok_or_else(|| unknown_topic(&topic))?.map_err(unreadable)?;
        let from = match from {
            Begin::Offset(offset) => offset,
            Begin::Time(timestamp_ms) => {
                let topic = app.database.topic(&topic);
                let found = topic.offset_at_time(partition, timestamp_ms)?.map(|found| found.offset);
                found.map_or_else(|| Ok(topic.offsets(partition)?.next), Ok::<_, Problem>)?
            }
        };
        Ok(Answer::of(&read(&app.database, found, from, limit, bytes_max)?))
    })
    .await
}

fn read(
    database: &Database,
    partition: Partition,
    from: Sequence,
    limit: usize,
    bytes_max: usize,
) -> Result<Records, Problem> {
    let mut read = Records { records: Vec::new(), next_offset: from.get() };
    let mut problem = None;
    let visited =
        partition.fetch(&database.history(), from, bytes_max, &mut |stored| match take(&stored, limit, &mut read) {
            Ok(()) if read.records.len() < limit => ControlFlow::Continue(()),
            Ok(()) => ControlFlow::Break(()),
            Err(met) => {
                problem = Some(met);
                ControlFlow::Break(())
            }
        });
    visited.map_err(unreadable)?;
    match problem {
        // What stands before a batch that can't be shown can be; the next read begins at that batch and tells.
        Some(problem) if read.records.is_empty() => Err(problem),
        _ => Ok(read),
    }
}

/// Takes the records of a batch that are asked for, and were not read before.
fn take(stored: &Stored<'_>, limit: usize, read: &mut Records) -> Result<(), Problem> {
    let base = stored.base_offset;
    let opened = quire::open_batch(&stored.batch)
        .map_err(|error| Problem::invalid(format!("in the batch at offset {base}, {error}")))?;
    for record in stored.batch.records_from(&opened) {
        let record = record.map_err(|error| Problem::invalid(format!("in the batch at offset {base}, {error}")))?;
        let offset = base.get() + u64::from(record.offset_delta);
        if offset < read.next_offset {
            continue;
        }
        if read.records.len() == limit {
            return Ok(());
        }
        read.records.push(shown(offset, &record));
        read.next_offset = offset + 1;
    }
    // A compacted batch may end with offsets that have no record any more.
    read.next_offset = stored.next_offset().get();
    Ok(())
}

fn shown(offset: u64, record: &Record<'_>) -> RecordReply {
    let header = |header: Header<'_>| HeaderReply {
        key: Shown::key("key", Some(header.key.to_vec())),
        value: Shown::key("value", header.value.map(<[u8]>::to_vec)),
    };
    RecordReply {
        offset,
        timestamp_ms: record.timestamp_ms,
        key: Shown::key("key", record.key.map(<[u8]>::to_vec)),
        value: Shown::optional("value", record.value.map(<[u8]>::to_vec)),
        headers: record.headers.iter().map(header).collect(),
    }
}

/// `GET /v1/topics/{topic}/groups/{group}`: where a consumer group goes on.
pub(crate) async fn group(
    State(app): State<Arc<App>>,
    Named((topic, group)): Named<(String, String)>,
    params: Params,
) -> Result<Answer, Problem> {
    params.end()?;
    let offsets = app.database.read(|view| {
        let found = view.streams.topic_named(&topic)?;
        let of_topic = view.streams.committed_by(&group).filter(|(id, ..)| *id == found.id);
        let offset = of_topic.map(|(_, partition, committed)| OffsetReply {
            partition,
            offset: committed.offset.get(),
            metadata: committed.metadata.to_owned(),
            time_ms: committed.time.as_millis(),
        });
        Some(offset.collect::<Vec<_>>())
    })?;
    let offsets = offsets.await?.ok_or_else(|| unknown_topic(&topic))?;
    Ok(Answer::of(&GroupReply { topic, group, offsets }))
}

fn unknown_topic(topic: &str) -> Problem {
    Problem::not_found(format!("there is no topic {topic:?}"))
}

fn unreadable(error: StreamReadError) -> Problem {
    match error {
        StreamReadError::Unreadable(error) => quire::Error::from(error).into(),
        StreamReadError::OffsetOutOfRange { start, next, .. } => {
            Problem::offset_out_of_range(error.to_string()).fact("start", start.get()).fact("next", next.get())
        }
        StreamReadError::UnknownTopic { .. } | StreamReadError::UnknownPartition { .. } => {
            Problem::not_found(error.to_string())
        }
    }
}
