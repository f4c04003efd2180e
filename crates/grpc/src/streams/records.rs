//! Records of a partition: one fetch, which may wait for records, and the pages of a consumer.
//!
//! A read that decompresses much waits for its turn; see [`quire_access::RecordsRead`]. All reads
//! run aside, where they may block.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use quire::streams::StreamReadError;
use quire::streams::wire::BatchRecord;
use quire::{OPENED_BYTES_MAX, Sequence};
use quire_access::budget::ByteClaim;
use quire_access::{
    BoundedRequest, Decompression, LargeRecord, RECORDS_BYTES_DEFAULT, RECORDS_BYTES_MAX, RecordsEnd, RecordsError,
    RecordsRead,
};
use tokio::runtime::Handle;
use tokio::sync::SemaphorePermit;
use tonic::Status;

use crate::app::App;
use crate::aside::aside;
use crate::error::{
    ItemFault, failed, invalid, invalid_batch, not_found, offset_out_of_range, overloaded, too_large_at,
};
use crate::proto::fetch_records_request::From;
use crate::proto::{FetchRecordsRequest, FetchRecordsResponse, Record, RecordHeader, SkippedRecord};

/// The default and the maximum number of records of a fetch.
const LIMIT_DEFAULT: u32 = 100;
const LIMIT_MAX: u32 = 10_000;

/// Maximum wait of a fetch.
const WAIT_MICROS_MAX: u64 = 60_000_000;

/// Records of one partition.
#[derive(Debug)]
pub(super) struct RecordsPage {
    pub(super) records: Vec<Record>,
    pub(super) skipped: Vec<SkippedRecord>,
    /// Where the next read continues.
    pub(super) next_offset: Sequence,
}

impl RecordsPage {
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.skipped.is_empty()
    }
}

/// A limit of a request; 0 means `default`.
pub(super) fn limit(name: &str, given: u32, default: u32, most: u32) -> Result<usize, Status> {
    if given > most {
        return Err(ItemFault::out_of_range(name, given, most).into());
    }
    Ok(if given == 0 { default } else { given } as usize)
}

/// The maximum number of records of a page.
pub(super) fn records_max(given: u32, default: u32) -> Result<usize, Status> {
    limit("limit", given, default, LIMIT_MAX)
}

/// Returns records of a partition, and waits for one if requested.
pub(super) async fn fetch(app: &Arc<App>, request: FetchRecordsRequest) -> Result<FetchRecordsResponse, Status> {
    let FetchRecordsRequest { topic, partition, from, limit: records, bytes_max, wait_us } = request;
    if wait_us > WAIT_MICROS_MAX {
        return Err(invalid(format!("wait_us must be at most {WAIT_MICROS_MAX}, got {wait_us}")));
    }
    let limit = records_max(records, LIMIT_DEFAULT)?;
    let bytes_max = self::limit("bytes_max", bytes_max, RECORDS_BYTES_DEFAULT as u32, RECORDS_BYTES_MAX as u32)?;
    let from = match from {
        None => Sequence::new(0),
        Some(From::Offset(offset)) => Sequence::new(offset),
        Some(From::TimestampMs(timestamp_ms)) => {
            let bounded = BoundedRequest::begin(&app.database);
            let (theirs, topic) = (app.within(&bounded), topic.clone());
            aside(move || offset_at_time(&theirs, &topic, partition, timestamp_ms)).await?
        }
    };
    let read = RecordsRead { topic, partition, from, limit, bytes_max };
    let give_up = tokio::time::sleep(Duration::from_micros(wait_us));
    tokio::pin!(give_up);
    loop {
        // Taken before the read, so that records published meanwhile end the wait.
        let seen = app.database.published();
        let bounded = BoundedRequest::begin(&app.database);
        let (theirs, asked) = (app.within(&bounded), read.clone());
        let page = aside(move || {
            let mut claim = theirs.caller().claim();
            page(&theirs, &asked, &mut claim).map_err(|error| status(error, &asked.topic))
        })
        .await?;
        if !page.is_empty() || wait_us == 0 {
            return Ok(response(page));
        }
        tokio::select! {
            arrived = app.database.publication_after(seen) => arrived.map_err(failed)?,
            () = &mut give_up => return Ok(response(page)),
            () = app.closing() => return Ok(response(page)),
        }
    }
}

fn response(page: RecordsPage) -> FetchRecordsResponse {
    let RecordsPage { records, skipped, next_offset } = page;
    FetchRecordsResponse { records, skipped, next_offset: next_offset.get() }
}

/// Reads a page of records. It may block, to wait for its turn.
pub(super) fn page(app: &App, read: &RecordsRead, claim: &mut ByteClaim) -> Result<RecordsPage, RecordsError> {
    let (records, end) = match visited(app, read, Decompression::Cheap, claim)? {
        Some(read) => read,
        None => {
            let _turn = turn(app);
            let read = visited(app, read, Decompression::Full, claim)?;
            read.expect("a read with a turn may decompress all of a batch")
        }
    };
    let skipped =
        |LargeRecord { offset, bytes }: LargeRecord| SkippedRecord { offset: offset.get(), bytes: bytes as u64 };
    let skipped = end.skipped.into_iter().map(skipped).collect();
    Ok(RecordsPage { records, skipped, next_offset: end.next_offset })
}

fn visited(
    app: &App,
    read: &RecordsRead,
    decompression: Decompression,
    claim: &mut ByteClaim,
) -> Result<Option<(Vec<Record>, RecordsEnd)>, RecordsError> {
    let mut records = Vec::new();
    let mut visit = |offset, record: &BatchRecord<'_>| records.push(message(offset, record));
    let end = read.read(&app.database, decompression, claim, &mut visit)?;
    Ok(end.map(|end| (records, end)))
}

/// Waits for a turn to decompress much.
fn turn(app: &App) -> SemaphorePermit<'_> {
    Handle::current().block_on(app.decompressing.acquire()).expect("the semaphore stays open")
}

/// The offset of the first record that is not earlier, in milliseconds since 1970, or the end. It
/// may block.
pub(super) fn offset_at_time(app: &App, topic: &str, partition: u32, timestamp_ms: i64) -> Result<Sequence, Status> {
    // A search by time decompresses batches, too.
    let _turn = turn(app);
    let mut claim = app.caller().claim();
    claim.grow(claim.caller().share_up_to(OPENED_BYTES_MAX)).map_err(overloaded)?;
    let topic = app.database.topic(topic);
    let distance = Duration::from_millis(timestamp_ms.unsigned_abs());
    let time = if timestamp_ms < 0 { SystemTime::UNIX_EPOCH - distance } else { SystemTime::UNIX_EPOCH + distance };
    match topic.offset_at_time(partition, time).map_err(failed)? {
        Some(found) => Ok(found.offset),
        None => Ok(topic.offsets(partition).map_err(failed)?.next),
    }
}

fn message(offset: u64, record: &BatchRecord<'_>) -> Record {
    let header = |header: quire::streams::wire::Header<'_>| RecordHeader {
        key: Bytes::copy_from_slice(header.key),
        value: header.value.map(Bytes::copy_from_slice),
    };
    Record {
        offset,
        timestamp_ms: record.timestamp_ms,
        key: record.key.map(Bytes::copy_from_slice),
        value: record.value.map(Bytes::copy_from_slice),
        headers: record.headers.iter().map(header).collect(),
    }
}

/// Converts the error of a read.
pub(super) fn status(error: RecordsError, topic: &str) -> Status {
    match error {
        RecordsError::UnknownTopic => not_found(format!("unknown topic {topic:?}")),
        RecordsError::Database(error) => failed(error),
        RecordsError::Partition(StreamReadError::Unreadable(error)) => failed(error.into()),
        RecordsError::Partition(error) => match error {
            StreamReadError::OffsetOutOfRange { start, next, .. } => {
                offset_out_of_range(error.to_string(), start.get(), next.get())
            }
            _ => not_found(error.to_string()),
        },
        RecordsError::InvalidBatch { offset, next_offset, message } => {
            invalid_batch(message, offset.get(), next_offset.get())
        }
        RecordsError::Memory { refusal, offset, next_offset } => match refusal.retry_after() {
            None => too_large_at(refusal.to_string(), offset.get(), next_offset.get()),
            Some(_) => overloaded(refusal),
        },
    }
}
