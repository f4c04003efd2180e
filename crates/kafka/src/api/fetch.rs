//! Fetch: returns stored batches unchanged, with their base offsets set. A fetch that finds
//! too few bytes waits for the next commit.
//!
//! Each read begins with the names, so a response describes the topics at the time of the response.
//! A fetch for which no records arrive reads once, however long it waits. If the first batch
//! exceeds the free memory, the fetch releases it, waits for that memory and reads again.
//!
//! `sessions.rs` describes sessions, and `waiting.rs` how a fetch waits.

use std::ops::Range;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use kafka_protocol::messages::{FetchRequest, FetchResponse};
use quire::{ErrorKind, History, LongReading, Operation, Reader, Sequence};
use quire_access::BoundedRequest;
use quire_access::budget::ByteClaim;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout_at};

use crate::broker::Broker;
use crate::brokers::check_epoch;
use crate::client::ClientLeft;
use crate::close_reason::CloseReason;
use crate::errors::KafkaError;
use crate::memory::{MemoryTurn, shrink};
use crate::partition::{FetchSpace, ReadablePartition};
use crate::pause::STEPS_AT_ONCE;
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, Struct, TaggedField, fields};
use crate::sessions::{FetchSession, SessionPartition, SessionRequest, TopicNaming};
use crate::topics;
use crate::waiting::WaitingFetch;

/// Replica, waiting time, bytes, isolation, session, topics of (name or id, partitions), forgotten
/// topics, rack.
pub(crate) static SCHEMA: Schema = Schema {
    flexible_from: 12,
    body: Struct {
        fields: &[
            Field(0, 14, Shape::Fixed(4)),
            Field(0, LAST, Shape::Fixed(4 + 4 + 4 + 1)),
            Field(7, LAST, Shape::Fixed(4 + 4)),
            Field(0, LAST, Shape::Structs(&TOPIC)),
            Field(7, LAST, Shape::Structs(&FORGOTTEN_TOPIC)),
            Field(11, LAST, Shape::Text),
        ],
        tagged: &[
            TaggedField(0, 12, fields(&[Field(0, LAST, Shape::Text)])),
            TaggedField(1, 15, fields(&[Field(0, LAST, Shape::Struct(&REPLICA_STATE))])),
        ],
    },
};
static TOPIC: Struct =
    fields(&[Field(0, 12, Shape::Text), Field(13, LAST, Shape::Fixed(16)), Field(0, LAST, Shape::Structs(&PARTITION))]);
/// Number, leader epoch, offset, epoch of the last fetch, log start, bytes.
static PARTITION: Struct = Struct {
    fields: &[
        Field(0, LAST, Shape::Fixed(4)),
        Field(9, LAST, Shape::Fixed(4)),
        Field(0, LAST, Shape::Fixed(8)),
        Field(12, LAST, Shape::Fixed(4)),
        Field(5, LAST, Shape::Fixed(8)),
        Field(0, LAST, Shape::Fixed(4)),
    ],
    tagged: &[
        TaggedField(0, 17, fields(&[Field(0, LAST, Shape::Fixed(16))])),
        TaggedField(1, 18, fields(&[Field(0, LAST, Shape::Fixed(8))])),
    ],
};
static FORGOTTEN_TOPIC: Struct =
    fields(&[Field(0, 12, Shape::Text), Field(13, LAST, Shape::Fixed(16)), Field(0, LAST, Shape::Numbers(4))]);
static REPLICA_STATE: Struct = fields(&[Field(0, LAST, Shape::Fixed(4 + 8))]);

/// The first version with sessions, and with an error for the whole response.
const SESSIONS_FROM: i16 = 7;

/// Stands for an unknown offset: the client keeps its own value.
const UNKNOWN: i64 = -1;

/// Responds as soon as enough bytes are available, the client's waiting time is over, or the client
/// has closed its side.
///
/// # Errors
/// When the request can't be decoded, or the database has failed.
pub(crate) async fn handle(
    broker: &Broker,
    session: &mut Option<FetchSession>,
    request: Request,
    mut left: ClientLeft,
    mut memory: MemoryTurn<'_>,
) -> Result<(FetchResponse, Option<ByteClaim>), CloseReason> {
    let mut decoded: FetchRequest = request.decode()?;
    if request.version < SESSIONS_FROM {
        decoded.session_epoch = -1;
    }
    // A large request would hold its memory while it waits.
    drop(request);
    let wait_ms = u64::try_from(decoded.max_wait_ms).unwrap_or(0).min(broker.settings().idle_timeout_ms);
    let deadline = Instant::now() + Duration::from_millis(wait_ms);
    let bytes = |bytes: i32| usize::try_from(bytes).unwrap_or(0);
    let (bytes_min, bytes_max) = (bytes(decoded.min_bytes), bytes(decoded.max_bytes));
    // There are no transactions, so no record belongs to an aborted one. A client that reads
    // committed records gets an empty list.
    let is_read_committed = decoded.isolation_level == 1;
    let asked = match SessionRequest::of(session, decoded, memory.caller()) {
        Ok(asked) => asked,
        Err(code) => return Ok((FetchResponse::default().with_error_code(code.code()), None)),
    };
    let bytes_max = bytes_max.min(broker.settings().fetch_bytes_max);
    let mut fetch = FetchState { partitions: Vec::new(), asked, bytes_max, is_read_committed };
    let mut waiter: Option<WaitingFetch<'_>> = None;
    let mut is_last = wait_ms == 0;
    let (found, held) = loop {
        // Read before the partitions, so that records published meanwhile count.
        let database = broker.database();
        let seen = database.published();
        let arrived = waiter.as_ref().map_or(0, WaitingFetch::bytes);
        // While it waited, records or the topic may have been deleted, and another topic may have
        // the name. The permissions of the client may have changed, too.
        fetch.partitions = resolve(broker, &fetch.asked.wanted).await?;
        broker.counters().look();
        let held = memory.take_up_to(fetch.bytes_max);
        let memory_bytes = held.bytes();
        // Each look has the steps of a request: a fetch may wait for many commits.
        let bounded = BoundedRequest::begin(&database);
        let found = fetch.look(&bounded.database().history(), memory_bytes, !memory.is_over()).await;
        let Some(held) = memory.cover(held, found.bytes) else {
            let bytes = found.bytes;
            drop(found);
            memory.wait(bytes).await;
            continue;
        };
        let held = shrink(held, found.bytes);
        // No fetch holds memory while it waits for more.
        let is_short = memory_bytes < fetch.bytes_max && found.bytes > 0;
        if found.bytes >= bytes_min
            || found.is_failed
            || is_short
            || fetch.partitions.is_empty()
            || is_last
            || memory.is_over()
        {
            break (found, held);
        }
        drop(held);
        let missing = (bytes_min - found.bytes) as u64;
        // The records are read again. If none arrived, there are still none.
        let nothing = (found.bytes == 0).then_some(found);
        let tags = fetch.tags();
        let (waiter, arrived) = match waiter.take().filter(|waiter| waiter.tags() == tags) {
            Some(known) => (waiter.insert(known), arrived),
            None => (waiter.insert(broker.waiting.join(&database, tags, seen)), 0),
        };
        let waited = tokio::select! {
            waited = timeout_at(deadline, waiter.until(arrived + missing)) => waited,
            () = left.wait() => {
                is_last = true;
                continue;
            }
        };
        match waited {
            Ok(true) => broker.counters().woken(),
            Ok(false) => return Err(CloseReason::Failed),
            Err(_) => match nothing.filter(|_| waiter.bytes() == arrived) {
                Some(nothing) => break (nothing, None),
                None => is_last = true,
            },
        }
    };
    Ok((fetch.answer(found, session.as_mut()), held))
}

/// A fetch, with its partitions as they were last found.
struct FetchState {
    asked: SessionRequest,
    /// The requested partitions.
    partitions: Vec<Result<ReadablePartition, KafkaError>>,
    bytes_max: usize,
    is_read_committed: bool,
}

/// The result of reading the partitions.
struct FetchResult {
    partitions: Vec<Result<FetchedPartition, KafkaError>>,
    bytes: usize,
    is_failed: bool,
}

struct FetchedPartition {
    start: i64,
    next: i64,
    records: Bytes,
}

impl FetchedPartition {
    /// The response for a partition that was not read: the client keeps its known offsets.
    fn unknown() -> Self {
        FetchedPartition { start: UNKNOWN, next: UNKNOWN, records: Bytes::new() }
    }
}

/// Finds the partitions.
async fn resolve(
    broker: &Broker,
    wanted: &[(u64, SessionPartition)],
) -> Result<Vec<Result<ReadablePartition, KafkaError>>, CloseReason> {
    let mut partitions = Vec::with_capacity(wanted.len());
    for few in wanted.chunks(STEPS_AT_ONCE) {
        match resolve_few(broker, few) {
            Ok(resolved) => partitions.extend(resolved),
            // The client asks for the leader of each partition again.
            Err(error) if error.kind() == ErrorKind::NotLeader => {
                let error = KafkaError::from(error);
                partitions.extend(few.iter().map(|_| Err(error.clone())));
            }
            Err(_) => return Err(CloseReason::Failed),
        }
        if few.len() == STEPS_AT_ONCE {
            yield_now().await;
        }
    }
    Ok(partitions)
}

fn resolve_few(
    broker: &Broker,
    wanted: &[(u64, SessionPartition)],
) -> quire::Result<Vec<Result<ReadablePartition, KafkaError>>> {
    broker.read_published(|database, view| {
        let mut last: Option<(&TopicNaming, Result<topics::KafkaTopic, KafkaError>)> = None;
        let partitions = wanted.iter().map(|(_, wanted)| {
            // Partitions of one topic are mostly adjacent.
            let topic = match last.take().filter(|(names, _)| **names == wanted.topic) {
                Some((_, topic)) => topic,
                None if wanted.topic.id.is_nil() => {
                    topics::permitted(database, view, wanted.topic.name.as_str(), Operation::Read)
                }
                None => topics::permitted_by_id(database, view, wanted.topic.id, Operation::Read),
            };
            let (_, topic) = last.insert((&wanted.topic, topic));
            check_epoch(broker.owner(), wanted.leader_epoch)?;
            topic.as_ref().map_err(Clone::clone).and_then(|topic| ReadablePartition::of(view, topic, wanted.partition))
        });
        partitions.collect()
    })
}

impl FetchState {
    /// The tags of the partitions' records and changes.
    fn tags(&self) -> Vec<Box<[u8]>> {
        let there = || self.partitions.iter().flatten();
        let mut tags: Vec<_> = there().filter_map(ReadablePartition::changes_tag).collect();
        // Partitions of one topic are mostly adjacent.
        tags.dedup();
        tags.extend(there().filter_map(ReadablePartition::tag));
        tags
    }

    /// Reads available batches, in the order of the request, until the space is used up. The first
    /// batch may exceed it. Other tasks run in between. A partition for which no steps are left
    /// stays without records, and fails if no partition has any.
    async fn look(&self, history: &Reader, memory_bytes: usize, or_one_batch: bool) -> FetchResult {
        let mut found =
            FetchResult { partitions: Vec::with_capacity(self.partitions.len()), bytes: 0, is_failed: false };
        for from in (0..self.partitions.len()).step_by(STEPS_AT_ONCE) {
            let end = self.partitions.len().min(from + STEPS_AT_ONCE);
            self.look_at_few(history, from..end, memory_bytes, or_one_batch, &mut found);
            if end < self.partitions.len() {
                yield_now().await;
            }
        }
        found
    }

    fn look_at_few(
        &self,
        history: &Reader,
        few: Range<usize>,
        memory_bytes: usize,
        or_one_batch: bool,
        found: &mut FetchResult,
    ) {
        let mut reading = LongReading::new(history);
        for ((_, wanted), partition) in self.asked.wanted[few.clone()].iter().zip(&self.partitions[few]) {
            let bytes_left = self.bytes_max.min(memory_bytes).saturating_sub(found.bytes);
            let room = FetchSpace {
                bytes_max: wanted.bytes_max.min(bytes_left),
                or_one_batch: or_one_batch && found.bytes == 0,
            };
            let history = reading.history();
            let looked = partition.as_ref().map_err(Clone::clone).and_then(|it| fetch(it, history, wanted, room));
            let looked = match looked {
                Err(failure) if failure.is_too_costly() && found.bytes > 0 => Ok(FetchedPartition::unknown()),
                looked => looked,
            };
            match &looked {
                Ok(fetched) => found.bytes += fetched.records.len(),
                Err(_) => found.is_failed = true,
            }
            reading.let_go();
            found.partitions.push(looked);
        }
    }

    /// Builds the response; in a continued session it lists only changed partitions.
    fn answer(self, found: FetchResult, mut session: Option<&mut FetchSession>) -> FetchResponse {
        let SessionRequest { wanted, session_id, is_incremental } = self.asked;
        let mut topics: Vec<FetchableTopicResponse> = Vec::new();
        for ((turn, wanted), looked) in wanted.into_iter().zip(found.partitions) {
            let place = looked.as_ref().ok().map(|fetched| (fetched.start, fetched.next));
            let has_records = looked.as_ref().is_ok_and(|fetched| !fetched.records.is_empty());
            let is_new = has_records || place.is_none() || place != wanted.told;
            if is_incremental && !is_new {
                continue;
            }
            if let Some(session) = session.as_mut().filter(|_| session_id != 0) {
                session.told(turn, place, has_records);
            }
            let data = PartitionData::default()
                .with_partition_index(wanted.partition)
                .with_high_watermark(-1)
                .with_aborted_transactions(self.is_read_committed.then(Vec::new));
            let data = match looked {
                Ok(fetched) => data
                    .with_high_watermark(fetched.next)
                    .with_last_stable_offset(fetched.next)
                    .with_log_start_offset(fetched.start)
                    .with_records(Some(fetched.records)),
                Err(failure) => data.with_error_code(failure.code.code()),
            };
            let TopicNaming { name, id } = wanted.topic;
            match topics.last_mut().filter(|last| last.topic == name && last.topic_id == id) {
                Some(last) => last.partitions.push(data),
                None => {
                    let topic = FetchableTopicResponse::default().with_topic(name).with_topic_id(id);
                    topics.push(topic.with_partitions(vec![data]));
                }
            }
        }
        FetchResponse::default().with_session_id(session_id).with_responses(topics)
    }
}

fn fetch(
    partition: &ReadablePartition,
    history: &dyn History,
    wanted: &SessionPartition,
    room: FetchSpace,
) -> Result<FetchedPartition, KafkaError> {
    let from = u64::try_from(wanted.offset).map_err(|_| KafkaError::negative_offset(wanted.offset))?;
    let mut records = BytesMut::new();
    let end = partition.fetch(history, Sequence::new(from), room, &mut records)?;
    let offset = |sequence: Sequence| i64::try_from(sequence.get()).expect("an offset has 63 bits");
    // Read after the batches, so that the high watermark is never below one of them.
    let (start, next) = match (partition.offsets(history), end) {
        (Ok(offsets), _) => (offset(offsets.start), offset(offsets.next)),
        // The end can't be read; the known end is after these batches.
        (Err(_), Some(end)) => (UNKNOWN, offset(end)),
        (Err(failure), None) => return Err(failure),
    };
    Ok(FetchedPartition { start, next, records: records.freeze() })
}
