//! AlterClientQuotas: sets and removes quotas of users and clients.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};
use kafka_protocol::messages::alter_client_quotas_response::{
    EntityData as ResponseEntity, EntryData as ResponseEntry,
};
use kafka_protocol::messages::{AlterClientQuotasRequest, AlterClientQuotasResponse};
use kafka_protocol::protocol::StrBytes;
use quire::Operation;
use quire::system::{Command, QuotaEntity, QuotaKind, QuotaName, QuotaValue};

use super::describe_client_quotas::{CLIENT, USER};
use crate::administration;
use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::endpoints::Endpoints;
use crate::errors::KafkaError;
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};

/// Entries of (entity of (type, name), operations of (key, value, remove)), whether only to
/// validate.
pub(crate) static SCHEMA: Schema = Schema {
    flexible_from: 1,
    body: fields(&[Field(0, LAST, Shape::Structs(&ENTRY)), Field(0, LAST, Shape::Fixed(1))]),
};
static ENTRY: Struct = fields(&[Field(0, LAST, Shape::Structs(&ENTITY)), Field(0, LAST, Shape::Structs(&OPERATION))]);
static ENTITY: Struct = fields(&[Field(0, LAST, Shape::Text), Field(0, LAST, Shape::Text)]);
static OPERATION: Struct = fields(&[Field(0, LAST, Shape::Text), Field(0, LAST, Shape::Fixed(8 + 1))]);

/// The changes of one entity.
#[derive(Debug)]
struct QuotaChanges {
    entity: QuotaEntity,
    values: Vec<(QuotaKind, Option<QuotaValue>)>,
}

/// Changes the quotas of each entity in one commit.
pub(crate) async fn handle(
    broker: &Broker,
    ends: Endpoints,
    request: &Request,
) -> Result<AlterClientQuotasResponse, CloseReason> {
    let decoded: AlterClientQuotasRequest = request.decode()?;
    let permitted = administration::check(broker, Operation::Alter);
    let (entities, changes): (Vec<_>, Vec<_>) = decoded
        .entries
        .into_iter()
        .map(|entry| {
            let EntryData { entity, ops, .. } = entry;
            let changes = permitted.clone().and_then(|()| changes(&entity, &ops));
            (entity, changes)
        })
        .unzip();
    let altered = if decoded.validate_only {
        changes.into_iter().map(|changes| changes.map(drop)).collect()
    } else {
        let alter = administration::run(broker, ends, move |access| {
            let alter = |QuotaChanges { entity, values }: QuotaChanges| {
                let put = |&(kind, value): &(QuotaKind, Option<QuotaValue>)| Command::PutQuota {
                    entity: &entity,
                    kind,
                    value,
                };
                let commands: Vec<_> = values.iter().map(put).collect();
                access.change(&commands).map(drop).map_err(KafkaError::from)
            };
            changes.into_iter().map(|changes| changes.and_then(alter)).collect::<Vec<_>>()
        });
        alter.await?
    };
    let entries = entities.into_iter().zip(altered).map(|(entity, altered)| {
        let entity = entity.into_iter().map(|part| {
            ResponseEntity::default().with_entity_type(part.entity_type).with_entity_name(part.entity_name)
        });
        let entry = ResponseEntry::default().with_entity(entity.collect());
        match altered {
            Ok(()) => entry.with_error_message(None),
            Err(failure) => entry
                .with_error_code(failure.code.code())
                .with_error_message(Some(StrBytes::from_string(failure.message))),
        }
    });
    Ok(AlterClientQuotasResponse::default().with_entries(entries.collect()))
}

fn changes(entity: &[EntityData], operations: &[OpData]) -> Result<QuotaChanges, KafkaError> {
    let mut found = QuotaEntity { user: None, client: None };
    for part in entity {
        let name = part.entity_name.as_ref().map_or(QuotaName::Default, |name| QuotaName::Named(name.to_string()));
        let of = match part.entity_type.as_str() {
            USER => &mut found.user,
            CLIENT => &mut found.client,
            other => return Err(invalid(format!("the entity type must be {USER} or {CLIENT}, got {other:?}"))),
        };
        if of.replace(name).is_some() {
            return Err(invalid(format!("the entity type {} is in the entity twice", part.entity_type)));
        }
    }
    found.check().map_err(|problem| invalid(format!("invalid entity of a quota: a name {problem}")))?;
    let mut values: Vec<(QuotaKind, Option<QuotaValue>)> = Vec::with_capacity(operations.len());
    for OpData { key, value, remove, .. } in operations {
        let kind = QuotaKind::of_name(key).ok_or_else(|| {
            let known = QuotaKind::ALL.map(QuotaKind::name).join(", ");
            invalid(format!("unknown quota {key:?}: use {known}"))
        })?;
        if values.iter().any(|(other, _)| *other == kind) {
            return Err(invalid(format!("the quota {key} is in the entry twice")));
        }
        let limit = if *remove {
            None
        } else {
            let limit = QuotaValue::new(*value);
            Some(limit.ok_or_else(|| invalid(format!("the quota {key} must be more than 0, got {value}")))?)
        };
        values.push((kind, limit));
    }
    if values.is_empty() {
        return Err(invalid("the entry has no operations".to_owned()));
    }
    Ok(QuotaChanges { entity: found, values })
}

fn invalid(message: String) -> KafkaError {
    KafkaError::new(ResponseError::InvalidRequest, message)
}
