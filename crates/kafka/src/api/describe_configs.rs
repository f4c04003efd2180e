//! DescribeConfigs: the settings of topics and of the broker.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use kafka_protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse};
use kafka_protocol::protocol::StrBytes;
use quire::Operation;
use quire::streams::{KeptSettings, TopicSettings};

use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::configs::{self, ConfigEntry, Listeners};
use crate::endpoints::Endpoints;
use crate::errors::KafkaError;
use crate::items::RequestItems;
use crate::memory::{GrowingResponse, bytes_in_memory};
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};
use crate::topics::{self, TopicKind};

/// Resources of (type, name, keys), whether with synonyms, whether with documentation.
pub(crate) static SCHEMA: Schema = Schema {
    flexible_from: 4,
    body: fields(&[
        Field(0, LAST, Shape::Structs(&RESOURCE)),
        Field(1, LAST, Shape::Fixed(1)),
        Field(3, LAST, Shape::Fixed(1)),
    ]),
};
static RESOURCE: Struct =
    fields(&[Field(0, LAST, Shape::Fixed(1)), Field(0, LAST, Shape::Text), Field(0, LAST, Shape::Texts)]);

/// The types of resources, by Kafka's numbers.
pub(crate) const TOPIC: i8 = 2;
pub(crate) const BROKER: i8 = 4;

/// The sources of a value, by Kafka's numbers.
const OF_TOPIC: i8 = 1;
const OF_BROKER: i8 = 4;
const DEFAULT: i8 = 5;

/// The first version whose response has a setting's type.
const TYPES_FROM: i16 = 3;

/// Answers each resource by itself.
pub(crate) async fn handle(
    broker: &Broker,
    ends: Endpoints,
    request: &Request,
    memory: &mut GrowingResponse<'_>,
) -> Result<DescribeConfigsResponse, CloseReason> {
    let decoded: DescribeConfigsRequest = request.decode()?;
    let mut items = RequestItems::begin(broker);
    let mut results = Vec::new();
    for resource in decoded.resources {
        let shown = match items.commit().await {
            Ok(()) => shown(broker, ends, &resource).await?,
            Err(failure) => Err(failure),
        };
        let result = match shown {
            Ok((shown, read_only)) => {
                let wanted = |shown: &ConfigEntry| {
                    let keys = resource.configuration_keys.as_deref();
                    keys.is_none_or(|keys| keys.is_empty() || keys.iter().any(|key| key.as_str() == shown.name))
                };
                let told = ConfigDetails {
                    of: resource.resource_type,
                    read_only,
                    version: request.version,
                    synonyms: decoded.include_synonyms,
                    documentation: decoded.include_documentation,
                };
                let described = shown.into_iter().filter(wanted).map(|shown| told.describe(shown));
                DescribeConfigsResult::default().with_configs(described.collect())
            }
            Err(failure) => DescribeConfigsResult::default()
                .with_error_code(failure.code.code())
                .with_error_message(Some(StrBytes::from_string(failure.message))),
        };
        let result = result.with_resource_type(resource.resource_type).with_resource_name(resource.resource_name);
        items.grow(memory, bytes_in_memory(&result, request.version)?).await?;
        results.push(result);
    }
    Ok(DescribeConfigsResponse::default().with_results(results))
}

/// Returns the settings of a resource, and whether they are read-only.
async fn shown(
    broker: &Broker,
    ends: Endpoints,
    resource: &DescribeConfigsResource,
) -> Result<Result<(Vec<ConfigEntry>, bool), KafkaError>, CloseReason> {
    let name = resource.resource_name.as_str();
    Ok(match resource.resource_type {
        TOPIC => {
            let settings = broker.read(|database, view| {
                let topic = topics::permitted(database, view, name, Operation::DescribeConfigs)?;
                Ok(match topic.kind {
                    TopicKind::Stream { id, .. } => {
                        let topic = view.streams.topic(id).ok_or_else(KafkaError::unknown_topic)?;
                        (topic.settings, topic.kept.clone(), false)
                    }
                    TopicKind::Events { .. } | TopicKind::Jobs { .. } => {
                        (TopicSettings::default(), KeptSettings::default(), true)
                    }
                })
            });
            let most = broker.batch_bytes_max();
            let shown = |(settings, kept, read_only)| (configs::of_topic(&settings, &kept, most), read_only);
            settings.await?.map(shown)
        }
        // Every other resource belongs to the cluster.
        _ if let Err(failure) = broker.check_cluster(Operation::DescribeConfigs) => Err(failure),
        BROKER if name == broker.own_id().to_string() => {
            let own = broker.listeners();
            let listeners = Listeners { own, used: ends.listener, advertised: broker.address(ends) };
            Ok((configs::of_broker(&broker.settings(), broker.creates_topics(), &listeners), true))
        }
        // The name for dynamic defaults of all brokers. There are none.
        BROKER if name.is_empty() => Ok((Vec::new(), true)),
        BROKER => Err(KafkaError::new(ResponseError::InvalidRequest, format!("unknown broker {name:?}"))),
        other => {
            let message = format!("resource type {other} has no settings: use 2 (topic) or 4 (broker)");
            Err(KafkaError::new(ResponseError::InvalidRequest, message))
        }
    })
}

/// The requested details of each setting.
struct ConfigDetails {
    of: i8,
    read_only: bool,
    version: i16,
    synonyms: bool,
    documentation: bool,
}

impl ConfigDetails {
    fn describe(&self, shown: ConfigEntry) -> DescribeConfigsResourceResult {
        let own = if self.of == TOPIC { OF_TOPIC } else { OF_BROKER };
        let text = StrBytes::from_static_str;
        // The possible sources of a value, the effective one first.
        let mut values = Vec::with_capacity(2);
        if shown.is_said {
            values.push((shown.name, shown.value, own));
        }
        values.push((shown.of_broker, shown.default, DEFAULT));
        let (_, value, source) = values[0].clone();
        let synonyms = values.into_iter().filter(|_| self.synonyms).map(|(name, value, source)| {
            let value = Some(StrBytes::from_string(value));
            DescribeConfigsSynonym::default().with_name(text(name)).with_value(value).with_source(source)
        });
        let result = DescribeConfigsResourceResult::default()
            .with_name(text(shown.name))
            .with_value(Some(StrBytes::from_string(value)))
            .with_read_only(self.read_only)
            .with_config_source(source)
            .with_synonyms(synonyms.collect());
        match self.version {
            TYPES_FROM.. => {
                let documentation = self.documentation.then(|| text(shown.documentation));
                result.with_config_type(shown.kind as i8).with_documentation(documentation)
            }
            _ => result,
        }
    }
}
