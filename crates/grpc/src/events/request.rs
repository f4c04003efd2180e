//! Converts requests into commands and queries. Payloads are borrowed.

use std::borrow::Cow;

use quire::events::{
    Attempts, Command, Condition, EventId, EventPosition, NewEvent, PutSubscription, Query, QueryItem,
};

use crate::error::ItemFault;
use crate::proto::event_condition::Kind;
use crate::proto::forget_events_request::Which;
use crate::proto::{self, EventCondition, EventQuery, EventQueryItem, ForgetEventsRequest, NamedSubscription};

/// Events to append.
pub(crate) fn events(events: &[proto::NewEvent]) -> Result<Vec<NewEvent<'_>>, ItemFault> {
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
fn id(event: usize, id: &[u8]) -> Result<Option<EventId>, ItemFault> {
    if id.is_empty() {
        return Ok(None);
    }
    match id.try_into() {
        Ok(bytes) => Ok(Some(EventId::from_bytes(bytes))),
        Err(_) => Err(ItemFault::invalid(format!("event {event}: an id must have 16 bytes, got {}", id.len()))),
    }
}

/// The conditions of an append.
pub(crate) fn conditions(conditions: &[EventCondition]) -> Result<Vec<Condition<'_>>, ItemFault> {
    let without = |index: usize, what: &str| ItemFault::invalid(format!("condition {index} has no {what}"));
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
pub(crate) fn query(query: &EventQuery) -> Query<'_> {
    Query { items: query.items.iter().map(item).collect() }
}

fn item(item: &EventQueryItem) -> QueryItem<'_> {
    QueryItem {
        types: item.types.iter().map(|event_type| Cow::Borrowed(event_type.as_str())).collect(),
        tags: item.tags.iter().map(|tag| Cow::Borrowed(tag.as_ref())).collect(),
        only_last_event: item.only_last_event,
    }
}

/// The command that creates or changes a named subscription.
pub(crate) fn subscription<'r>(
    store: &'r str,
    subscription: Option<&'r NamedSubscription>,
    after: Option<u64>,
) -> Result<PutSubscription<'r>, ItemFault> {
    let subscription = subscription.ok_or_else(|| ItemFault::invalid("subscription is missing"))?;
    let default = Attempts::default();
    let attempts_max = subscription.attempts_max.map_or(Ok(default.attempts_max), u16::try_from);
    Ok(PutSubscription {
        store,
        name: &subscription.name,
        query: subscription.query.as_ref().map_or_else(Query::all, query),
        after: after.map(EventPosition::new),
        attempts: Attempts {
            attempts_max: attempts_max.map_err(|_| ItemFault::invalid("attempts_max must be at most 65535"))?,
            backoff_micros: subscription.backoff_us.unwrap_or(default.backoff_micros),
            backoff_max_micros: subscription.backoff_max_us.unwrap_or(default.backoff_max_micros),
            group_by: Cow::Borrowed(&subscription.group_by),
        },
    })
}

/// The command that deletes events.
pub(crate) fn forget(request: &ForgetEventsRequest) -> Result<Command<'_>, ItemFault> {
    let store = &request.store;
    match &request.which {
        Some(Which::Tag(tag)) => Ok(Command::Forget { store, tag }),
        Some(Which::UpTo(position)) => Ok(Command::Trim { store, up_to: EventPosition::new(*position) }),
        None => Err(ItemFault::invalid("give a tag or a position")),
    }
}
