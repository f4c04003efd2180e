//! AlterConfigs and IncrementalAlterConfigs: the settings of topics, all of them or some.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::incremental_alter_configs_request as incremental_request;
use kafka_protocol::messages::incremental_alter_configs_response as incremental;
use kafka_protocol::messages::{
    AlterConfigsRequest, AlterConfigsResponse, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
};
use kafka_protocol::protocol::StrBytes;
use quire::streams::{Cleanup, Command, TopicRef};
use quire::{Operation, ReadView, Resource, ResourceKind};

use super::describe_configs::TOPIC;
use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::configs::{self, ConfigChanges, ConfigOperation, ListOperation};
use crate::duplicates::Duplicates;
use crate::errors::KafkaError;
use crate::items::RequestItems;
use crate::read_only::{self, TopicOperation};
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};
use crate::topics;

/// Resources of (type, name, settings of (name, value)), whether only to validate.
pub(crate) static SCHEMA: Schema = Schema {
    flexible_from: 2,
    body: fields(&[Field(0, LAST, Shape::Structs(&RESOURCE)), Field(0, LAST, Shape::Fixed(1))]),
};
static RESOURCE: Struct =
    fields(&[Field(0, LAST, Shape::Fixed(1)), Field(0, LAST, Shape::Text), Field(0, LAST, Shape::Structs(&CONFIG))]);
static CONFIG: Struct = fields(&[Field(0, LAST, Shape::Text), Field(0, LAST, Shape::Text)]);

/// The same, and for each setting the operation.
pub(crate) static INCREMENTAL_SCHEMA: Schema = Schema {
    flexible_from: 1,
    body: fields(&[Field(0, LAST, Shape::Structs(&CHANGED_RESOURCE)), Field(0, LAST, Shape::Fixed(1))]),
};
static CHANGED_RESOURCE: Struct = fields(&[
    Field(0, LAST, Shape::Fixed(1)),
    Field(0, LAST, Shape::Text),
    Field(0, LAST, Shape::Structs(&CHANGED_CONFIG)),
]);
static CHANGED_CONFIG: Struct =
    fields(&[Field(0, LAST, Shape::Text), Field(0, LAST, Shape::Fixed(1)), Field(0, LAST, Shape::Text)]);

/// The operations on a setting, by Kafka's numbers.
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

/// Sets the settings of each topic: those that are not named are reset to their defaults.
pub(crate) async fn handle(broker: &Broker, request: &Request) -> Result<AlterConfigsResponse, CloseReason> {
    let decoded: AlterConfigsRequest = request.decode()?;
    let mut items = RequestItems::begin(broker);
    let mut responses = Vec::with_capacity(decoded.resources.len());
    let twice = Duplicates::of(decoded.resources.iter().map(|it| (it.resource_type, it.resource_name.clone())));
    for resource in decoded.resources {
        let named = Duplicates::of(resource.configs.iter().map(|config| config.name.clone()));
        let key = (resource.resource_type, resource.resource_name.clone());
        let steps = items.commit().await;
        let checked = steps.and_then(|()| twice.check(&key, &resource.resource_name));
        let mut changes = checked.map(|()| configs::reset());
        if let Err(failure) = check(broker, &key.1, resource.resource_type) {
            changes = Err(failure);
        }
        for config in &resource.configs {
            changes = changes.and_then(|mut changes| {
                named.check(&config.name, &config.name)?;
                let change = configs::set(&config.name, config.value.as_deref())?;
                configs::change(&mut changes, &config.name, change, broker.batch_bytes_max())?;
                Ok(changes)
            });
        }
        let name = resource.resource_name.as_str();
        let altered = alter(broker, name, changes, decoded.validate_only).await;
        let response = AlterConfigsResourceResponse::default();
        let response = match altered {
            Ok(()) => response,
            Err(failure) => response
                .with_error_code(failure.code.code())
                .with_error_message(Some(StrBytes::from_string(failure.message))),
        };
        let response = response.with_resource_type(resource.resource_type);
        responses.push(response.with_resource_name(resource.resource_name));
    }
    Ok(AlterConfigsResponse::default().with_responses(responses))
}

/// Changes the named settings.
pub(crate) async fn handle_incremental(
    broker: &Broker,
    request: &Request,
) -> Result<IncrementalAlterConfigsResponse, CloseReason> {
    let decoded: IncrementalAlterConfigsRequest = request.decode()?;
    let mut items = RequestItems::begin(broker);
    let mut responses = Vec::with_capacity(decoded.resources.len());
    let twice = Duplicates::of(decoded.resources.iter().map(|it| (it.resource_type, it.resource_name.clone())));
    for resource in decoded.resources {
        let named = Duplicates::of(resource.configs.iter().map(|config| config.name.clone()));
        let key = (resource.resource_type, resource.resource_name.clone());
        let name = resource.resource_name.as_str();
        let checked = items.commit().await.and_then(|()| twice.check(&key, name));
        let mut changes = checked.map(|()| ConfigChanges::default());
        if let Err(failure) = check(broker, name, resource.resource_type) {
            changes = Err(failure);
        }
        for config in &resource.configs {
            changes = changes.and_then(|mut changes| {
                named.check(&config.name, &config.name)?;
                change(broker, name, &mut changes, config)?;
                Ok(changes)
            });
        }
        let altered = alter(broker, name, changes, decoded.validate_only).await;
        let response = incremental::AlterConfigsResourceResponse::default();
        let response = match altered {
            Ok(()) => response,
            Err(failure) => response
                .with_error_code(failure.code.code())
                .with_error_message(Some(StrBytes::from_string(failure.message))),
        };
        let response = response.with_resource_type(resource.resource_type);
        responses.push(response.with_resource_name(resource.resource_name));
    }
    Ok(IncrementalAlterConfigsResponse::default().with_responses(responses))
}

/// Checks that the client may change settings of the resource, before they are read. Every resource
/// except a topic belongs to the cluster, whose settings do not change. The commit checks the topic
/// again.
fn check(broker: &Broker, name: &str, of: i8) -> Result<(), KafkaError> {
    match of {
        TOPIC => broker.read_published(|database, view| {
            match topics::permitted(database, view, name, Operation::AlterConfigs) {
                Ok(topic) => read_only::refusal(&topic, TopicOperation::OtherSettings).map_or(Ok(()), Err),
                // The commit reports an unknown topic.
                Err(failure) if failure.code == ResponseError::UnknownTopicOrPartition => Ok(()),
                Err(failure) => Err(failure),
            }
        })?,
        _ => {
            broker.check_cluster(Operation::AlterConfigs)?;
            let message = "only the settings of topics can be changed while the server runs";
            Err(KafkaError::new(ResponseError::InvalidRequest, message))
        }
    }
}

/// Adds a change of one of this topic's settings to `to`.
fn change(
    broker: &Broker,
    topic: &str,
    changes: &mut ConfigChanges,
    config: &incremental_request::AlterableConfig,
) -> Result<(), KafkaError> {
    let name = config.name.as_str();
    let change = match (config.config_operation, config.value.as_deref()) {
        (SET, Some(value)) => ConfigOperation::Set(value),
        (DELETE, _) => ConfigOperation::Reset,
        (APPEND, Some(values)) => {
            return configs::change_list(changes, name, ListOperation::Append, values, cleanup(broker, topic)?);
        }
        (SUBTRACT, Some(values)) => {
            return configs::change_list(changes, name, ListOperation::Subtract, values, cleanup(broker, topic)?);
        }
        (SET | APPEND | SUBTRACT, None) => {
            let message = format!("{name} has no value: only delete (operation 1) needs none");
            return Err(KafkaError::new(ResponseError::InvalidRequest, message));
        }
        (operation, _) => {
            let message =
                format!("invalid operation {operation} on {name}: use 0 (set), 1 (delete), 2 (append) or 3 (subtract)");
            return Err(KafkaError::new(ResponseError::InvalidRequest, message));
        }
    };
    configs::change(changes, name, change, broker.batch_bytes_max())
}

/// The topic's cleanup policy. The commit reports an unknown topic.
fn cleanup(broker: &Broker, topic: &str) -> Result<Cleanup, KafkaError> {
    let resource = Resource::new(ResourceKind::Topic, topic);
    let look = |view: &ReadView<'_>| view.streams.settings_of(TopicRef::Name(topic));
    let settings = broker.database().read_published_for(resource, Operation::AlterConfigs, look)?;
    Ok(settings.map_or(Cleanup::default(), |settings| settings.cleanup))
}

async fn alter(
    broker: &Broker,
    name: &str,
    changes: Result<ConfigChanges, KafkaError>,
    only_validate: bool,
) -> Result<(), KafkaError> {
    let changes = changes?;
    let topic = TopicRef::Name(name);
    let kept = changes.kept();
    let alter = Command::AlterTopic { topic, changes: changes.honoured };
    let keep = Command::KeepSettings { topic, changes: &kept };
    let commands = if kept.is_empty() { vec![alter] } else { vec![alter, keep] };
    broker
        .commit_or_try(&commands, only_validate)
        .await
        .map_err(|failure| read_only::explained(broker, name, TopicOperation::OtherSettings, failure))
}
