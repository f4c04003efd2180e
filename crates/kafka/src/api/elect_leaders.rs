//! ElectLeaders: the only broker leads every partition, so no election is needed.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::elect_leaders_response::{PartitionResult, ReplicaElectionResult};
use kafka_protocol::messages::{ElectLeadersRequest, ElectLeadersResponse};
use kafka_protocol::protocol::StrBytes;
use quire::Operation;

use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::items::RequestItems;
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};

/// The type of election, topics of (name, partitions), timeout.
pub(crate) static SCHEMA: Schema = Schema {
    flexible_from: 2,
    body: fields(&[
        Field(1, LAST, Shape::Fixed(1)),
        Field(0, LAST, Shape::Structs(&TOPIC)),
        Field(0, LAST, Shape::Fixed(4)),
    ]),
};
static TOPIC: Struct = fields(&[Field(0, LAST, Shape::Text), Field(0, LAST, Shape::Numbers(4))]);

/// The first version whose response has an error of its own.
const ERRORS_FROM: i16 = 1;

/// Answers each partition. As in Kafka, a request for all partitions lists only those that had an
/// election: none.
pub(crate) async fn handle(broker: &Broker, request: &Request) -> Result<ElectLeadersResponse, CloseReason> {
    let decoded: ElectLeadersRequest = request.decode()?;
    let asked = decoded.topic_partitions.unwrap_or_default();
    let refused = broker.check_cluster(Operation::Alter).err();
    let names: Vec<&str> = asked.iter().map(|topic| topic.topic.as_str()).collect();
    let known = RequestItems::begin(broker).partitions(broker, &names).await?;
    let results = asked.iter().zip(&known).map(|(topic, known)| {
        let result = |&partition: &i32| {
            let is_known = known.as_ref().map(|known| known.contains(partition));
            let (code, message) = match (&refused, is_known) {
                (Some(failure), _) => (failure.code, "not permitted"),
                (None, Err(failure)) => (failure.code, "the request exceeds its steps"),
                (None, Ok(true)) => (ResponseError::ElectionNotNeeded, "the only broker leads the partition"),
                (None, Ok(false)) => (ResponseError::UnknownTopicOrPartition, "unknown partition"),
            };
            PartitionResult::default()
                .with_partition_id(partition)
                .with_error_code(code.code())
                .with_error_message(Some(StrBytes::from_static_str(message)))
        };
        ReplicaElectionResult::default()
            .with_topic(topic.topic.clone())
            .with_partition_result(topic.partitions.iter().map(result).collect())
    });
    let response = ElectLeadersResponse::default().with_replica_election_results(results.collect());
    Ok(match refused {
        Some(failure) if request.version >= ERRORS_FROM => response.with_error_code(failure.code.code()),
        _ => response,
    })
}
