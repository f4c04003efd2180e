//! Records of a topic, from an offset or a time on.
//!
//! A response ends at a limit of records or bytes. A compressed batch is decompressed up to the
//! first requested record, and further only as far as that is cheap. If the batch yields no record
//! within this limit, the read waits for its turn, starts again, and decompresses as far as
//! necessary. So the memory of a read depends on the records it returns and their place in the
//! batch, not on the size of the batch. The decompressed bytes are claimed before they are made.
//!
//! A record that is too large for a response is listed by its offset instead, so that a client gets
//! past it.

use std::fmt::Display;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::extract::State;
use quire::streams::wire::{BatchRecord, Codec, Header, RecordError};
use quire::streams::{Partition, StoredBatch, StreamReadError};
use quire::{Database, History, OPENED_BYTES_MAX, Sequence, steps_of_bytes};
use quire_access::BoundedRequest;
use serde::Serialize;

use crate::app::App;
use crate::bytes::ShownBytes;
use crate::error::Problem;
use crate::memory::Claim;
use crate::params::{Params, PathNames, within};
use crate::response::{JsonResponse, aside};
use crate::topics::unknown_topic;

/// Default limits: how many bytes of batches a read reads, and how many bytes of records it
/// returns.
const BYTES_DEFAULT: usize = 1 << 20;

/// Maximum bytes of batches that a read reads, after the first batch, and of records that it
/// returns, after the first.
const BYTES_MAX: usize = 16 << 20;

/// Maximum bytes of a record that is returned. Larger ones are skipped.
const RECORD_BYTES_MAX: usize = BYTES_MAX;

/// How many bytes of a batch are decompressed without a turn.
const OPENED_BYTES_FREE: usize = 1 << 20;

/// How much further a batch is decompressed where that did not suffice.
const OPENED_GROWTH: usize = 8;

#[derive(Debug, Serialize)]
struct RecordPage {
    records: Vec<RecordReply>,
    /// The records that are too large for a response.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<SkippedRecord>,
    next_offset: u64,
}

impl RecordPage {
    fn is_empty(&self) -> bool {
        self.records.is_empty() && self.skipped.is_empty()
    }

    fn len(&self) -> usize {
        self.records.len() + self.skipped.len()
    }
}

#[derive(Debug, Serialize)]
struct SkippedRecord {
    offset: u64,
    reason: &'static str,
    bytes: usize,
}

#[derive(Debug, Serialize)]
struct RecordReply {
    offset: u64,
    timestamp_ms: i64,
    #[serde(flatten)]
    key: ShownBytes<'static>,
    #[serde(flatten)]
    value: ShownBytes<'static>,
    headers: Vec<HeaderReply>,
}

#[derive(Debug, Serialize)]
struct HeaderReply {
    #[serde(flatten)]
    key: ShownBytes<'static>,
    #[serde(flatten)]
    value: ShownBytes<'static>,
}

/// `GET /v1/topics/{topic}/{partition}/records`: records from an offset on.
pub(crate) async fn records(
    State(app): State<Arc<App>>,
    PathNames((topic, partition)): PathNames<(String, u32)>,
    mut params: Params,
) -> Result<JsonResponse, Problem> {
    let (offset, timestamp_ms) = (params.one("offset")?, params.one("timestamp_ms")?);
    let bytes_max = within("bytes_max", params.one("bytes_max")?.unwrap_or(BYTES_DEFAULT), 1..=BYTES_MAX)?;
    let limit = params.limit()?;
    params.end()?;
    let from = match (offset, timestamp_ms) {
        (Some(_), Some(_)) => return Err(Problem::invalid("give an offset or a time, not both")),
        (offset, None) => Sequence::new(offset.unwrap_or_default()),
        (None, Some(timestamp_ms)) => {
            // A search by time decompresses batches, too.
            let request = BoundedRequest::begin(&app.database);
            let (theirs, database, topic) = (Arc::clone(&app), request.database().clone(), topic.clone());
            let search = move || {
                let mut claim = theirs.memory.claim();
                claim.grow(theirs.memory.caller().share_up_to(OPENED_BYTES_MAX))?;
                from_time(&database, &topic, partition, timestamp_ms)
            };
            app.unpacking.aside(search).await?
        }
    };
    let read = RecordsRead { topic, partition, from, limit, bytes_max };
    let request = BoundedRequest::begin(&app.database);
    let (theirs, database, asked) = (Arc::clone(&app), request.database().clone(), read.clone());
    match aside(move || asked.answer(&theirs, &database, OPENED_BYTES_FREE)).await? {
        Some(answer) => Ok(answer),
        None => {
            let (theirs, database) = (Arc::clone(&app), request.database().clone());
            let answer = app.unpacking.aside(move || read.answer(&theirs, &database, OPENED_BYTES_MAX)).await?;
            Ok(answer.expect("a read with a turn may decompress all of a batch"))
        }
    }
}

/// The offset of the first record that is not earlier, in milliseconds since 1970, or the end.
fn from_time(database: &Database, topic: &str, partition: u32, timestamp_ms: i64) -> Result<Sequence, Problem> {
    let topic = database.topic(topic);
    let distance = Duration::from_millis(timestamp_ms.unsigned_abs());
    let time = if timestamp_ms < 0 { SystemTime::UNIX_EPOCH - distance } else { SystemTime::UNIX_EPOCH + distance };
    let found = topic.offset_at_time(partition, time)?.map(|found| found.offset);
    found.map_or_else(|| Ok(topic.offsets(partition)?.next), Ok)
}

/// The range to read.
#[derive(Debug, Clone)]
struct RecordsRead {
    topic: String,
    partition: u32,
    from: Sequence,
    limit: usize,
    bytes_max: usize,
}

impl RecordsRead {
    /// Reads the records, and decompresses each batch up to `opened_max` bytes. `None` when this
    /// limit leaves no record to return.
    fn answer(self, app: &App, database: &Database, opened_bytes_max: usize) -> Result<Option<JsonResponse>, Problem> {
        let RecordsRead { topic, partition, from, limit, bytes_max } = self;
        let history = database.history();
        let found = database.read_published(|view| {
            let found = view.streams.topic_named(&topic)?;
            Some(view.streams.partition(found.id, partition))
        })?;
        let found: Partition = found.ok_or_else(|| unknown_topic(&topic))?.map_err(unreadable)?;
        let records = RecordPage { records: Vec::new(), skipped: Vec::new(), next_offset: from.get() };
        let mut taking = RecordsBuilder {
            history: &history,
            records,
            limit,
            bytes_left: bytes_max,
            opened_bytes_max,
            claim: app.memory.claim(),
            refused: None,
        };
        let mut problem = None;
        let visited = found.fetch(&history, from, bytes_max, &mut |stored| match taking.batch(&stored) {
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
            // The records before an unreadable batch are returned. The next read begins at that
            // batch and reports it.
            Some(met) if taking.records.is_empty() => match met {
                ReadEnd::Problem(problem) => Err(problem),
                ReadEnd::Closed => Ok(None),
            },
            _ => JsonResponse::within(taking.claim, &taking.records).map(Some),
        }
    }
}

/// Why a batch, or the rest of it, is not in the response.
enum ReadEnd {
    Problem(Problem),
    /// It would have to be decompressed beyond the limit.
    Closed,
}

/// A response being built.
struct RecordsBuilder<'h> {
    history: &'h dyn History,
    records: RecordPage,
    limit: usize,
    bytes_left: usize,
    opened_bytes_max: usize,
    claim: Claim,
    /// Why the first record does not fit.
    refused: Option<Problem>,
}

impl RecordsBuilder<'_> {
    /// Adds the requested records of a batch that were not returned before.
    fn batch(&mut self, stored: &StoredBatch<'_>) -> Result<ControlFlow<()>, ReadEnd> {
        let base = stored.base_offset;
        let problem = |error: &dyn Display| {
            let problem = Problem::invalid(format!("batch at offset {base}: {error}"));
            // A client that continues can skip the whole batch.
            ReadEnd::Problem(problem.fact("offset", base.get()).fact("next_offset", stored.next_offset().get()))
        };
        if stored.batch.codec() == Codec::None {
            return self.opened(stored, stored.batch.records_bytes()).map_err(|error| problem(&error));
        }
        let mut opened_bytes = OPENED_BYTES_FREE;
        loop {
            match self.claim.grow(opened_bytes) {
                Ok(()) => {}
                Err(_) if !self.records.is_empty() => return Ok(ControlFlow::Break(())),
                Err(refused) => return Err(ReadEnd::Problem(passable(refused, base, stored.next_offset()))),
            }
            let opened = quire::open_batch_up_to(&stored.batch, opened_bytes).map_err(|error| problem(&error));
            let claimed = opened.and_then(|opened| {
                let claimed = self.history.claim(steps_of_bytes(opened.len()));
                claimed.map(|()| opened).map_err(|error| ReadEnd::Problem(quire::Error::from(error).into()))
            });
            let read = claimed.map(|opened| (self.opened(stored, &opened), opened.len()));
            self.claim.release(opened_bytes);
            match read? {
                (Ok(flow), _) => return Ok(flow),
                // The record is invalid, or extends beyond the decompressed bytes.
                (Err(error), opened) if opened < opened_bytes => return Err(problem(&error)),
                (Err(_), _) if !self.records.is_empty() => return Ok(ControlFlow::Break(())),
                (Err(_), _) if opened_bytes == OPENED_BYTES_MAX => {
                    return Err(problem(&format_args!("the records exceed {OPENED_BYTES_MAX} bytes")));
                }
                (Err(_), _) if opened_bytes >= self.opened_bytes_max => return Err(ReadEnd::Closed),
                (Err(_), _) => opened_bytes = (opened_bytes * OPENED_GROWTH).min(self.opened_bytes_max),
            }
        }
    }

    /// Adds the requested records from the decompressed part of a batch.
    fn opened(&mut self, stored: &StoredBatch<'_>, opened: &[u8]) -> Result<ControlFlow<()>, RecordError> {
        for record in stored.batch.records_from(opened) {
            let record = record?;
            let offset = stored.base_offset.get() + u64::from(record.offset_delta);
            if offset < self.records.next_offset {
                continue;
            }
            let bytes = record_bytes(&record);
            let is_first = self.records.is_empty();
            if bytes > RECORD_BYTES_MAX && self.records.len() < self.limit {
                self.records.skipped.push(SkippedRecord { offset, reason: "too_large", bytes });
                self.records.next_offset = offset + 1;
                continue;
            }
            if self.records.len() == self.limit || (bytes > self.bytes_left && !is_first) {
                return Ok(ControlFlow::Break(()));
            }
            if let Err(problem) = self.claim.grow(bytes) {
                let (this, next) = (Sequence::new(offset), Sequence::new(offset + 1));
                self.refused = is_first.then(|| passable(problem, this, next));
                return Ok(ControlFlow::Break(()));
            }
            self.bytes_left = self.bytes_left.saturating_sub(bytes);
            self.records.records.push(shown(offset, &record));
            self.records.next_offset = offset + 1;
        }
        // A compacted batch may end with offsets whose records were deleted.
        self.records.next_offset = stored.next_offset().get();
        let is_full = self.records.len() == self.limit;
        Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

/// A refusal that stays, with the offset from which a client can continue.
fn passable(problem: Problem, offset: Sequence, next: Sequence) -> Problem {
    match problem.is_too_large() {
        true => problem.fact("offset", offset.get()).fact("next_offset", next.get()),
        false => problem,
    }
}

/// The size of a record in bytes.
fn record_bytes(record: &BatchRecord<'_>) -> usize {
    let of = |part: Option<&[u8]>| part.map_or(0, <[u8]>::len);
    of(record.key) + of(record.value) + record.headers.bytes().len()
}

fn shown(offset: u64, record: &BatchRecord<'_>) -> RecordReply {
    let header = |header: Header<'_>| HeaderReply {
        key: ShownBytes::key("key", Some(header.key.to_vec())),
        value: ShownBytes::key("value", header.value.map(<[u8]>::to_vec)),
    };
    RecordReply {
        offset,
        timestamp_ms: record.timestamp_ms,
        key: ShownBytes::key("key", record.key.map(<[u8]>::to_vec)),
        value: ShownBytes::optional("value", record.value.map(<[u8]>::to_vec)),
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
