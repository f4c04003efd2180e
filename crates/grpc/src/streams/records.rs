//! Records of a partition: one fetch, which may wait for records, and the pages of a consumer.
//!
//! A read that decompresses much waits for its turn; see [`quire_access::RecordsRead`]. All reads
//! run aside. A read waits for its turn, and for memory, before it gets a thread.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use quire::streams::StreamReadError;
use quire::streams::wire::BatchRecord;
use quire::{Database, OPENED_BYTES_MAX, Operation, Resource, ResourceKind, Sequence};
use quire_access::budget::ByteClaim;
use quire_access::{
    BoundedRequest, Decompression, LargeRecord, RECORDS_BYTES_DEFAULT, RECORDS_BYTES_MAX, RecordsError, RecordsRead,
};
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
            offset_at_time(app, &BoundedRequest::begin(app.database()), &topic, partition, timestamp_ms).await?
        }
    };
    let read = RecordsRead { topic, partition, from, limit, bytes_max };
    let give_up = tokio::time::sleep(Duration::from_micros(wait_us));
    tokio::pin!(give_up);
    loop {
        // Taken before the read, so that records published meanwhile end the wait.
        let seen = app.database().published();
        let page = page(app, &read).await?;
        if !page.is_empty() || wait_us == 0 {
            return Ok(response(page));
        }
        tokio::select! {
            arrived = app.database().publication_after(seen) => arrived.map_err(failed)?,
            () = &mut give_up => return Ok(response(page)),
            ended = app.session_ended() => return Err(ended),
            _ = app.closing() => return Ok(response(page)),
        }
    }
}

fn response(page: RecordsPage) -> FetchRecordsResponse {
    let RecordsPage { records, skipped, next_offset } = page;
    FetchRecordsResponse { records, skipped, next_offset: next_offset.get() }
}

/// Reads a page of records, aside.
async fn page(app: &Arc<App>, read: &RecordsRead) -> Result<RecordsPage, Status> {
    let bounded = BoundedRequest::begin(app.database());
    let reading = |decompression| {
        let (app, read) = (app.within(&bounded), read.clone());
        move || {
            let mut claim = app.caller().claim();
            page_of(&app, &read, decompression, &mut claim).map_err(|error| status(error, &read))
        }
    };
    match aside(reading(Decompression::Cheap)).await? {
        Some(page) => Ok(page),
        None => {
            let turn = app.unpacking().turn().await;
            let page = aside(turn.hold(reading(Decompression::Full))).await?;
            Ok(page.expect("a read with a turn may decompress all of a batch"))
        }
    }
}

/// Reads a page of records. `None` when the limit of the decompression leaves no record to return.
pub(super) fn page_of(
    app: &App,
    read: &RecordsRead,
    decompression: Decompression,
    claim: &mut ByteClaim,
) -> Result<Option<RecordsPage>, RecordsError> {
    let mut records = Vec::new();
    let mut visit = |offset, record: &BatchRecord<'_>| records.push(message(offset, record));
    let Some(end) = read.read(app.database(), decompression, claim, &mut visit)? else { return Ok(None) };
    let skipped =
        |LargeRecord { offset, bytes }: LargeRecord| SkippedRecord { offset: offset.get(), bytes: bytes as u64 };
    let skipped = end.skipped.into_iter().map(skipped).collect();
    Ok(Some(RecordsPage { records, skipped, next_offset: end.next_offset }))
}

/// The offset of the first record that is not earlier, in milliseconds since 1970, or the end.
pub(super) async fn offset_at_time(
    app: &App,
    bounded: &BoundedRequest,
    topic: &str,
    partition: u32,
    timestamp_ms: i64,
) -> Result<Sequence, Status> {
    // A search by time decompresses batches, too.
    let turn = app.unpacking().turn().await;
    let (app, topic) = (app.within(bounded), topic.to_owned());
    let search = move || {
        let mut claim = app.caller().claim();
        claim.grow(claim.caller().share_up_to(OPENED_BYTES_MAX)).map_err(overloaded)?;
        let topic = app.database().topic(&topic);
        let distance = Duration::from_millis(timestamp_ms.unsigned_abs());
        let time = if timestamp_ms < 0 { SystemTime::UNIX_EPOCH - distance } else { SystemTime::UNIX_EPOCH + distance };
        match topic.offset_at_time(partition, time).map_err(failed)? {
            Some(found) => Ok(found.offset),
            None => Ok(topic.offsets(partition).map_err(failed)?.next),
        }
    };
    aside(turn.hold(search)).await
}

/// The offset of the first record of a partition. An unreadable end does not matter here.
pub(super) fn start_of(database: &Database, topic: &str, partition: u32) -> Result<Sequence, Status> {
    let resource = Resource::new(ResourceKind::Topic, topic);
    let found = database.read_published_for(resource, Operation::Read, |view| {
        let topic = view.streams.topic_named(topic)?;
        Some(view.streams.partition(topic.id, partition))
    });
    let found = found.map_err(failed)?.ok_or_else(|| not_found(format!("unknown topic {topic:?}")))?;
    let found = found.map_err(|error| not_found(error.to_string()))?;
    Ok(found.reach(&database.history()).map_err(|error| failed(error.into()))?.offsets.start)
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
pub(super) fn status(error: RecordsError, read: &RecordsRead) -> Status {
    let RecordsRead { topic, partition, .. } = read;
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
            invalid_batch(format!("partition {partition}: {message}"), *partition, offset.get(), next_offset.get())
        }
        RecordsError::Memory { refusal, offset, next_offset } => match refusal.retry_after() {
            None => too_large_at(refusal.to_string(), *partition, offset.get(), next_offset.get()),
            Some(_) => overloaded(refusal),
        },
    }
}

#[cfg(test)]
mod tests {
    use quire::{Durability, Message};
    use quire_access::budget::{ByteBudget, FrontEnd};
    use tokio::sync::watch;
    use tonic_types::StatusExt;

    use super::*;

    #[test]
    fn an_unreadable_batch_is_named_by_its_partition_and_offset() {
        let read = RecordsRead { topic: "t".to_owned(), partition: 3, from: Sequence::new(0), limit: 1, bytes_max: 1 };
        let (offset, next_offset) = (Sequence::new(5), Sequence::new(9));
        let invalid = RecordsError::InvalidBatch { offset, next_offset, message: "it is cut".to_owned() };
        let refusal = quire_access::budget::BudgetRefusal::TooLarge { bytes_max: 1 };
        for error in [invalid, RecordsError::Memory { refusal, offset, next_offset }] {
            let facts = status(error, &read).get_details_error_info().expect("a reason").metadata;
            assert_eq!((&*facts["partition"], &*facts["offset"], &*facts["next_offset"]), ("3", "5", "9"));
        }
    }

    /// A read that waits for its turn must not hold a thread: 512 such reads would hold them all.
    #[test]
    fn a_read_that_waits_for_its_turn_holds_no_thread() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
        runtime.expect("a runtime").block_on(async {
            let directory = tempfile::tempdir().expect("a directory");
            let database = Database::builder(directory.path()).durability(Durability::Os).open().expect("opened");
            let topic = database.topic("t");
            topic.produce(Message::new("a")).expect("produced");
            let caller = ByteBudget::default().caller(FrontEnd::Grpc, None);
            let (_close, closed) = watch::channel(false);
            let (app, _end) = App::open(database, caller, closed);
            let turns = [app.unpacking().turn().await, app.unpacking().turn().await];
            let request = FetchRecordsRequest {
                topic: "t".to_owned(),
                from: Some(From::TimestampMs(0)),
                ..FetchRecordsRequest::default()
            };
            let theirs = Arc::clone(&app);
            let waiting = tokio::spawn(async move { fetch(&theirs, request).await });
            // The spawned task runs until it waits.
            tokio::task::yield_now().await;
            aside(|| Ok(())).await.expect("the only thread is free");
            assert!(!waiting.is_finished());
            drop(turns);
            let fetched = waiting.await.expect("no panic").expect("it has its turn");
            assert_eq!(fetched.records.len(), 1);
        });
    }
}
