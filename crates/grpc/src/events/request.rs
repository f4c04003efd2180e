//! Converts requests into commands and queries. Payloads are borrowed.

use std::borrow::Cow;

use quire::events::{Condition, EventId, EventPosition, NewEvent, Query, QueryItem};
use tonic::Status;

use crate::error::invalid;
use crate::proto::event_condition::Kind;
use crate::proto::{self, EventCondition, EventQuery, EventQueryItem};

/// Events to append.
pub(super) fn events(events: &[proto::NewEvent]) -> Result<Vec<NewEvent<'_>>, Status> {
    let mut all = Vec::with_capacity(events.len());
    for (index, given) in events.iter().enumerate() {
        all.push(NewEvent {
            id: id(index, &given.id)?,
            event_type: given.r#type.as_str().into(),
            tags: given.tags.iter().map(|tag| Cow::Borrowed(&**tag)).collect(),
            metadata: Cow::Borrowed(&given.metadata),
            data: Cow::Borrowed(&given.data),
        });
    }
    Ok(all)
}

/// The id of an event, if it has one.
fn id(event: usize, id: &[u8]) -> Result<Option<EventId>, Status> {
    if id.is_empty() {
        return Ok(None);
    }
    match id.try_into() {
        Ok(bytes) => Ok(Some(EventId::from_bytes(bytes))),
        Err(_) => Err(invalid(format!("event {event}: an id must have 16 bytes, got {}", id.len()))),
    }
}

/// The conditions of an append.
pub(super) fn conditions(conditions: &[EventCondition]) -> Result<Vec<Condition<'_>>, Status> {
    let without = |index: usize, what: &str| invalid(format!("condition {index} has no {what}"));
    let mut all = Vec::with_capacity(conditions.len());
    for (index, given) in conditions.iter().enumerate() {
        let condition = match given.kind.as_ref().ok_or_else(|| without(index, "kind"))? {
            Kind::FailIfEventsMatch(fail) => {
                let asked = fail.query.as_ref().ok_or_else(|| without(index, "query"))?;
                Condition::fail_if_matches_after(query(asked), EventPosition::new(fail.after))
            }
            Kind::LastIs(last) => {
                let asked = last.query.as_ref().ok_or_else(|| without(index, "query"))?;
                Condition::last_is(query(asked), EventPosition::new(last.position))
            }
        };
        all.push(condition);
    }
    Ok(all)
}

/// The query of a read.
pub(super) fn query(query: &EventQuery) -> Query<'_> {
    Query { items: query.items.iter().map(item).collect() }
}

fn item(item: &EventQueryItem) -> QueryItem<'_> {
    QueryItem {
        types: item.types.iter().map(|event_type| Cow::Borrowed(event_type.as_str())).collect(),
        tags: item.tags.iter().map(|tag| Cow::Borrowed(tag.as_ref())).collect(),
        only_last_event: item.only_last_event,
    }
}
