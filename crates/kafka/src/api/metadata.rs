//! Metadata: the broker, and the topics with their partitions. A request may create a missing
//! topic.
//!
//! A name in a request takes a few bytes, and a topic in a response up to some megabytes. So each
//! topic is answered once, and the memory of the response is claimed before it is built.

use std::collections::HashSet;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{MetadataRequest, MetadataResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use quire::streams::{Command, Refusal, TopicSettings};
use quire::{Commit, Operation, Outcome, Part, PermittedView, Reason, Resource, ResourceKind};
use quire_access::Deadline;
use tokio::time::Instant;
use uuid::Uuid;

use super::describe_cluster::cluster_operations;
use crate::broker::Broker;
use crate::brokers::BrokerList;
use crate::close_reason::CloseReason;
use crate::endpoints::Endpoints;
use crate::errors::KafkaError;
use crate::items::RequestItems;
use crate::memory::GrowingResponse;
use crate::permissions::{DescribableTopic, shows_topic};
use crate::request::Request;
use crate::response;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};
use crate::topic_list::TopicList;
use crate::topics::{self, KafkaTopic};

/// Topics of (id, name), whether to create them, which authorized operations to include.
pub(crate) static SCHEMA: Schema = Schema {
    flexible_from: 9,
    body: fields(&[
        Field(0, LAST, Shape::Structs(&TOPIC)),
        Field(4, LAST, Shape::Fixed(1)),
        Field(8, 10, Shape::Fixed(1)),
        Field(8, LAST, Shape::Fixed(1)),
    ]),
};
static TOPIC: Struct = fields(&[Field(10, LAST, Shape::Fixed(16)), Field(0, LAST, Shape::Text)]);

/// The memory of a topic and of a partition in bytes: in the response and in its frame.
const TOPIC_BYTES: usize = 512;
const PARTITION_BYTES: usize = 256;

/// A response with more partitions is built on another thread.
const INLINE_PARTITIONS_MAX: usize = 1_000;

/// The versions whose responses have the permitted operations on the cluster.
const CLUSTER_OPERATIONS: std::ops::RangeInclusive<i16> = 8..=10;

/// A requested topic: as found, or its error.
type NamedTopic = Result<DescribableTopic, Box<MetadataResponseTopic>>;

/// Returns the requested topics, or all.
///
/// # Errors
/// [`CloseReason::Idle`] when there is too little memory, or the list of all topics exceeds the
/// steps of a request.
pub(crate) async fn handle(
    broker: &Broker,
    ends: Endpoints,
    request: &Request,
    memory: &mut GrowingResponse<'_>,
) -> Result<MetadataResponse, CloseReason> {
    let decoded: MetadataRequest = request.decode()?;
    let create = broker.serves() && broker.creates_topics() && decoded.allow_auto_topic_creation;
    let mut creations_left = if create { broker.settings().auto_create_request_max } else { 0 };
    let mut create = create.then_some(&mut creations_left);
    let mut items = RequestItems::begin(broker);
    let topics = match decoded.topics {
        // Version 0 has no null: an empty list requests all topics.
        Some(asked) if request.version > 0 || !asked.is_empty() => {
            let (mut topics, mut seen) = (Vec::new(), HashSet::new());
            for topic in asked {
                if seen.insert((topic.name.clone(), topic.topic_id)) {
                    let topic = match items.look(1).await {
                        Ok(()) => named(broker, topic, create.as_deref_mut()).await?,
                        Err(failure) => {
                            Err(Box::new(failed(failure).with_topic_id(topic.topic_id).with_name(topic.name)))
                        }
                    };
                    items.grow(memory, topic.as_ref().map_or(TOPIC_BYTES, response_bytes)).await?;
                    topics.push(topic);
                }
            }
            topics
        }
        _ => all(broker, &mut items, memory).await?,
    };
    drop(items);
    let with_operations = decoded.include_topic_authorized_operations;
    let brokers = broker.brokers(ends);
    let list = brokers.clone();
    let describe = move |DescribableTopic { topic, operations }| {
        let described = describe(topic, &list);
        if with_operations { described.with_topic_authorized_operations(operations) } else { described }
    };
    let is_long = partitions_of(&topics) > INLINE_PARTITIONS_MAX;
    let build = move || topics.into_iter().map(|topic| topic.map_or_else(|failed| *failed, &describe)).collect();
    let topics = if is_long { response::aside(build).await? } else { build() };
    let controller = brokers.leader_id();
    let nodes = brokers.nodes.into_iter().map(|node| {
        MetadataResponseBroker::default()
            .with_node_id(node.id.into())
            .with_host(StrBytes::from_string(node.host))
            .with_port(i32::from(node.port))
    });
    let response = MetadataResponse::default();
    let response = match decoded.include_cluster_authorized_operations && CLUSTER_OPERATIONS.contains(&request.version)
    {
        true => response.with_cluster_authorized_operations(cluster_operations(broker)),
        false => response,
    };
    Ok(response
        .with_brokers(nodes.collect())
        .with_cluster_id(Some(StrBytes::from_string(Uuid::from_u128(broker.database_id()).to_string())))
        .with_controller_id(controller)
        .with_topics(topics))
}

/// The memory of a topic: in the response and in its frame.
fn response_bytes(DescribableTopic { topic, .. }: &DescribableTopic) -> usize {
    TOPIC_BYTES + 2 * topic.name.len() + topic.partitions() as usize * PARTITION_BYTES
}

/// Returns every topic that the client may describe.
async fn all(
    broker: &Broker,
    items: &mut RequestItems,
    memory: &mut GrowingResponse<'_>,
) -> Result<Vec<NamedTopic>, CloseReason> {
    let (mut topics, mut list) = (Vec::new(), TopicList::new());
    let describe = |view: &PermittedView<'_>, topic: KafkaTopic| {
        shows_topic(view, &topic).then(|| DescribableTopic::of(view, topic))
    };
    loop {
        // The response has no error of its own.
        let few = list.next(broker, items, describe).await?.map_err(|_| CloseReason::Idle(Deadline::Response))?;
        let Some(few) = few else { return Ok(topics) };
        items.grow(memory, few.iter().map(response_bytes).sum()).await?;
        topics.extend(few.into_iter().map(Ok));
    }
}

/// Returns one requested topic, and creates it if allowed. `create` is the number of topics that
/// the request may still create.
async fn named(
    broker: &Broker,
    asked: MetadataRequestTopic,
    create: Option<&mut usize>,
) -> Result<NamedTopic, CloseReason> {
    let id = asked.topic_id;
    let Some(name) = asked.name.filter(|_| id.is_nil()) else {
        let found = broker.read(|database, view| {
            let topic = topics::permitted_by_id(database, view, id, Operation::Describe)?;
            Ok(DescribableTopic::of(view, topic))
        });
        return Ok(found.await?.map_err(|failure| Box::new(failed(failure).with_topic_id(id).with_name(None))));
    };
    let found = find(broker, &name).await?;
    let found = match (found, create) {
        (Err(missing), Some(creations_left)) if missing.code == ResponseError::UnknownTopicOrPartition => {
            match create_topic(broker, &name, creations_left).await {
                Ok(()) => find(broker, &name).await?,
                Err(failure) => return Ok(Err(Box::new(failed(failure).with_name(Some(name))))),
            }
        }
        (found, _) => found,
    };
    Ok(found.map_err(|failure| Box::new(failed(failure).with_name(Some(name)))))
}

async fn find(broker: &Broker, name: &str) -> Result<Result<DescribableTopic, KafkaError>, CloseReason> {
    let found = broker.read(|database, view| {
        let topic = topics::permitted(database, view, name, Operation::Describe)?;
        Ok(DescribableTopic::of(view, topic))
    });
    found.await
}

/// Creates a topic within the limits, or finds one that another client just created.
async fn create_topic(broker: &Broker, name: &str, creations_left: &mut usize) -> Result<(), KafkaError> {
    let created = create_within_limits(broker, name, creations_left).await;
    match &created {
        Ok(()) => broker.counters().auto_created(),
        Err(failure) if is_limit(failure.code) => broker.counters().auto_refused(),
        Err(_) => {}
    }
    created
}

/// Whether a limit refused a creation: that of a request, the rate, or the number of partitions.
fn is_limit(code: ResponseError) -> bool {
    matches!(code, ResponseError::ThrottlingQuotaExceeded | ResponseError::PolicyViolation)
}

async fn create_within_limits(broker: &Broker, name: &str, creations_left: &mut usize) -> Result<(), KafkaError> {
    // A client that may not create the topic takes none of the rate, which all clients share.
    broker.check(Resource::new(ResourceKind::Topic, name), Operation::Create)?;
    let Some(left) = creations_left.checked_sub(1) else {
        let most = broker.settings().auto_create_request_max;
        let message = format!("auto_create_request_max of {most} topics is exceeded: request the other topics again");
        return Err(KafkaError::new(ResponseError::ThrottlingQuotaExceeded, message));
    };
    *creations_left = left;
    let most = broker.settings().auto_create_per_second;
    if !broker.auto_creations.take(Instant::now(), most) {
        let message = format!("auto_create_per_second of {most} topics is exceeded: ask for the topic again");
        return Err(KafkaError::new(ResponseError::ThrottlingQuotaExceeded, message));
    }
    let (partitions, settings) = (broker.settings().auto_create_partitions, TopicSettings::default());
    let command = Command::CreateTopic { name, partitions, settings };
    let submitted = broker.database().submit(&Commit::new().part(Part::Streams(command)))?;
    match submitted.await? {
        Outcome::Committed(_) => Ok(()),
        Outcome::Refused(refused) if matches!(refused.reason, Reason::Streams(Refusal::TopicExists { .. })) => Ok(()),
        Outcome::Refused(refused) => Err(refused.into()),
    }
}

fn partitions_of(topics: &[NamedTopic]) -> usize {
    topics.iter().flatten().map(|found| found.topic.partitions() as usize).sum()
}

fn describe(topic: KafkaTopic, brokers: &BrokerList) -> MetadataResponseTopic {
    let error = if brokers.leader().is_some() { 0 } else { ResponseError::LeaderNotAvailable.code() };
    let partition = |number: u32| {
        MetadataResponsePartition::default()
            .with_error_code(error)
            .with_partition_index(i32::try_from(number).expect("a partition's number has 31 bits"))
            .with_leader_id(brokers.leader_id())
            .with_leader_epoch(brokers.epoch)
            .with_replica_nodes(brokers.ids())
            .with_isr_nodes(brokers.ids())
    };
    MetadataResponseTopic::default()
        .with_partitions((0..topic.partitions()).map(partition).collect())
        .with_topic_id(topic.uuid)
        .with_name(Some(TopicName(StrBytes::from_string(topic.name))))
}

fn failed(failure: KafkaError) -> MetadataResponseTopic {
    MetadataResponseTopic::default().with_error_code(failure.code.code())
}
