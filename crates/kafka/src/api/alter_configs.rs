//! AlterConfigs and IncrementalAlterConfigs: the settings of topics, all of them or some.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::incremental_alter_configs_request as incremental_request;
use kafka_protocol::messages::incremental_alter_configs_response as incremental;
use kafka_protocol::messages::{
    AlterConfigsRequest, AlterConfigsResponse, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
};
use kafka_protocol::protocol::StrBytes;
use quire::streams::{Cleanup, Command, TopicChanges, TopicRef};

use super::describe_configs::TOPIC;
use crate::broker::Broker;
use crate::configs::{self, Change, ListChange};
use crate::connection::Closed;
use crate::errors::Failure;
use crate::read_only::{self, Wants};
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};
use crate::twice::Twice;

/// Resources of (type, name, settings of (name, value)), whether only to validate.
pub(crate) static SCHEMA: Schema = Schema {
    flexible_from: 2,
    body: fields(&[Field(0, LAST, Shape::Structs(&RESOURCE)), Field(0, LAST, Shape::Fixed(1))]),
};
static RESOURCE: Struct =
    fields(&[Field(0, LAST, Shape::Fixed(1)), Field(0, LAST, Shape::Text), Field(0, LAST, Shape::Structs(&CONFIG))]);
static CONFIG: Struct = fields(&[Field(0, LAST, Shape::Text), Field(0, LAST, Shape::Text)]);

/// The same, and with each setting what is to be done with it.
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

/// What is to be done with a setting, by Kafka's numbers.
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

/// Sets the settings of each topic: those that are not named get their defaults.
pub(crate) async fn handle(broker: &Broker, request: &Request) -> Result<AlterConfigsResponse, Closed> {
    let decoded: AlterConfigsRequest = request.decode()?;
    let mut responses = Vec::with_capacity(decoded.resources.len());
    let twice = Twice::of(decoded.resources.iter().map(|it| (it.resource_type, it.resource_name.clone())));
    for resource in decoded.resources {
        let named = Twice::of(resource.configs.iter().map(|config| config.name.clone()));
        let key = (resource.resource_type, resource.resource_name.clone());
        let mut changes = twice.check(&key, &resource.resource_name).map(|()| configs::reset());
        for config in &resource.configs {
            changes = changes.and_then(|mut changes| {
                named.check(&config.name, &config.name)?;
                let change = configs::set(&config.name, config.value.as_deref())?;
                configs::change(&mut changes, &config.name, change, broker.database.batch_bytes_max())?;
                Ok(changes)
            });
        }
        let name = resource.resource_name.as_str();
        let altered = alter(broker, resource.resource_type, name, changes, decoded.validate_only).await;
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

/// Changes the settings that are named.
pub(crate) async fn handle_incremental(
    broker: &Broker,
    request: &Request,
) -> Result<IncrementalAlterConfigsResponse, Closed> {
    let decoded: IncrementalAlterConfigsRequest = request.decode()?;
    let mut responses = Vec::with_capacity(decoded.resources.len());
    let twice = Twice::of(decoded.resources.iter().map(|it| (it.resource_type, it.resource_name.clone())));
    for resource in decoded.resources {
        let named = Twice::of(resource.configs.iter().map(|config| config.name.clone()));
        let key = (resource.resource_type, resource.resource_name.clone());
        let name = resource.resource_name.as_str();
        let mut changes = twice.check(&key, name).map(|()| TopicChanges::default());
        for config in &resource.configs {
            changes = changes.and_then(|mut changes| {
                named.check(&config.name, &config.name)?;
                change(broker, name, &mut changes, config)?;
                Ok(changes)
            });
        }
        let altered = alter(broker, resource.resource_type, name, changes, decoded.validate_only).await;
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

/// Adds a change of one of this topic's settings to others.
fn change(
    broker: &Broker,
    topic: &str,
    changes: &mut TopicChanges,
    config: &incremental_request::AlterableConfig,
) -> Result<(), Failure> {
    let name = config.name.as_str();
    let change = match (config.config_operation, config.value.as_deref()) {
        (SET, Some(value)) => Change::Set(value),
        (DELETE, _) => Change::Reset,
        (APPEND, Some(values)) => {
            return configs::change_list(changes, name, ListChange::Append, values, cleanup(broker, topic)?);
        }
        (SUBTRACT, Some(values)) => {
            return configs::change_list(changes, name, ListChange::Subtract, values, cleanup(broker, topic)?);
        }
        (SET | APPEND | SUBTRACT, None) => {
            let message = format!("{name} has no value, which only its deletion needs not");
            return Err(Failure::new(ResponseError::InvalidRequest, message));
        }
        (operation, _) => {
            let message =
                format!("operation {operation} on {name} is none of 0 (set), 1 (delete), 2 (append), 3 (subtract)");
            return Err(Failure::new(ResponseError::InvalidRequest, message));
        }
    };
    configs::change(changes, name, change, broker.database.batch_bytes_max())
}

/// How the records of this topic go. Of what is no topic of its own the commit tells.
fn cleanup(broker: &Broker, topic: &str) -> Result<Cleanup, Failure> {
    let settings = broker.database.read_published(|view| view.streams.settings_of(TopicRef::Name(topic)))?;
    Ok(settings.map_or(Cleanup::default(), |settings| settings.cleanup))
}

async fn alter(
    broker: &Broker,
    of: i8,
    name: &str,
    changes: Result<TopicChanges, Failure>,
    only_validate: bool,
) -> Result<(), Failure> {
    if of != TOPIC {
        let message = "only the settings of topics can be changed while the server runs";
        return Err(Failure::new(ResponseError::InvalidRequest, message));
    }
    let command = Command::AlterTopic { topic: TopicRef::Name(name), changes: changes? };
    let done = broker.commit_or_try(command, only_validate).await;
    done.map(|_| ()).map_err(|failure| read_only::explained(broker, name, Wants::OtherSettings, failure))
}
