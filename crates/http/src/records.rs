//! Records of a topic, from an offset or a time on.
//!
//! An answer ends with so many records, or so many bytes of them. A compressed batch is opened as far as its first record takes that
//! is asked for, and no further than what costs little unless there is no such record: then the read begins anew when it is its turn, and
//! opens the batch as far as it has to. So a read takes memory by what it answers and by where that stands, not by what the batch comes to.

use std::fmt::Display;
use std::ops::ControlFlow;
use std::sync::Arc;

use axum::extract::State;
use quire::streams::wire::{Codec, Header, Record, RecordError};
use quire::streams::{Partition, Stored, StreamReadError};
use quire::{Database, OPENED_BYTES_MAX, Sequence};
use serde::Serialize;

use crate::answer::{Answer, aside};
use crate::app::App;
use crate::bytes::Shown;
use crate::error::Problem;
use crate::memory::Claim;
use crate::params::{Named, Params, within};
use crate::topics::unknown_topic;

/// How many bytes of batches a read takes in when it is not said how many, and how many bytes of records it answers.
const BYTES_DEFAULT: usize = 1 << 20;

/// The most bytes of batches that a read takes in, but for the first batch, and of records that it answers, but for the first.
const BYTES_MAX: usize = 16 << 20;

/// How much of a batch is opened without a turn.
const OPENED_BYTES_FREE: usize = 1 << 20;

/// How much more of a batch is opened where that did not do.
const OPENED_GROWTH: usize = 8;

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

/// `GET /v1/topics/{topic}/{partition}/records`: records from an offset on.
pub(crate) async fn records(
    State(app): State<Arc<App>>,
    Named((topic, partition)): Named<(String, u32)>,
    mut params: Params,
) -> Result<Answer, Problem> {
    let (offset, timestamp_ms) = (params.one("offset")?, params.one("timestamp_ms")?);
    let bytes_max = within("bytes_max", params.one("bytes_max")?.unwrap_or(BYTES_DEFAULT), 1..=BYTES_MAX)?;
    let limit = params.limit()?;
    params.end()?;
    let from = match (offset, timestamp_ms) {
        (Some(_), Some(_)) => return Err(Problem::invalid("records are read from an offset or from a time, not both")),
        (offset, None) => Sequence::new(offset.unwrap_or_default()),
        (None, Some(timestamp_ms)) => {
            // Looking for a time unpacks batches, too.
            let (theirs, topic) = (Arc::clone(&app), topic.clone());
            app.unpacking.aside(move || from_time(&theirs.database, &topic, partition, timestamp_ms)).await?
        }
    };
    let read = Read { topic, partition, from, limit, bytes_max };
    let (theirs, asked) = (Arc::clone(&app), read.clone());
    match aside(move || asked.answer(&theirs, OPENED_BYTES_FREE)).await? {
        Some(answer) => Ok(answer),
        None => {
            let theirs = Arc::clone(&app);
            let answer = app.unpacking.aside(move || read.answer(&theirs, OPENED_BYTES_MAX)).await?;
            Ok(answer.expect("who may open all of a batch need not open more"))
        }
    }
}

/// The offset of the first record that is not earlier, in milliseconds since 1970, or the end.
fn from_time(database: &Database, topic: &str, partition: u32, timestamp_ms: i64) -> Result<Sequence, Problem> {
    let topic = database.topic(topic);
    let found = topic.offset_at_time(partition, timestamp_ms)?.map(|found| found.offset);
    found.map_or_else(|| Ok(topic.offsets(partition)?.next), Ok)
}

/// What is to be read.
#[derive(Debug, Clone)]
struct Read {
    topic: String,
    partition: u32,
    from: Sequence,
    limit: usize,
    bytes_max: usize,
}

impl Read {
    /// The answer, opening no batch further than that; `None` when there is no record to answer with for that reason.
    fn answer(self, app: &App, opened_bytes_max: usize) -> Result<Option<Answer>, Problem> {
        let Read { topic, partition, from, limit, bytes_max } = self;
        let database = &app.database;
        let found = database.read_published(|view| {
            let found = view.streams.topic_named(&topic)?;
            Some(view.streams.partition(found.id, partition))
        })?;
        let found: Partition = found.ok_or_else(|| unknown_topic(&topic))?.map_err(unreadable)?;
        let records = Records { records: Vec::new(), next_offset: from.get() };
        let claim = app.memory.claim();
        let mut taking = Taking { records, limit, bytes_left: bytes_max, opened_bytes_max, claim, refused: None };
        let mut problem = None;
        let visited = found.fetch(&database.history(), from, bytes_max, &mut |stored| match taking.batch(&stored) {
            Ok(flow) => flow,
            Err(met) => {
                problem = Some(met);
                ControlFlow::Break(())
            }
        });
        visited.map_err(unreadable)?;
        if let Some(refused) = taking.refused {
            return Err(refused);
        }
        match problem {
            // What stands before a batch that can't be shown can be; the next read begins at that batch and tells.
            Some(met) if taking.records.records.is_empty() => match met {
                Met::Problem(problem) => Err(problem),
                Met::Closed => Ok(None),
            },
            _ => Answer::within(taking.claim, &taking.records).map(Some),
        }
    }
}

/// Why a batch, or the rest of it, is not in the answer.
enum Met {
    Problem(Problem),
    /// It would have to be opened further than it may be.
    Closed,
}

/// An answer in the making.
struct Taking {
    records: Records,
    limit: usize,
    bytes_left: usize,
    opened_bytes_max: usize,
    claim: Claim,
    /// Why there is no room for the first record.
    refused: Option<Problem>,
}

impl Taking {
    /// Takes the records of a batch that are asked for, and were not read before.
    fn batch(&mut self, stored: &Stored<'_>) -> Result<ControlFlow<()>, Met> {
        let base = stored.base_offset;
        let problem = |error: &dyn Display| {
            let problem = Problem::invalid(format!("in the batch at offset {base}, {error}"));
            // Who wants to go on passes over the whole batch.
            Met::Problem(problem.fact("offset", base.get()).fact("next_offset", stored.next_offset().get()))
        };
        if stored.batch.codec() == Codec::None {
            return self.opened(stored, stored.batch.records_bytes()).map_err(|error| problem(&error));
        }
        let mut opened_bytes = OPENED_BYTES_FREE;
        loop {
            let opened = quire::open_batch_up_to(&stored.batch, opened_bytes).map_err(|error| problem(&error))?;
            let read = self.opened(stored, &opened);
            match read {
                Ok(flow) => return Ok(flow),
                // The record is not as it should be, or goes on behind what was opened.
                Err(error) if opened.len() < opened_bytes => return Err(problem(&error)),
                Err(_) if !self.records.records.is_empty() => return Ok(ControlFlow::Break(())),
                Err(_) if opened_bytes == OPENED_BYTES_MAX => {
                    return Err(problem(&format_args!("the records have more than {OPENED_BYTES_MAX} bytes")));
                }
                Err(_) if opened_bytes >= self.opened_bytes_max => return Err(Met::Closed),
                Err(_) => opened_bytes = (opened_bytes * OPENED_GROWTH).min(self.opened_bytes_max),
            }
        }
    }

    /// Takes what is asked for from what a batch was opened to.
    fn opened(&mut self, stored: &Stored<'_>, opened: &[u8]) -> Result<ControlFlow<()>, RecordError> {
        for record in stored.batch.records_from(opened) {
            let record = record?;
            let offset = stored.base_offset.get() + u64::from(record.offset_delta);
            if offset < self.records.next_offset {
                continue;
            }
            let bytes = record_bytes(&record);
            let is_first = self.records.records.is_empty();
            if self.records.records.len() == self.limit || (bytes > self.bytes_left && !is_first) {
                return Ok(ControlFlow::Break(()));
            }
            if let Err(problem) = self.claim.grow(bytes) {
                self.refused = is_first.then_some(problem);
                return Ok(ControlFlow::Break(()));
            }
            self.bytes_left = self.bytes_left.saturating_sub(bytes);
            self.records.records.push(shown(offset, &record));
            self.records.next_offset = offset + 1;
        }
        // A compacted batch may end with offsets that have no record any more.
        self.records.next_offset = stored.next_offset().get();
        let is_full = self.records.records.len() == self.limit;
        Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

/// The bytes of what a record says.
fn record_bytes(record: &Record<'_>) -> usize {
    let of = |part: Option<&[u8]>| part.map_or(0, <[u8]>::len);
    of(record.key) + of(record.value) + record.headers.bytes().len()
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
