//! DescribeClientQuotas: the quotas of users and clients.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::describe_client_quotas_request::ComponentData;
use kafka_protocol::messages::describe_client_quotas_response::{EntityData, EntryData, ValueData};
use kafka_protocol::messages::{DescribeClientQuotasRequest, DescribeClientQuotasResponse};
use kafka_protocol::protocol::StrBytes;
use quire::Operation;
use quire::system::{QuotaEntity, QuotaName, System};

use crate::administration;
use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::endpoints::Endpoints;
use crate::errors::KafkaError;
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};

/// Components of (entity type, match type, match), whether entities have these types only.
pub(crate) static SCHEMA: Schema = Schema {
    flexible_from: 1,
    body: fields(&[Field(0, LAST, Shape::Structs(&COMPONENT)), Field(0, LAST, Shape::Fixed(1))]),
};
static COMPONENT: Struct =
    fields(&[Field(0, LAST, Shape::Text), Field(0, LAST, Shape::Fixed(1)), Field(0, LAST, Shape::Text)]);

/// The types of entities.
pub(crate) const USER: &str = "user";
pub(crate) const CLIENT: &str = "client-id";

/// The types of matches, by Kafka's numbers.
const EXACT: i8 = 0;
const DEFAULT: i8 = 1;
const ANY: i8 = 2;

/// Which users, or which clients, a filter selects.
#[derive(Debug, Clone, PartialEq, Eq)]
enum NameFilter {
    /// The type is not in the filter.
    Absent,
    Any,
    Is(QuotaName),
}

impl NameFilter {
    fn matches(&self, name: Option<&QuotaName>, is_strict: bool) -> bool {
        match self {
            NameFilter::Absent => !is_strict || name.is_none(),
            NameFilter::Any => name.is_some(),
            NameFilter::Is(wanted) => name == Some(wanted),
        }
    }
}

/// Lists the quotas of the selected entities.
pub(crate) async fn handle(
    broker: &Broker,
    ends: Endpoints,
    request: &Request,
) -> Result<DescribeClientQuotasResponse, CloseReason> {
    let decoded: DescribeClientQuotasRequest = request.decode()?;
    let is_strict = decoded.strict;
    let filters = administration::check(broker, Operation::Describe).and_then(|()| filters(decoded.components));
    let entries = match filters {
        Ok((user, client)) => {
            let select = move |system: &System| entries(system, &user, &client, is_strict);
            let listed = administration::run(broker, ends, move |access| access.list().map(|system| select(&system)));
            listed.await?.map_err(KafkaError::from)
        }
        Err(failure) => Err(failure),
    };
    let response = DescribeClientQuotasResponse::default();
    Ok(match entries {
        Ok(entries) => response.with_error_message(None).with_entries(Some(entries)),
        Err(failure) => response
            .with_error_code(failure.code.code())
            .with_error_message(Some(StrBytes::from_string(failure.message)))
            .with_entries(None),
    })
}

/// The filters on users and clients.
fn filters(components: Vec<ComponentData>) -> Result<(NameFilter, NameFilter), KafkaError> {
    let (mut user, mut client) = (NameFilter::Absent, NameFilter::Absent);
    for component in components {
        let of = match component.entity_type.as_str() {
            USER => &mut user,
            CLIENT => &mut client,
            other => return Err(invalid(format!("the entity type must be {USER} or {CLIENT}, got {other:?}"))),
        };
        if *of != NameFilter::Absent {
            return Err(invalid(format!("the entity type {} is in the filter twice", component.entity_type)));
        }
        *of = match (component.match_type, component._match) {
            (EXACT, Some(name)) => NameFilter::Is(QuotaName::Named(name.to_string())),
            (DEFAULT, _) => NameFilter::Is(QuotaName::Default),
            (ANY, _) => NameFilter::Any,
            (other, _) => {
                let message =
                    format!("the match type must be 0 (exact, with a name), 1 (default) or 2 (any), got {other}");
                return Err(invalid(message));
            }
        };
    }
    Ok((user, client))
}

fn entries(system: &System, user: &NameFilter, client: &NameFilter, is_strict: bool) -> Vec<EntryData> {
    let mut entries: Vec<(&QuotaEntity, EntryData)> = Vec::new();
    for (entity, kind, value) in system.quotas() {
        if !user.matches(entity.user.as_ref(), is_strict) || !client.matches(entity.client.as_ref(), is_strict) {
            continue;
        }
        let value = ValueData::default().with_key(StrBytes::from_static_str(kind.name())).with_value(value.get());
        match entries.last_mut().filter(|(last, _)| *last == entity) {
            Some((_, entry)) => entry.values.push(value),
            None => entries.push((entity, EntryData::default().with_entity(describe(entity)).with_values(vec![value]))),
        }
    }
    entries.into_iter().map(|(_, entry)| entry).collect()
}

fn describe(entity: &QuotaEntity) -> Vec<EntityData> {
    let names = [(USER, &entity.user), (CLIENT, &entity.client)];
    let described = names.into_iter().filter_map(|(of, name)| {
        let name = match name.as_ref()? {
            QuotaName::Default => None,
            QuotaName::Named(name) => Some(StrBytes::from_string(name.clone())),
        };
        Some(EntityData::default().with_entity_type(StrBytes::from_static_str(of)).with_entity_name(name))
    });
    described.collect()
}

fn invalid(message: String) -> KafkaError {
    KafkaError::new(ResponseError::InvalidRequest, message)
}
