//! DeleteRecords: moves the start of partitions.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::delete_records_response::{DeleteRecordsPartitionResult, DeleteRecordsTopicResult};
use kafka_protocol::messages::{DeleteRecordsRequest, DeleteRecordsResponse};
use quire::Sequence;
use quire::streams::{Command, Reply, TopicRef};

use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::errors::KafkaError;
use crate::items::RequestItems;
use crate::read_only::{self, TopicOperation};
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};

/// Topics of (name, partitions of (number, offset)), timeout.
pub(crate) static SCHEMA: Schema = Schema {
    flexible_from: 2,
    body: fields(&[Field(0, LAST, Shape::Structs(&TOPIC)), Field(0, LAST, Shape::Fixed(4))]),
};
static TOPIC: Struct = fields(&[Field(0, LAST, Shape::Text), Field(0, LAST, Shape::Structs(&PARTITION))]);
static PARTITION: Struct = fields(&[Field(0, LAST, Shape::Fixed(4 + 8))]);

/// The offset that represents the end.
const END: i64 = -1;

/// Answers each partition by itself.
pub(crate) async fn handle(broker: &Broker, request: &Request) -> Result<DeleteRecordsResponse, CloseReason> {
    let decoded: DeleteRecordsRequest = request.decode()?;
    let mut items = RequestItems::begin(broker);
    let mut topics = Vec::with_capacity(decoded.topics.len());
    for topic in decoded.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for asked in &topic.partitions {
            let result = DeleteRecordsPartitionResult::default().with_partition_index(asked.partition_index);
            let deleted = match items.commit().await {
                Ok(()) => delete(broker, topic.name.as_str(), asked.partition_index, asked.offset).await,
                Err(failure) => Err(failure),
            };
            partitions.push(match deleted {
                Ok(start) => result.with_low_watermark(i64::try_from(start.get()).expect("an offset has 63 bits")),
                Err(failure) => result.with_low_watermark(-1).with_error_code(failure.code.code()),
            });
        }
        topics.push(DeleteRecordsTopicResult::default().with_name(topic.name).with_partitions(partitions));
    }
    Ok(DeleteRecordsResponse::default().with_topics(topics))
}

async fn delete(broker: &Broker, topic: &str, partition: i32, offset: i64) -> Result<Sequence, KafkaError> {
    let number = u32::try_from(partition).map_err(|_| KafkaError::unknown_partition(partition))?;
    let before =
        match offset {
            END => None,
            _ => Some(Sequence::new(u64::try_from(offset).map_err(|_| {
                KafkaError::new(ResponseError::OffsetOutOfRange, format!("offset {offset} out of range"))
            })?)),
        };
    let command =
        Command::DeleteRecords { topic: TopicRef::Name(topic), partition: number, before, keep_unread: false };
    let deleted = broker.commit(command).await;
    match deleted.map_err(|failure| read_only::explained(broker, topic, TopicOperation::FewerRecords, failure))? {
        Reply::RecordsDeleted(deleted) => Ok(deleted.start),
        other => unreachable!("a deletion returns a start offset, not {other:?}"),
    }
}
