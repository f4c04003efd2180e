//! AlterPartitionReassignments and ListPartitionReassignments: every partition has its one replica
//! on the only broker, and no reassignment is ever in progress.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::alter_partition_reassignments_request::ReassignablePartition;
use kafka_protocol::messages::alter_partition_reassignments_response::{
    ReassignablePartitionResponse, ReassignableTopicResponse,
};
use kafka_protocol::messages::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
};
use kafka_protocol::protocol::StrBytes;
use quire::Operation;

use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::errors::KafkaError;
use crate::items::{PartitionNumbers, RequestItems};
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};

/// Timeout, whether the number of replicas may change, topics of (name, partitions of (number,
/// replicas)).
pub(crate) static SCHEMA: Schema = Schema {
    flexible_from: 0,
    body: fields(&[
        Field(0, LAST, Shape::Fixed(4)),
        Field(1, LAST, Shape::Fixed(1)),
        Field(0, LAST, Shape::Structs(&TOPIC)),
    ]),
};
static TOPIC: Struct = fields(&[Field(0, LAST, Shape::Text), Field(0, LAST, Shape::Structs(&PARTITION))]);
static PARTITION: Struct = fields(&[Field(0, LAST, Shape::Fixed(4)), Field(0, LAST, Shape::Numbers(4))]);

/// Timeout, topics of (name, partitions).
pub(crate) static LIST_SCHEMA: Schema = Schema {
    flexible_from: 0,
    body: fields(&[Field(0, LAST, Shape::Fixed(4)), Field(0, LAST, Shape::Structs(&LISTED_TOPIC))]),
};
static LISTED_TOPIC: Struct = fields(&[Field(0, LAST, Shape::Text), Field(0, LAST, Shape::Numbers(4))]);

/// Answers each partition: an assignment to the only broker holds already.
pub(crate) async fn handle(
    broker: &Broker,
    request: &Request,
) -> Result<AlterPartitionReassignmentsResponse, CloseReason> {
    let decoded: AlterPartitionReassignmentsRequest = request.decode()?;
    if let Err(failure) = broker.check_cluster(Operation::Alter) {
        return Ok(AlterPartitionReassignmentsResponse::default()
            .with_error_code(failure.code.code())
            .with_error_message(Some(StrBytes::from_string(failure.message))));
    }
    let names: Vec<&str> = decoded.topics.iter().map(|topic| topic.name.as_str()).collect();
    let known = RequestItems::begin(broker).partitions(broker, &names).await?;
    let ids = broker.all_ids();
    let responses = decoded.topics.iter().zip(known).map(|(topic, known)| {
        let response = |partition: &ReassignablePartition| {
            let response = ReassignablePartitionResponse::default().with_partition_index(partition.partition_index);
            match known.clone().and_then(|known| check(&ids, partition, known)) {
                Ok(()) => response.with_error_message(None),
                Err(failure) => response
                    .with_error_code(failure.code.code())
                    .with_error_message(Some(StrBytes::from_string(failure.message))),
            }
        };
        ReassignableTopicResponse::default()
            .with_name(topic.name.clone())
            .with_partitions(topic.partitions.iter().map(response).collect())
    });
    let response = AlterPartitionReassignmentsResponse::default().with_error_message(None);
    let response = response.with_responses(responses.collect());
    let changes = decoded.allow_replication_factor_change;
    Ok(if request.version > 0 { response.with_allow_replication_factor_change(changes) } else { response })
}

/// `ids` are those of all brokers, and `known` the partitions of the topic.
fn check(ids: &[i32], partition: &ReassignablePartition, known: PartitionNumbers) -> Result<(), KafkaError> {
    let number = partition.partition_index;
    if !known.contains(number) {
        return Err(KafkaError::unknown_partition(number));
    }
    match partition.replicas.as_deref() {
        // No replicas cancel the reassignment in progress.
        None => Err(KafkaError::new(ResponseError::NoReassignmentInProgress, "no reassignment is in progress")),
        Some(assigned) => Broker::check_assigned(ids, assigned),
    }
}

/// Lists the reassignments in progress: none.
pub(crate) fn handle_list(
    broker: &Broker,
    request: &Request,
) -> Result<ListPartitionReassignmentsResponse, CloseReason> {
    let _: ListPartitionReassignmentsRequest = request.decode()?;
    let response = ListPartitionReassignmentsResponse::default();
    Ok(match broker.check_cluster(Operation::Describe) {
        Ok(()) => response.with_error_message(None),
        Err(failure) => response
            .with_error_code(failure.code.code())
            .with_error_message(Some(StrBytes::from_string(failure.message))),
    })
}
