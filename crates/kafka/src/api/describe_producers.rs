//! DescribeProducers: the idempotent producers of partitions.

use kafka_protocol::messages::describe_producers_response::{PartitionResponse, ProducerState, TopicResponse};
use kafka_protocol::messages::{DescribeProducersRequest, DescribeProducersResponse};
use kafka_protocol::protocol::StrBytes;
use quire::{Operation, PermittedView};

use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::errors::KafkaError;
use crate::items::RequestItems;
use crate::memory::{GrowingResponse, bytes_in_memory};
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};
use crate::topics::{self, TopicKind};

/// Topics of (name, partitions).
pub(crate) static SCHEMA: Schema = Schema { flexible_from: 0, body: fields(&[Field(0, LAST, Shape::Structs(&TOPIC))]) };
static TOPIC: Struct = fields(&[Field(0, LAST, Shape::Text), Field(0, LAST, Shape::Numbers(4))]);

/// Answers each partition by itself.
pub(crate) async fn handle(
    broker: &Broker,
    request: &Request,
    memory: &mut GrowingResponse<'_>,
) -> Result<DescribeProducersResponse, CloseReason> {
    let decoded: DescribeProducersRequest = request.decode()?;
    let mut items = RequestItems::begin(broker);
    let mut topics = Vec::new();
    for topic in decoded.topics {
        let mut partitions = Vec::new();
        for partition in topic.partition_indexes {
            let found = match items.look(1).await {
                Ok(()) => {
                    let look = |database, view: &PermittedView<'_>| producers(database, view, &topic.name, partition);
                    broker.read(look).await?
                }
                Err(failure) => Err(failure),
            };
            let response = PartitionResponse::default().with_partition_index(partition);
            let response = match found {
                Ok(producers) => response.with_active_producers(producers),
                Err(failure) => response
                    .with_error_code(failure.code.code())
                    .with_error_message(Some(StrBytes::from_string(failure.message))),
            };
            items.grow(memory, bytes_in_memory(&response, request.version)?).await?;
            partitions.push(response);
        }
        topics.push(TopicResponse::default().with_name(topic.name).with_partitions(partitions));
    }
    Ok(DescribeProducersResponse::default().with_topics(topics))
}

fn producers(
    database: u128,
    view: &PermittedView<'_>,
    topic: &str,
    partition: i32,
) -> Result<Vec<ProducerState>, KafkaError> {
    let topic = topics::permitted(database, view, topic, Operation::Read)?;
    let number = u32::try_from(partition).ok().filter(|number| *number < topic.partitions());
    let number = number.ok_or_else(|| KafkaError::unknown_partition(partition))?;
    // A store or a queue has no producers.
    let TopicKind::Stream { id, .. } = topic.kind else { return Ok(Vec::new()) };
    let producers = view.streams.producers_of(id, number).map(|producer| {
        ProducerState::default()
            .with_producer_id(i64::try_from(producer.producer.get()).expect("an id has 63 bits").into())
            .with_producer_epoch(i32::from(producer.epoch))
            .with_last_sequence(i32::try_from(producer.last_sequence).expect("a sequence has 31 bits"))
            .with_last_timestamp(i64::try_from(producer.time.as_millis()).unwrap_or(i64::MAX))
            .with_coordinator_epoch(-1)
            .with_current_txn_start_offset(-1)
    });
    Ok(producers.collect())
}
