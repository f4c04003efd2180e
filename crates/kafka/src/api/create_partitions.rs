//! CreatePartitions: adds partitions to topics, or validates the request.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kafka_protocol::messages::{CreatePartitionsRequest, CreatePartitionsResponse};
use kafka_protocol::protocol::StrBytes;
use quire::streams::{Command, TopicRef};
use quire::{Operation, ReadView, Resource, ResourceKind};

use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::duplicates::Duplicates;
use crate::errors::KafkaError;
use crate::items::RequestItems;
use crate::read_only::{self, TopicOperation};
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};

/// Topics of (name, count, assignments of (brokers)), timeout, whether only to validate.
pub(crate) static SCHEMA: Schema = Schema {
    flexible_from: 2,
    body: fields(&[Field(0, LAST, Shape::Structs(&TOPIC)), Field(0, LAST, Shape::Fixed(4 + 1))]),
};
static TOPIC: Struct = fields(&[
    Field(0, LAST, Shape::Text),
    Field(0, LAST, Shape::Fixed(4)),
    Field(0, LAST, Shape::Structs(&ASSIGNMENT)),
]);
static ASSIGNMENT: Struct = fields(&[Field(0, LAST, Shape::Numbers(4))]);

/// Answers each topic by itself.
pub(crate) async fn handle(broker: &Broker, request: &Request) -> Result<CreatePartitionsResponse, CloseReason> {
    let decoded: CreatePartitionsRequest = request.decode()?;
    let mut items = RequestItems::begin(broker);
    let mut results = Vec::with_capacity(decoded.topics.len());
    let twice = Duplicates::of(decoded.topics.iter().map(|topic| topic.name.clone()));
    for topic in decoded.topics {
        let result = CreatePartitionsTopicResult::default().with_error_message(None);
        let created = match items.commit().await.and_then(|()| twice.check(&topic.name, &topic.name)) {
            Ok(()) => create(broker, &topic, decoded.validate_only).await,
            Err(failure) => Err(failure),
        };
        let result = match created {
            Ok(()) => result,
            Err(failure) => result
                .with_error_code(failure.code.code())
                .with_error_message(Some(StrBytes::from_string(failure.message))),
        };
        results.push(result.with_name(topic.name));
    }
    Ok(CreatePartitionsResponse::default().with_results(results))
}

async fn create(broker: &Broker, topic: &CreatePartitionsTopic, only_validate: bool) -> Result<(), KafkaError> {
    let partitions = u32::try_from(topic.count).map_err(|_| {
        KafkaError::new(
            ResponseError::InvalidPartitions,
            format!("the number of partitions must be positive, got {}", topic.count),
        )
    })?;
    let command = Command::AddPartitions { topic: TopicRef::Name(topic.name.as_str()), partitions };
    let done = match check_assignments(broker, topic, partitions) {
        Ok(()) => broker.commit_or_try(&[command], only_validate).await,
        Err(failure) => Err(failure),
    };
    done.map_err(|failure| read_only::explained(broker, &topic.name, TopicOperation::MorePartitions, failure))
}

/// A request that assigns brokers does so for every new partition. An empty list assigns none of
/// them, and differs from no list.
fn check_assignments(broker: &Broker, topic: &CreatePartitionsTopic, partitions: u32) -> Result<(), KafkaError> {
    let Some(assignments) = &topic.assignments else { return Ok(()) };
    let resource = Resource::new(ResourceKind::Topic, topic.name.as_str());
    let partitions_of = |view: &ReadView<'_>| view.streams.topic_named(resource.name).map(|topic| topic.partitions);
    let known = broker.database().read_published_for(resource, Operation::Alter, partitions_of)?;
    // The commit reports a missing topic or an equal number of partitions.
    let added = known.and_then(|known| partitions.checked_sub(known)).filter(|added| *added > 0);
    let ids = broker.all_ids();
    assignments.iter().try_for_each(|assignment| Broker::check_assigned(&ids, &assignment.broker_ids))?;
    if added.is_none_or(|added| assignments.len() == added as usize) {
        return Ok(());
    }
    let message = format!("assign brokers to each added partition: {} assignments do not match", assignments.len());
    Err(KafkaError::new(ResponseError::InvalidReplicaAssignment, message))
}
