//! The JSON form of the named items of an event store: subscriptions and saved projections.

use std::borrow::Cow;

use quire::events::{self, Attempts, Command, EventPosition};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::QueryRequest;
use super::jobs::micros;
use crate::Failure;
use crate::bytes::{Base64, TagRequest, Text, given};

/// Creates or changes a named subscription.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PutSubscriptionPart<'r> {
    #[serde(borrow)]
    store: Text<'r>,
    #[serde(borrow)]
    name: Text<'r>,
    /// Every event, when absent.
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<QueryRequest<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts_max: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff_max_ms: Option<u64>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    group_by: Option<Text<'r>>,
}

/// The same, for the store and name in the path.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubscriptionRequest<'r> {
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<QueryRequest<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts_max: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff_max_ms: Option<u64>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    group_by: Option<Text<'r>>,
}

impl<'r> SubscriptionRequest<'r> {
    setters! {
        /// Sets the events that are delivered; all of them by default.
        query: QueryRequest<'r>;
        /// Sets the position after which the deliveries begin.
        after: u64;
        /// Sets the most attempts of a delivery.
        attempts_max: u16;
        /// Sets the start of the tag whose events are delivered in order.
        group_by: impl Into<Text<'r>>;
    }
}

/// Names a subscription.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DropSubscription<'r> {
    #[serde(borrow)]
    name: Text<'r>,
}

/// Saves the state of a projection.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SaveProjectionPart<'r> {
    #[serde(borrow)]
    store: Text<'r>,
    #[serde(borrow)]
    name: Text<'r>,
    #[serde(default)]
    version: u32,
    #[serde(default)]
    base: u64,
    position: u64,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'r RawValue>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    state_text: Option<Text<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state_base64: Option<Base64>,
}

/// The same, for the store and name in the path.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SavedProjectionRequest<'r> {
    #[serde(default)]
    version: u32,
    #[serde(default)]
    base: u64,
    position: u64,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'r RawValue>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    state_text: Option<Text<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state_base64: Option<Base64>,
}

/// Trims all events up to a position.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrimEvents<'r> {
    #[serde(borrow)]
    store: Text<'r>,
    up_to: u64,
}

/// Erases all events with a tag.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForgetTag<'r> {
    #[serde(borrow)]
    store: Text<'r>,
    #[serde(borrow)]
    tag: TagRequest<'r>,
}

/// Sets the retention of events; `null` for no limit.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetainEvents<'r> {
    #[serde(borrow)]
    store: Text<'r>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retention_ms: Option<u64>,
}

impl TrimEvents<'_> {
    /// Builds the command.
    pub fn command(&self) -> Command<'_> {
        Command::Trim { store: &self.store, up_to: EventPosition::new(self.up_to) }
    }
}

impl ForgetTag<'_> {
    /// Builds the command.
    pub fn command(&self) -> Command<'_> {
        Command::Forget { store: &self.store, tag: self.tag.as_bytes() }
    }
}

impl RetainEvents<'_> {
    /// Builds the command.
    pub fn command(&self) -> Command<'_> {
        Command::SetRetention { store: &self.store, retention_ms: self.retention_ms }
    }
}

/// Names a projection.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DropProjection<'r> {
    #[serde(borrow)]
    store: Text<'r>,
    #[serde(borrow)]
    name: Text<'r>,
}

impl<'r> SubscriptionRequest<'r> {
    /// The same as a part, for the names in a path.
    pub fn of<'a>(self, store: &'a str, name: &'a str) -> PutSubscriptionPart<'a>
    where
        'r: 'a,
    {
        let SubscriptionRequest { query, after, attempts_max, backoff_ms, backoff_max_ms, group_by } = self;
        let (store, name) = (Text::from(store), Text::from(name));
        PutSubscriptionPart { store, name, query, after, attempts_max, backoff_ms, backoff_max_ms, group_by }
    }
}

impl PutSubscriptionPart<'_> {
    /// Builds the command.
    ///
    /// # Errors
    /// When a field is invalid, or two fields exclude each other.
    pub fn command(&self) -> Result<Command<'_>, Failure> {
        let default = Attempts::default();
        let given_or = |name: &str, ms: Option<u64>, default| ms.map_or(Ok(default), |ms| micros(name, ms));
        Ok(Command::PutSubscription(events::PutSubscription {
            store: &self.store,
            name: &self.name,
            query: self.query.as_ref().map_or_else(events::Query::all, QueryRequest::query),
            after: self.after.map(EventPosition::new),
            attempts: Attempts {
                attempts_max: self.attempts_max.unwrap_or(default.attempts_max),
                backoff_micros: given_or("backoff_ms", self.backoff_ms, default.backoff_micros)?,
                backoff_max_micros: given_or("backoff_max_ms", self.backoff_max_ms, default.backoff_max_micros)?,
                group_by: Cow::Borrowed(self.group_by.as_deref().unwrap_or_default()),
            },
        }))
    }
}

impl DropSubscription<'_> {
    /// Builds the command.
    pub fn command(&self) -> Command<'_> {
        Command::DropSubscription { name: &self.name }
    }
}

impl DropProjection<'_> {
    /// Builds the command.
    pub fn command(&self) -> Command<'_> {
        Command::DropProjection { store: &self.store, name: &self.name }
    }
}

impl<'r> SavedProjectionRequest<'r> {
    /// The same as a part, for the names in a path.
    pub fn of<'a>(self, store: &'a str, name: &'a str) -> SaveProjectionPart<'a>
    where
        'r: 'a,
    {
        let SavedProjectionRequest { version, base, position, state, state_text, state_base64 } = self;
        let (store, name) = (Text::from(store), Text::from(name));
        SaveProjectionPart { store, name, version, base, position, state, state_text, state_base64 }
    }
}

impl SaveProjectionPart<'_> {
    /// Builds the command.
    ///
    /// # Errors
    /// When a field is invalid, or two fields exclude each other.
    pub fn command(&self) -> Result<Command<'_>, Failure> {
        let state = given("state", self.state, self.state_text.as_ref(), self.state_base64.as_ref())?;
        Ok(Command::SaveProjection(events::SaveProjection {
            store: &self.store,
            name: &self.name,
            version: self.version,
            base: EventPosition::new(self.base),
            position: EventPosition::new(self.position),
            state: state.unwrap_or_default(),
        }))
    }
}
