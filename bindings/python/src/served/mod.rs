//! The requests of each model to a server. Their answers have the types of an embedded database
//! where these exist, so that the classes of Python are made in one place.

pub(crate) mod consumer;
pub(crate) mod events;
pub(crate) mod graph;
pub(crate) mod jobs;
pub(crate) mod sql;
pub(crate) mod topics;

use std::str::FromStr;
use std::time::Duration;

use quire::events::{Condition, NewEvent, Query, QueryItem};
use quire_client::reply::{CommitReply, PartReply};
use quire_client::request::{CommitRequest, ConditionRequest, ItemRequest, NewEventRequest, PartRequest, QueryRequest};
use quire_client::{Client, ClientError};

use crate::errors::CallError;

/// A duration in milliseconds, rounded up: a server counts in them.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Commits a request, and returns whether the answer is that to an earlier commit with its key. A
/// call without a key of the caller is new.
pub(crate) fn commit_request(
    client: &Client,
    request: &CommitRequest<'_>,
    key: Option<&str>,
) -> Result<(CommitReply<'static>, bool), CallError> {
    match key {
        Some(key) => Ok(client.commit_or_replay(request, key)?),
        None => Ok((client.commit(request)?, false)),
    }
}

/// Commits one part, and returns its reply.
pub(crate) fn commit_part(
    client: &Client,
    part: impl Into<PartRequest<'static>>,
) -> Result<Option<PartReply<'static>>, CallError> {
    Ok(client.commit(&CommitRequest::of(part))?.replies.pop())
}

/// The event for a server.
pub(crate) fn event(event: &NewEvent<'_>) -> NewEventRequest<'static> {
    let request = NewEventRequest::new(event.event_type.to_string(), &event.data).metadata(&event.metadata);
    let request = event.tags.iter().fold(request, NewEventRequest::tag);
    event.id.into_iter().fold(request, NewEventRequest::id)
}

/// The condition for a server.
pub(crate) fn condition(condition: &Condition<'_>) -> ConditionRequest<'static> {
    match condition {
        Condition::FailIfMatches { query: given, after } => {
            ConditionRequest::fail_if_events_match(query(given)).after(after.get())
        }
        Condition::LastIs { query: given, position } => ConditionRequest::last_is(query(given), position.get()),
    }
}

/// The query for a server.
pub(crate) fn query(query: &Query<'_>) -> QueryRequest<'static> {
    let mut items = query.items.iter().map(item);
    let first = items.next().unwrap_or_else(ItemRequest::any);
    items.fold(QueryRequest::of(first), QueryRequest::or)
}

fn item(item: &QueryItem<'_>) -> ItemRequest<'static> {
    let request = item.types.iter().map(|name| name.to_string()).fold(ItemRequest::any(), ItemRequest::event_type);
    item.tags.iter().fold(request, ItemRequest::tag)
}

/// Parses an id or token of an answer.
fn parsed<T: FromStr>(text: &str) -> Result<T, CallError> {
    text.parse().map_err(|_| CallError::Invalid(format!("the server's answer has the invalid id {text:?}")))
}

/// Whether the server answered that the named thing does not exist.
fn is_not_found(error: &ClientError) -> bool {
    error.status() == 404
}
