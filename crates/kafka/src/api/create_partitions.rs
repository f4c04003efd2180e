//! CreatePartitions: more partitions for topics, or whether they could have them.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kafka_protocol::messages::{CreatePartitionsRequest, CreatePartitionsResponse};
use kafka_protocol::protocol::StrBytes;
use quire::streams::{Command, TopicRef};

use crate::broker::{BROKER_ID, Broker};
use crate::connection::Closed;
use crate::errors::Failure;
use crate::read_only::{self, Wants};
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};
use crate::twice::Twice;

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
pub(crate) async fn handle(broker: &Broker, request: &Request) -> Result<CreatePartitionsResponse, Closed> {
    let decoded: CreatePartitionsRequest = request.decode()?;
    let mut results = Vec::with_capacity(decoded.topics.len());
    let twice = Twice::of(decoded.topics.iter().map(|topic| topic.name.clone()));
    for topic in decoded.topics {
        let result = CreatePartitionsTopicResult::default().with_error_message(None);
        let created = match twice.check(&topic.name, &topic.name) {
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

async fn create(broker: &Broker, topic: &CreatePartitionsTopic, only_validate: bool) -> Result<(), Failure> {
    let partitions = u32::try_from(topic.count).map_err(|_| {
        Failure::new(ResponseError::InvalidPartitions, format!("no topic has {} partitions", topic.count))
    })?;
    check_assignments(broker, topic, partitions)?;
    let command = Command::AddPartitions { topic: TopicRef::Name(topic.name.as_str()), partitions };
    let done = broker.commit_or_try(command, only_validate).await;
    done.map(|_| ()).map_err(|failure| read_only::explained(broker, &topic.name, Wants::MorePartitions, failure))
}

/// Who says which broker has each new partition says so of every one: an empty list is none of them, and not the same as no list.
fn check_assignments(broker: &Broker, topic: &CreatePartitionsTopic, partitions: u32) -> Result<(), Failure> {
    let Some(assignments) = &topic.assignments else { return Ok(()) };
    let known = broker.database.read_published(|view| {
        let topic = view.streams.topic_named(topic.name.as_str());
        topic.map(|topic| topic.partitions)
    })?;
    // That there is no such topic, or that it has so many, is the commit's to tell.
    let added = known.and_then(|known| partitions.checked_sub(known)).filter(|added| *added > 0);
    let here = assignments.iter().all(|assignment| assignment.broker_ids == [BROKER_ID]);
    if here && added.is_none_or(|added| assignments.len() == added as usize) {
        return Ok(());
    }
    let message = format!(
        "each partition that is added is on broker {BROKER_ID}, the only one; {} assignments are not that",
        assignments.len()
    );
    Err(Failure::new(ResponseError::InvalidReplicaAssignment, message))
}
