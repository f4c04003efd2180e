//! OffsetForLeaderEpoch: the end of an epoch's records. Published records are never truncated, so
//! each epoch up to the current one ends with the partition, as far as a consumer can tell.

use kafka_protocol::messages::offset_for_leader_epoch_request::OffsetForLeaderPartition;
use kafka_protocol::messages::offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult};
use kafka_protocol::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};
use quire::{Database, Operation};
use quire_access::BoundedRequest;

use crate::broker::Broker;
use crate::brokers::{check_epoch, leader_epoch};
use crate::close_reason::CloseReason;
use crate::errors::KafkaError;
use crate::partition::ReadablePartition;
use crate::pause::RegularPause;
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};
use crate::topics;

/// Replica, topics of (name, partitions of (number, current epoch, epoch)).
pub(crate) static SCHEMA: Schema = Schema {
    flexible_from: 4,
    body: fields(&[Field(3, LAST, Shape::Fixed(4)), Field(0, LAST, Shape::Structs(&TOPIC))]),
};
static TOPIC: Struct = fields(&[Field(0, LAST, Shape::Text), Field(0, LAST, Shape::Structs(&PARTITION))]);
static PARTITION: Struct =
    fields(&[Field(0, LAST, Shape::Fixed(4)), Field(2, LAST, Shape::Fixed(4)), Field(0, LAST, Shape::Fixed(4))]);

/// Answers each partition by itself, and runs other tasks in between.
pub(crate) async fn handle(broker: &Broker, request: &Request) -> Result<OffsetForLeaderEpochResponse, CloseReason> {
    let decoded: OffsetForLeaderEpochRequest = request.decode()?;
    let (bounded, mut pause) = (BoundedRequest::begin(&broker.database()), RegularPause::default());
    let mut topics = Vec::with_capacity(decoded.topics.len());
    for topic in decoded.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for asked in &topic.partitions {
            pause.step().await;
            let response = EpochEndOffset::default().with_partition(asked.partition);
            partitions.push(match end(bounded.database(), topic.topic.as_str(), asked) {
                Ok((epoch, offset)) => response.with_leader_epoch(epoch).with_end_offset(offset),
                Err(failure) => response.with_error_code(failure.code.code()),
            });
        }
        topics.push(OffsetForLeaderTopicResult::default().with_topic(topic.topic).with_partitions(partitions));
    }
    Ok(OffsetForLeaderEpochResponse::default().with_topics(topics))
}

/// Returns the largest epoch up to the requested one, and its end; -1 for both when there is none.
fn end(database: &Database, topic: &str, asked: &OffsetForLeaderPartition) -> Result<(i32, i64), KafkaError> {
    let id = database.id();
    let partition = database.read_published_permitted(|view| {
        let topic = topics::permitted(id, view, topic, Operation::Describe)?;
        check_epoch(database, asked.current_leader_epoch)?;
        ReadablePartition::of(view, &topic, asked.partition)
    })??;
    if !(0..=leader_epoch(database)).contains(&asked.leader_epoch) {
        return Ok((-1, -1));
    }
    let next = partition.offsets(&database.history())?.next;
    Ok((asked.leader_epoch, i64::try_from(next.get()).expect("an offset has 63 bits")))
}
