//! Fetch: stored batches, as they are, with their offsets set. A fetch that finds too little waits for the next commit.
//!
//! Sessions (KIP-227) are not offered: every answer has session id 0, which makes clients name all they want each time.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::fetch_request::FetchPartition;
use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use kafka_protocol::messages::{FetchRequest, FetchResponse};
use quire::{History, Sequence};
use tokio::time::{Instant, timeout_at};

use crate::broker::{Broker, LEADER_EPOCH};
use crate::connection::Closed;
use crate::errors::Failure;
use crate::partition::{Partition, Room};
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, Struct, Tagged, fields};
use crate::topics;

/// Replica, waiting time, bytes, isolation, session, topics of (name or id, partitions), forgotten topics, rack.
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
            Tagged(0, 12, fields(&[Field(0, LAST, Shape::Text)])),
            Tagged(1, 15, fields(&[Field(0, LAST, Shape::Struct(&REPLICA_STATE))])),
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
        Tagged(0, 17, fields(&[Field(0, LAST, Shape::Fixed(16))])),
        Tagged(1, 18, fields(&[Field(0, LAST, Shape::Fixed(8))])),
    ],
};
static FORGOTTEN_TOPIC: Struct =
    fields(&[Field(0, 12, Shape::Text), Field(13, LAST, Shape::Fixed(16)), Field(0, LAST, Shape::Numbers(4))]);
static REPLICA_STATE: Struct = fields(&[Field(0, LAST, Shape::Fixed(4 + 8))]);

/// From which version on a session can be asked for, and answered.
const SESSIONS_FROM: i16 = 7;

/// Answers with what is there, at once when that is enough, or else when it is or the client has waited long enough.
pub(crate) async fn handle(broker: &Broker, request: &Request) -> Result<FetchResponse, Closed> {
    let decoded: FetchRequest = request.decode()?;
    if request.version >= SESSIONS_FROM && decoded.session_id != 0 {
        return Ok(FetchResponse::default().with_error_code(ResponseError::FetchSessionIdNotFound.code()));
    }
    let wait_ms = u64::try_from(decoded.max_wait_ms).unwrap_or(0).min(broker.settings.idle_timeout_ms);
    let deadline = Instant::now() + Duration::from_millis(wait_ms);
    let fetch = Fetch::new(broker, decoded).map_err(|_| Closed::Failed)?;
    loop {
        // Taken before the look, so that what is published during it wakes us.
        let seen = broker.database.published();
        let found = fetch.look(&broker.database.history());
        if found.bytes >= fetch.bytes_min || found.is_failed || fetch.topics.is_empty() {
            return Ok(found.response);
        }
        match timeout_at(deadline, broker.database.arrival_after(seen)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(Closed::Failed),
            Err(_) => return Ok(found.response),
        }
    }
}

/// A fetch, its partitions looked up once.
struct Fetch {
    topics: Vec<Topic>,
    bytes_min: usize,
    bytes_max: usize,
    /// Whether the client leaves out what belongs to aborted transactions, of which there are none.
    is_read_committed: bool,
}

struct Topic {
    /// As the request names it.
    names: FetchableTopicResponse,
    partitions: Vec<(FetchPartition, Result<Partition, Failure>)>,
}

/// What a look at the partitions found.
struct Found {
    response: FetchResponse,
    bytes: usize,
    is_failed: bool,
}

impl Fetch {
    fn new(broker: &Broker, request: FetchRequest) -> quire::Result<Self> {
        let database = broker.database.id();
        let bytes = |bytes: i32| usize::try_from(bytes).unwrap_or(0);
        let topics = broker.database.read_published(|view| {
            let topics = request.topics.into_iter().map(|topic| {
                let found = if topic.topic_id.is_nil() {
                    topics::named(database, view, topic.topic.as_str()).ok_or_else(Failure::unknown_topic)
                } else {
                    topics::with_uuid(database, view, topic.topic_id).ok_or_else(Failure::unknown_topic_id)
                };
                let partitions = topic.partitions.into_iter().map(|wanted| {
                    let partition = found.clone().and_then(|topic| Partition::of(view, &topic, wanted.partition));
                    (wanted, partition)
                });
                let partitions = partitions.collect();
                let names = FetchableTopicResponse::default().with_topic(topic.topic).with_topic_id(topic.topic_id);
                Topic { names, partitions }
            });
            topics.collect()
        })?;
        Ok(Fetch {
            topics,
            bytes_min: bytes(request.min_bytes),
            bytes_max: bytes(request.max_bytes).min(broker.settings.fetch_bytes_max),
            is_read_committed: request.isolation_level == 1,
        })
    }

    /// Takes what is there, in the order of the request, until there is no room any more.
    fn look(&self, history: &dyn History) -> Found {
        let mut found = Found { response: FetchResponse::default(), bytes: 0, is_failed: false };
        for topic in &self.topics {
            let mut partitions = Vec::with_capacity(topic.partitions.len());
            for (wanted, partition) in &topic.partitions {
                let bytes_left = self.bytes_max.saturating_sub(found.bytes);
                let room = Room {
                    bytes_max: usize::try_from(wanted.partition_max_bytes).unwrap_or(0).min(bytes_left),
                    or_one_batch: found.bytes == 0,
                };
                let aborted = self.is_read_committed.then(Vec::new);
                let data = PartitionData::default()
                    .with_partition_index(wanted.partition)
                    .with_high_watermark(-1)
                    .with_aborted_transactions(aborted);
                let looked = partition.as_ref().map_err(Clone::clone).and_then(|it| fetch(it, history, wanted, room));
                partitions.push(match looked {
                    Ok(fetched) => {
                        found.bytes += fetched.records.len();
                        data.with_high_watermark(fetched.next)
                            .with_last_stable_offset(fetched.next)
                            .with_log_start_offset(fetched.start)
                            .with_records(Some(fetched.records))
                    }
                    Err(failure) => {
                        found.is_failed = true;
                        data.with_error_code(failure.code.code())
                    }
                });
            }
            found.response.responses.push(topic.names.clone().with_partitions(partitions));
        }
        found
    }
}

struct Fetched {
    start: i64,
    next: i64,
    records: Bytes,
}

fn fetch(
    partition: &Partition,
    history: &dyn History,
    wanted: &FetchPartition,
    room: Room,
) -> Result<Fetched, Failure> {
    if wanted.current_leader_epoch > LEADER_EPOCH {
        return Err(Failure::unknown_epoch(wanted.current_leader_epoch));
    }
    let from = u64::try_from(wanted.fetch_offset).map_err(|_| Failure::negative_offset(wanted.fetch_offset))?;
    let mut records = BytesMut::new();
    partition.fetch(history, Sequence::new(from), room, &mut records)?;
    // Asked for behind the batches, so that the high watermark is never before one of them.
    let offsets = partition.offsets(history)?;
    let offset = |sequence: Sequence| i64::try_from(sequence.get()).expect("an offset has 63 bits");
    Ok(Fetched { start: offset(offsets.start), next: offset(offsets.next), records: records.freeze() })
}
