//! ListOffsets: the first and next offsets of a partition, and the first record that is not earlier
//! than a time.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::list_offsets_request::ListOffsetsPartition;
use kafka_protocol::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use kafka_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse};
use kafka_protocol::protocol::StrBytes;
use quire::streams::TimeOffset;
use quire::{Database, History, Operation, Sequence};
use quire_access::BoundedRequest;
use quire_access::budget::BudgetCaller;

use crate::broker::Broker;
use crate::brokers::{check_epoch, leader_epoch};
use crate::close_reason::CloseReason;
use crate::errors::KafkaError;
use crate::partition::ReadablePartition;
use crate::pause::RegularPause;
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};
use crate::topics::{self, TopicKind};

/// Replica, isolation, topics of (name, partitions of (number, leader epoch, time, offsets at
/// most)).
pub(crate) static SCHEMA: Schema = Schema {
    flexible_from: 6,
    body: fields(&[
        Field(0, LAST, Shape::Fixed(4)),
        Field(2, LAST, Shape::Fixed(1)),
        Field(0, LAST, Shape::Structs(&TOPIC)),
        Field(10, LAST, Shape::Fixed(4)),
    ]),
};
static TOPIC: Struct = fields(&[Field(0, LAST, Shape::Text), Field(0, LAST, Shape::Structs(&PARTITION))]);
static PARTITION: Struct = fields(&[
    Field(0, LAST, Shape::Fixed(4)),
    Field(4, LAST, Shape::Fixed(4)),
    Field(0, LAST, Shape::Fixed(8)),
    Field(0, 0, Shape::Fixed(4)),
]);

/// The first version whose response has the leader epoch.
const EPOCHS_FROM: i16 = 4;

/// The special times, in order: the end, the beginning, the record with the latest time, the first
/// local record, and the last remote record.
pub(super) const LATEST: i64 = -1;
pub(super) const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;

/// An offset and its record's time; -1 where there is none.
pub(super) struct ListedOffset {
    pub(super) offset: i64,
    timestamp_ms: i64,
}

/// Answers each partition by itself. A partition that is named again with the same time gets the
/// same answer, without another search.
pub(crate) async fn handle(
    broker: &Arc<Broker>,
    caller: &BudgetCaller,
    request: &Request,
) -> Result<ListOffsetsResponse, CloseReason> {
    let decoded: ListOffsetsRequest = request.decode()?;
    // One budget for all partitions. It ends when the client leaves, which drops this future.
    let (bounded, mut pause) = (BoundedRequest::begin(&broker.database()), RegularPause::default());
    let mut searched = HashMap::new();
    let mut topics = Vec::with_capacity(decoded.topics.len());
    for topic in decoded.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for wanted in topic.partitions {
            pause.step().await;
            let response = ListOffsetsPartitionResponse::default().with_partition_index(wanted.partition_index);
            let question = (topic.name.clone(), wanted.partition_index, wanted.timestamp, wanted.current_leader_epoch);
            let listed = match searched.entry(question) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(list(broker, caller, &bounded, &topic.name, wanted).await),
            };
            partitions.push(match listed {
                Ok(listed) => {
                    let response = response.with_offset(listed.offset).with_timestamp(listed.timestamp_ms);
                    if request.version >= EPOCHS_FROM {
                        response.with_leader_epoch(leader_epoch(bounded.database()))
                    } else {
                        response
                    }
                }
                Err(failure) => response.with_error_code(failure.code.code()),
            });
        }
        topics.push(ListOffsetsTopicResponse::default().with_name(topic.name).with_partitions(partitions));
    }
    Ok(ListOffsetsResponse::default().with_topics(topics))
}

/// The requested offset of a partition. Searches by time run one after another.
pub(super) async fn list(
    broker: &Arc<Broker>,
    caller: &BudgetCaller,
    request: &BoundedRequest,
    topic: &StrBytes,
    wanted: ListOffsetsPartition,
) -> Result<ListedOffset, KafkaError> {
    match wanted.timestamp {
        0.. | MAX_TIMESTAMP => {
            let (database, topic) = (request.database().clone(), topic.clone());
            broker.unpacking.run(caller, move || look(&database, &topic, &wanted)).await
        }
        _ => look(request.database(), topic, &wanted),
    }
}

fn look(database: &Database, topic: &str, wanted: &ListOffsetsPartition) -> Result<ListedOffset, KafkaError> {
    let id = database.id();
    let (partition, latest) = database.read_published_permitted(|view| {
        let topic = topics::permitted(id, view, topic, Operation::Describe)?;
        check_epoch(database, wanted.current_leader_epoch)?;
        let latest = match topic.kind {
            TopicKind::Stream { id, .. } => u32::try_from(wanted.partition_index)
                .ok()
                .and_then(|partition| view.streams.latest_batch(id, partition)),
            TopicKind::Events { .. } | TopicKind::Jobs { .. } => None,
        };
        let partition = match wanted.timestamp {
            time_ms @ 0.. => ReadablePartition::from_time(view, &topic, wanted.partition_index, time_ms),
            _ => ReadablePartition::of(view, &topic, wanted.partition_index),
        };
        partition.map(|partition| (partition, latest))
    })??;
    find(&partition, &database.history(), wanted.timestamp, latest)
}

fn listed(found: Option<TimeOffset>) -> ListedOffset {
    match found {
        Some(found) => ListedOffset {
            offset: i64::try_from(found.offset.get()).expect("an offset has 63 bits"),
            timestamp_ms: found.timestamp_ms,
        },
        None => ListedOffset { offset: -1, timestamp_ms: -1 },
    }
}

fn find(
    partition: &ReadablePartition,
    history: &dyn History,
    timestamp_ms: i64,
    latest: Option<Sequence>,
) -> Result<ListedOffset, KafkaError> {
    let at = |sequence: Sequence| i64::try_from(sequence.get()).expect("an offset has 63 bits");
    match timestamp_ms {
        LATEST => Ok(ListedOffset { offset: at(partition.offsets(history)?.next), timestamp_ms: -1 }),
        EARLIEST | EARLIEST_LOCAL => Ok(ListedOffset { offset: at(partition.start(history)?), timestamp_ms: -1 }),
        0.. => Ok(listed(partition.offset_at_time(history, timestamp_ms)?)),
        MAX_TIMESTAMP => Ok(listed(partition.latest_record(history, latest)?)),
        LATEST_TIERED => Ok(listed(None)),
        _ => Err(KafkaError::new(ResponseError::InvalidRequest, format!("invalid timestamp {timestamp_ms}"))),
    }
}
