//! The JSON form of the commands of event stores, and of queries.

use std::borrow::Cow;

use quire::events::{self, Command, EventId, EventPosition, NewEvent, Query, QueryItem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::Failure;
use crate::bytes::{Base64, ParsedText, TagRequest, Text, given, text_or_base64};

/// Appends events under conditions.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AppendPart<'r> {
    #[serde(borrow)]
    store: Text<'r>,
    #[serde(borrow, deserialize_with = "crate::meter::list", default)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    events: Vec<NewEventRequest<'r>>,
    #[serde(borrow, deserialize_with = "crate::meter::list", default)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conditions: Vec<ConditionRequest<'r>>,
}

/// The same for the store in the path, with the position of the source that was read.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AppendRequest<'r> {
    #[serde(borrow, deserialize_with = "crate::meter::list", default)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    events: Vec<NewEventRequest<'r>>,
    #[serde(borrow, deserialize_with = "crate::meter::list", default)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conditions: Vec<ConditionRequest<'r>>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream: Option<SourceRead<'r>>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SourceRead<'r> {
    #[serde(borrow)]
    source: Text<'r>,
    position: u64,
}

/// Records the position up to which a store has read a source.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpstreamPart<'r> {
    #[serde(borrow)]
    store: Text<'r>,
    #[serde(borrow)]
    source: Text<'r>,
    position: u64,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "a comment would be in the description; `new` explains the type")]
pub struct NewEventRequest<'r> {
    #[serde(rename = "type", borrow)]
    event_type: Text<'r>,
    #[serde(borrow, deserialize_with = "crate::meter::list", default)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<TagRequest<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<ParsedText<EventId>>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'r RawValue>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    data_text: Option<Text<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_base64: Option<Base64>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'r RawValue>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata_text: Option<Text<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata_base64: Option<Base64>,
}

/// One of the two conditions; `after` belongs to the first.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConditionRequest<'r> {
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    fail_if_events_match: Option<QueryRequest<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<u64>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    last_is: Option<LastIs<'r>>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LastIs<'r> {
    #[serde(borrow, deserialize_with = "crate::meter::list")]
    items: Vec<ItemRequest<'r>>,
    position: u64,
}

/// Selects events: items joined by OR.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueryRequest<'r> {
    #[serde(borrow, deserialize_with = "crate::meter::list")]
    items: Vec<ItemRequest<'r>>,
}

/// Types joined by OR, tags joined by AND.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ItemRequest<'r> {
    #[serde(borrow, deserialize_with = "crate::meter::list", default)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    types: Vec<Text<'r>>,
    #[serde(borrow, deserialize_with = "crate::meter::list", default)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<TagRequest<'r>>,
    #[serde(default)]
    only_last_event: bool,
}

impl<'r> AppendPart<'r> {
    /// An append to a store, without events.
    pub fn new(store: impl Into<Text<'r>>) -> Self {
        AppendPart { store: store.into(), events: Vec::new(), conditions: Vec::new() }
    }

    /// Adds an event.
    #[must_use]
    pub fn event(mut self, event: NewEventRequest<'r>) -> Self {
        self.events.push(event);
        self
    }

    /// Adds a condition.
    #[must_use]
    pub fn condition(mut self, condition: ConditionRequest<'r>) -> Self {
        self.conditions.push(condition);
        self
    }
}

impl<'r> NewEventRequest<'r> {
    /// An event with this data: text, JSON or any other bytes.
    pub fn new(event_type: impl Into<Text<'r>>, data: impl AsRef<[u8]>) -> Self {
        let (data_text, data_base64) = text_or_base64(data);
        NewEventRequest {
            event_type: event_type.into(),
            tags: Vec::new(),
            id: None,
            data: None,
            data_text,
            data_base64,
            metadata: None,
            metadata_text: None,
            metadata_base64: None,
        }
    }

    /// Adds a tag.
    #[must_use]
    pub fn tag(mut self, tag: impl AsRef<[u8]>) -> Self {
        self.tags.push(TagRequest::of(tag));
        self
    }

    /// Sets the id, by which the store finds a second append of the same event.
    #[must_use]
    pub fn id(mut self, id: EventId) -> Self {
        self.id = Some(ParsedText(id));
        self
    }

    /// Sets the metadata.
    #[must_use]
    pub fn metadata(mut self, metadata: impl AsRef<[u8]>) -> Self {
        (self.metadata_text, self.metadata_base64) = text_or_base64(metadata);
        self
    }
}

impl<'r> ConditionRequest<'r> {
    /// Refuses the commit if an event matches the query.
    pub fn fail_if_events_match(query: QueryRequest<'r>) -> Self {
        ConditionRequest { fail_if_events_match: Some(query), after: None, last_is: None }
    }

    /// Ignores events up to this position. It belongs to
    /// [`ConditionRequest::fail_if_events_match`].
    #[must_use]
    pub fn after(mut self, position: u64) -> Self {
        self.after = Some(position);
        self
    }

    /// Refuses the commit unless the last event that matches the query is at this position; 0 means
    /// that no event matches.
    pub fn last_is(query: QueryRequest<'r>, position: u64) -> Self {
        let last_is = LastIs { items: query.items, position };
        ConditionRequest { fail_if_events_match: None, after: None, last_is: Some(last_is) }
    }
}

impl<'r> QueryRequest<'r> {
    /// A query of one item.
    pub fn of(item: ItemRequest<'r>) -> Self {
        QueryRequest { items: vec![item] }
    }

    /// Adds an item: events of either match.
    #[must_use]
    pub fn or(mut self, item: ItemRequest<'r>) -> Self {
        self.items.push(item);
        self
    }
}

impl<'r> ItemRequest<'r> {
    /// An item that every event matches.
    pub fn any() -> Self {
        ItemRequest { types: Vec::new(), tags: Vec::new(), only_last_event: false }
    }

    /// Adds a type: an event must have one of the types.
    #[must_use]
    pub fn event_type(mut self, event_type: impl Into<Text<'r>>) -> Self {
        self.types.push(event_type.into());
        self
    }

    /// Adds a tag: an event must have all tags.
    #[must_use]
    pub fn tag(mut self, tag: impl AsRef<[u8]>) -> Self {
        self.tags.push(TagRequest::of(tag));
        self
    }
}

/// A read, in the body of a request.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "a comment would be in the description; docs/http.md explains the fields")]
pub struct ReadRequest<'r> {
    /// Every event, when absent.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub query: Option<QueryRequest<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<ParsedText<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up_to: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    #[serde(default)]
    pub backwards: bool,
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
