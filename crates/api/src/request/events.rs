//! The JSON form of the commands of event stores, and of queries.

use std::borrow::Cow;

use quire::events::{self, Command, EventId, EventPosition, NewEvent, Query, QueryItem};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::Failure;
use crate::bytes::{Base64, ParsedText, TagRequest, Text, given};

/// Appends events under conditions.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AppendPart<'r> {
    #[serde(borrow)]
    store: Text<'r>,
    #[serde(borrow, default)]
    events: Vec<NewEventRequest<'r>>,
    #[serde(borrow, default)]
    conditions: Vec<ConditionRequest<'r>>,
}

/// The same for the store in the path, with the position of the source that was read.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AppendRequest<'r> {
    #[serde(borrow, default)]
    events: Vec<NewEventRequest<'r>>,
    #[serde(borrow, default)]
    conditions: Vec<ConditionRequest<'r>>,
    #[serde(borrow)]
    upstream: Option<SourceRead<'r>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SourceRead<'r> {
    #[serde(borrow)]
    source: Text<'r>,
    position: u64,
}

/// Records the position up to which a store has read a source.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpstreamPart<'r> {
    #[serde(borrow)]
    store: Text<'r>,
    #[serde(borrow)]
    source: Text<'r>,
    position: u64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewEventRequest<'r> {
    #[serde(rename = "type", borrow)]
    event_type: Text<'r>,
    #[serde(borrow, default)]
    tags: Vec<TagRequest<'r>>,
    id: Option<ParsedText<EventId>>,
    #[serde(borrow)]
    data: Option<&'r RawValue>,
    #[serde(borrow)]
    data_text: Option<Text<'r>>,
    data_base64: Option<Base64>,
    #[serde(borrow)]
    metadata: Option<&'r RawValue>,
    #[serde(borrow)]
    metadata_text: Option<Text<'r>>,
    metadata_base64: Option<Base64>,
}

/// One of the two conditions; `after` belongs to the first.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ConditionRequest<'r> {
    #[serde(borrow)]
    fail_if_events_match: Option<QueryRequest<'r>>,
    after: Option<u64>,
    #[serde(borrow)]
    last_is: Option<LastIs<'r>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LastIs<'r> {
    #[serde(borrow)]
    items: Vec<ItemRequest<'r>>,
    position: u64,
}

/// Selects events: items joined by OR.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueryRequest<'r> {
    #[serde(borrow)]
    items: Vec<ItemRequest<'r>>,
}

/// Types joined by OR, tags joined by AND.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ItemRequest<'r> {
    #[serde(borrow, default)]
    types: Vec<Text<'r>>,
    #[serde(borrow, default)]
    tags: Vec<TagRequest<'r>>,
    #[serde(default)]
    only_last_event: bool,
}

impl<'r> AppendRequest<'r> {
    /// The parts for this store: the append, unless only a source was read, and the source's
    /// position.
    pub fn to<'a>(self, store: &'a str) -> (Option<AppendPart<'a>>, Option<UpstreamPart<'a>>)
    where
        'r: 'a,
    {
        let upstream = self.upstream.map(|read| {
            let SourceRead { source, position } = read;
            UpstreamPart { store: Text::from(store), source, position }
        });
        let append = AppendPart { store: Text::from(store), events: self.events, conditions: self.conditions };
        let is_empty = append.events.is_empty() && append.conditions.is_empty();
        ((!is_empty || upstream.is_none()).then_some(append), upstream)
    }
}

impl UpstreamPart<'_> {
    /// Builds the command.
    pub fn command(&self) -> Command<'_> {
        let UpstreamPart { store, source, position } = self;
        Command::Upstream(events::Upstream { store, source, position: *position })
    }
}

impl AppendPart<'_> {
    /// Builds the command.
    ///
    /// # Errors
    /// When a field is invalid, or two fields exclude each other.
    pub fn command(&self) -> Result<Command<'_>, Failure> {
        Ok(Command::Append(events::Append {
            store: &self.store,
            events: self.events.iter().map(NewEventRequest::event).collect::<Result<_, _>>()?,
            conditions: self.conditions.iter().map(ConditionRequest::condition).collect::<Result<_, _>>()?,
        }))
    }
}

impl NewEventRequest<'_> {
    fn event(&self) -> Result<NewEvent<'_>, Failure> {
        let data = given("data", self.data, self.data_text.as_ref(), self.data_base64.as_ref())?;
        let metadata = given("metadata", self.metadata, self.metadata_text.as_ref(), self.metadata_base64.as_ref())?;
        Ok(NewEvent {
            id: self.id.map(|id| id.0),
            event_type: Cow::Borrowed(&self.event_type),
            tags: self.tags.iter().map(|tag| Cow::Borrowed(tag.as_bytes())).collect(),
            metadata: Cow::Borrowed(metadata.unwrap_or_default()),
            data: Cow::Borrowed(data.unwrap_or_default()),
        })
    }
}

impl ConditionRequest<'_> {
    fn condition(&self) -> Result<events::Condition<'_>, Failure> {
        match (&self.fail_if_events_match, self.after, &self.last_is) {
            (Some(query), after, None) => Ok(events::Condition::FailIfMatches {
                query: query.query(),
                after: EventPosition::new(after.unwrap_or_default()),
            }),
            (None, None, Some(last_is)) => Ok(events::Condition::LastIs {
                query: query(&last_is.items),
                position: EventPosition::new(last_is.position),
            }),
            _ => Err(Failure::invalid("a condition must have fail_if_events_match, optionally with after, or last_is")),
        }
    }
}

impl QueryRequest<'_> {
    /// Builds the query.
    pub fn query(&self) -> Query<'_> {
        query(&self.items)
    }
}

fn query<'c>(items: &'c [ItemRequest<'_>]) -> Query<'c> {
    let item = |item: &'c ItemRequest<'_>| QueryItem {
        types: item.types.iter().map(|event_type| Cow::Borrowed(&**event_type)).collect(),
        tags: item.tags.iter().map(|tag| Cow::Borrowed(tag.as_bytes())).collect(),
        only_last_event: item.only_last_event,
    };
    Query { items: items.iter().map(item).collect() }
}
