//! CreateTopics: creates topics with their partitions and settings, or validates the request.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::create_topics_response::{CreatableTopicConfigs, CreatableTopicResult};
use kafka_protocol::messages::{CreateTopicsRequest, CreateTopicsResponse};
use kafka_protocol::protocol::StrBytes;
use quire::streams::{Command, KeptSettings, TopicRef, TopicSettings};
use quire::{Operation, Resource, ResourceKind};
use quire_access::budget::ByteClaim;

use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::configs::{self, ConfigChanges};
use crate::duplicates::Duplicates;
use crate::errors::KafkaError;
use crate::items::RequestItems;
use crate::permissions::shows_topic;
use crate::read_only::{self, TopicOperation};
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};
use crate::topics;

/// Topics of (name, partitions, replicas, assignments of (partition, brokers), settings of (name,
/// value)), timeout, whether only to validate.
pub(crate) static SCHEMA: Schema = Schema {
    flexible_from: 5,
    body: fields(&[
        Field(0, LAST, Shape::Structs(&TOPIC)),
        Field(0, LAST, Shape::Fixed(4)),
        Field(1, LAST, Shape::Fixed(1)),
    ]),
};
static TOPIC: Struct = fields(&[
    Field(0, LAST, Shape::Text),
    Field(0, LAST, Shape::Fixed(4 + 2)),
    Field(0, LAST, Shape::Structs(&ASSIGNMENT)),
    Field(0, LAST, Shape::Structs(&CONFIG)),
]);
static ASSIGNMENT: Struct = fields(&[Field(0, LAST, Shape::Fixed(4)), Field(0, LAST, Shape::Numbers(4))]);
static CONFIG: Struct = fields(&[Field(0, LAST, Shape::Text), Field(0, LAST, Shape::Text)]);

/// The first versions whose responses describe the topic, and have its id.
const TOPIC_FROM: i16 = 5;
const ID_FROM: i16 = 7;

/// The memory of the result of a topic, and of its settings.
const RESULT_BYTES: usize = 512;
const SETTINGS_BYTES: usize = 8 << 10;

/// Creates each topic by itself.
pub(crate) async fn handle(
    broker: &Broker,
    request: &Request,
    held: &mut ByteClaim,
) -> Result<CreateTopicsResponse, CloseReason> {
    let decoded: CreateTopicsRequest = request.decode()?;
    let mut items = RequestItems::begin(broker);
    let mut results = Vec::with_capacity(decoded.topics.len());
    let twice = Duplicates::of(decoded.topics.iter().map(|topic| topic.name.clone()));
    for topic in decoded.topics {
        let result = CreatableTopicResult::default().with_error_message(None);
        let checked = items.commit().await.and_then(|()| twice.check(&topic.name, &topic.name));
        // A topic whose description has no memory is not created.
        let described_bytes = described_bytes(&topic, request.version);
        let claimed = checked.and_then(|()| held.grow(described_bytes).map_err(KafkaError::from));
        let created = match claimed {
            Ok(()) => create(broker, &topic, decoded.validate_only).await,
            Err(failure) => Err(failure),
        };
        let result = match created {
            Ok(created) => describe(broker, result, &created, request.version).await?,
            Err(failure) => {
                let result = result.with_error_code(failure.code.code());
                let result = result.with_error_message(Some(StrBytes::from_string(failure.message)));
                if request.version >= TOPIC_FROM { result.with_configs(None) } else { result }
            }
        };
        results.push(result.with_name(topic.name));
    }
    Ok(CreateTopicsResponse::default().with_topics(results))
}

/// The memory of the description of a topic, in the response and in its frame.
fn described_bytes(topic: &CreatableTopic, version: i16) -> usize {
    let settings = if version < TOPIC_FROM { 0 } else { SETTINGS_BYTES };
    RESULT_BYTES + 2 * topic.name.len() + settings
}

/// A topic after its creation, or as it would be created.
struct CreatedTopic {
    name: String,
    partitions: u32,
    settings: TopicSettings,
    kept: KeptSettings,
}

async fn create(broker: &Broker, topic: &CreatableTopic, only_validate: bool) -> Result<CreatedTopic, KafkaError> {
    // The commit checks this too. Nothing of the request is looked at before.
    broker.check(Resource::new(ResourceKind::Topic, &topic.name), Operation::Create)?;
    // Every broker gets every record, whatever the client wants.
    let brokers = broker.all_ids().len();
    let is_known = usize::try_from(topic.replication_factor).is_ok_and(|factor| (1..=brokers).contains(&factor));
    if !is_known && topic.replication_factor != -1 {
        let factor = topic.replication_factor;
        let message = match brokers {
            1 => format!("the replication factor must be 1 or -1, got {factor}: there is one broker"),
            _ => format!("the replication factor must be -1 or 1 to {brokers}, the number of brokers, got {factor}"),
        };
        return Err(KafkaError::new(ResponseError::InvalidReplicationFactor, message));
    }
    let mut changes = ConfigChanges::default();
    let twice = Duplicates::of(topic.configs.iter().map(|config| config.name.clone()));
    for config in &topic.configs {
        twice.check(&config.name, &config.name)?;
        let change = configs::set(&config.name, config.value.as_deref())?;
        configs::change(&mut changes, &config.name, change, broker.batch_bytes_max())?;
    }
    let settings = TopicSettings::default().changed(changes.honoured);
    let name = topic.name.to_string();
    let partitions = partitions(broker, topic)?;
    if let Some(failure) = broker.read_published(|database, view| {
        let topic = topics::named(database, view, &name)?;
        let refusal = read_only::refusal(&topic, TopicOperation::Create)?;
        let is_shown = shows_topic(view, &topic);
        Some(if is_shown { refusal } else { KafkaError::new(refusal.code, "another object has the name of the topic") })
    })? {
        return Err(failure);
    }
    let kept = KeptSettings::default().changed(&changes.kept())?;
    if !kept.is_empty() {
        // The commit checks this too. A validation decides the creation only.
        broker.check(Resource::new(ResourceKind::Topic, &name), Operation::AlterConfigs)?;
    }
    let command = Command::CreateTopic { name: &name, partitions, settings };
    let keep = Command::KeepSettings { topic: TopicRef::Name(&name), changes: &changes.kept() };
    let commands = if kept.is_empty() { vec![command] } else { vec![command, keep] };
    broker.commit_or_try(&commands, only_validate).await?;
    Ok(CreatedTopic { name, partitions, settings, kept })
}

/// The requested number of partitions: given as a number, or by assigning a broker to each.
fn partitions(broker: &Broker, topic: &CreatableTopic) -> Result<u32, KafkaError> {
    if topic.assignments.is_empty() {
        return match topic.num_partitions {
            -1 => Ok(broker.settings().auto_create_partitions),
            partitions => u32::try_from(partitions).map_err(|_| {
                KafkaError::new(
                    ResponseError::InvalidPartitions,
                    format!("the number of partitions must be positive, got {partitions}"),
                )
            }),
        };
    }
    let mut numbers: Vec<i32> = topic.assignments.iter().map(|assignment| assignment.partition_index).collect();
    numbers.sort_unstable();
    let dense = numbers.iter().copied().eq(0..numbers.len() as i32);
    let ids = broker.all_ids();
    topic.assignments.iter().try_for_each(|assignment| Broker::check_assigned(&ids, &assignment.broker_ids))?;
    if dense && topic.num_partitions == -1 {
        return Ok(numbers.len() as u32);
    }
    let message = "assign brokers to every partition from 0 on, and give no number of partitions";
    Err(KafkaError::new(ResponseError::InvalidReplicaAssignment, message))
}

async fn describe(
    broker: &Broker,
    result: CreatableTopicResult,
    created: &CreatedTopic,
    version: i16,
) -> Result<CreatableTopicResult, CloseReason> {
    if version < TOPIC_FROM {
        return Ok(result);
    }
    let most = broker.batch_bytes_max();
    let shown = configs::of_topic(&created.settings, &created.kept, most).into_iter().map(|shown| {
        CreatableTopicConfigs::default()
            .with_name(StrBytes::from_static_str(shown.name))
            .with_config_source(if shown.is_said { 1 } else { 5 })
            .with_value(Some(StrBytes::from_string(shown.value)))
    });
    let described = broker.check(Resource::new(ResourceKind::Topic, &created.name), Operation::DescribeConfigs);
    let result = match described {
        Err(failure) => result.with_topic_config_error_code(failure.code.code()).with_configs(Some(Vec::new())),
        Ok(()) => result
            .with_num_partitions(i32::try_from(created.partitions).expect("partitions have 31 bits"))
            .with_replication_factor(i16::try_from(broker.all_ids().len()).unwrap_or(i16::MAX))
            .with_configs(Some(shown.collect())),
    };
    if version < ID_FROM {
        return Ok(result);
    }
    let found = broker.read(|database, view| topics::named(database, view, &created.name)).await?;
    Ok(result.with_topic_id(found.map(|topic| topic.uuid).unwrap_or_default()))
}
