//! Records of a topic, from an offset or a time on.
//!
//! A response ends at a limit of records or bytes; see [`quire_access::RecordsRead`]. A record that
//! is too large for a response is listed by its offset instead, so that a client gets past it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::extract::State;
use quire::streams::StreamReadError;
use quire::streams::wire::{BatchRecord, Header};
use quire::{Database, OPENED_BYTES_MAX, Sequence};
use quire_access::{
    BoundedRequest, Decompression, LargeRecord, RECORDS_BYTES_DEFAULT, RECORDS_BYTES_MAX, RecordsError, RecordsRead,
};
use quire_api::ListPage;

use crate::app::App;
use crate::bytes::{key, optional};
use crate::error::Problem;
use crate::params::{Params, PathNames, within};
use crate::response::{JsonResponse, aside};
use crate::topics::unknown_topic;
use quire_api::reply::{HeaderReply, RecordReply, RecordsPosition, SkippedRecord};

/// `GET /v1/topics/{topic}/partitions/{partition}/records`: records from an offset on.
pub(crate) async fn records(
    State(app): State<Arc<App>>,
    PathNames((topic, partition)): PathNames<(String, u32)>,
    mut params: Params,
) -> Result<JsonResponse, Problem> {
    let (offset, timestamp_ms) = (params.cursor("offset")?, params.one("timestamp_ms")?);
    let bytes_max =
        within("bytes_max", params.one("bytes_max")?.unwrap_or(RECORDS_BYTES_DEFAULT), 1..=RECORDS_BYTES_MAX)?;
    let limit = params.limit()?;
    params.end()?;
    let from = match (offset, timestamp_ms) {
        (Some(_), Some(_)) => return Err(Problem::invalid("give an offset or a time, not both")),
        (offset, None) => Sequence::new(offset.unwrap_or_default()),
        (None, Some(timestamp_ms)) => {
            // A search by time decompresses batches, too.
            let request = BoundedRequest::begin(&app.database());
            let (theirs, database, topic) = (Arc::clone(&app), request.database().clone(), topic.clone());
            let search = move || {
                let mut claim = theirs.memory.claim();
                claim.grow(theirs.memory.caller().share_up_to(OPENED_BYTES_MAX))?;
                from_time(&database, &topic, partition, timestamp_ms)
            };
            aside(app.unpacking.turn().await.hold(search)).await?
        }
    };
    let read = RecordsRead { topic, partition, from, limit, bytes_max };
    let request = BoundedRequest::begin(&app.database());
    let (theirs, database, asked) = (Arc::clone(&app), request.database().clone(), read.clone());
    match aside(move || answer(&asked, &theirs, &database, Decompression::Cheap)).await? {
        Some(answer) => Ok(answer),
        None => {
            let (theirs, database) = (Arc::clone(&app), request.database().clone());
            let turn = app.unpacking.turn().await;
            let answer = aside(turn.hold(move || answer(&read, &theirs, &database, Decompression::Full))).await?;
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

/// Reads the records. `None` when the limit of the decompression leaves no record to return.
fn answer(
    read: &RecordsRead,
    app: &App,
    database: &Database,
    decompression: Decompression,
) -> Result<Option<JsonResponse>, Problem> {
    let (mut records, mut claim) = (Vec::new(), app.memory.claim());
    let mut visit = |offset, record: &BatchRecord<'_>| records.push(shown(offset, record));
    let end = read.read(database, decompression, claim.bytes_mut(), &mut visit);
    let Some(end) = end.map_err(|error| problem(error, &read.topic))? else { return Ok(None) };
    let skipped =
        |LargeRecord { offset, bytes }| SkippedRecord { offset: offset.get(), reason: "too_large".into(), bytes };
    let skipped = end.skipped.into_iter().map(skipped).collect();
    let next_offset = end.next_offset.get();
    // Where the end is damaged, the next read reports it.
    let offsets = database.topic(&read.topic).offsets(read.partition);
    let is_end = offsets.is_ok_and(|offsets| offsets.next.get() <= next_offset);
    let next = (!is_end).then(|| next_offset.to_string());
    JsonResponse::within(claim, &ListPage::of(records, next, RecordsPosition { skipped, next_offset })).map(Some)
}

fn problem(error: RecordsError, topic: &str) -> Problem {
    match error {
        RecordsError::UnknownTopic => unknown_topic(topic),
        RecordsError::Partition(error) => unreadable(error),
        RecordsError::Database(error) => error.into(),
        RecordsError::InvalidBatch { offset, next_offset, message } => {
            Problem::invalid(message).fact("offset", offset.get()).fact("next_offset", next_offset.get())
        }
        RecordsError::Memory { refusal, offset, next_offset } => {
            let problem = Problem::from(refusal);
            // A refusal that stays has the offset from which a client can continue.
            match problem.is_too_large() {
                true => problem.fact("offset", offset.get()).fact("next_offset", next_offset.get()),
                false => problem,
            }
        }
    }
}

fn shown(offset: u64, record: &BatchRecord<'_>) -> RecordReply {
    let header = |header: Header<'_>| HeaderReply {
        key: key(Some(header.key.to_vec())),
        value: key(header.value.map(<[u8]>::to_vec)),
    };
    RecordReply {
        offset,
        timestamp_ms: record.timestamp_ms,
        key: key(record.key.map(<[u8]>::to_vec)),
        value: optional(record.value.map(<[u8]>::to_vec)),
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
