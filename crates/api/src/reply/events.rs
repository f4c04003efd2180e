//! Event stores.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::commit::FetchedReply;
use super::jobs::QueueReply;
use super::value::{ShownBytes, TagReply, names};

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AppendReply {
    pub first: Option<u64>,
    pub last: Option<u64>,
    pub duplicate: bool,
}

/// A fact of a page of events.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct EventsRead {
    /// The last position of the store at the time of the read.
    pub head: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct EventReply<'h> {
    pub position: u64,
    pub id: String,
    #[serde(rename = "type")]
    pub event_type: Cow<'h, str>,
    pub tags: Vec<TagReply<'h>>,
    pub time_ms: u64,
    #[serde(flatten)]
    #[schemars(with = "names::Metadata")]
    pub metadata: ShownBytes<'h, names::Metadata>,
    #[serde(flatten)]
    #[schemars(with = "names::Data")]
    pub data: ShownBytes<'h, names::Data>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct StoreReply {
    pub store: String,
    pub head: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct StatsReply {
    pub store: String,
    /// The position of the last event.
    pub head: u64,
    /// Events up to this position were trimmed.
    pub trimmed: u64,
    /// The number of erased tags.
    pub forgotten: usize,
    /// The retention of its events; null for no limit.
    pub retention_ms: Option<u64>,
    /// The number of sources that it reads.
    pub sources: usize,
    /// The number of named subscriptions.
    pub subscriptions: usize,
    /// The number of saved projections.
    pub projections: usize,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SourceReply {
    pub source: String,
    pub position: u64,
}

/// A fact of a list of sources.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SourcesRead {
    pub store: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProjectionReply<'a> {
    pub name: Cow<'a, str>,
    pub version: u32,
    /// The position of the last event included.
    pub position: u64,
    #[serde(flatten)]
    #[schemars(with = "names::StateBytes")]
    pub state: Option<ShownBytes<'a, names::StateBytes>>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SubscriptionReply {
    pub name: String,
    pub store: String,
    /// Matches up to here were delivered.
    pub position: u64,
    /// The number of later events, whether they match or not.
    pub behind: u64,
    pub query: QueryReply<'static>,
    pub attempts_max: u16,
    pub backoff_ms: u64,
    pub backoff_max_ms: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(!default)]
    pub group_by: String,
    /// The reason why nothing is delivered: the creator of the subscription lacks a right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
    /// The jobs of the delivery.
    pub queue: Option<QueueReply>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct QueryReply<'q> {
    pub items: Vec<ItemReply<'q>>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ItemReply<'q> {
    pub types: Vec<Cow<'q, str>>,
    pub tags: Vec<TagReply<'q>>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DeliveredJob<'a> {
    #[serde(flatten)]
    pub job: FetchedReply<'a>,
    /// `null` when the event was trimmed.
    pub event: Option<EventReply<'a>>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DeliveredReply<'a> {
    pub events: Vec<DeliveredJob<'a>>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProjectReply {
    pub states: BTreeMap<String, Box<RawValue>>,
    pub head: u64,
    pub condition: Value,
}

impl EventReply<'_> {
    /// The same in a response made of lines.
    #[must_use]
    pub fn on_a_line(self) -> Self {
        EventReply { metadata: self.metadata.on_a_line(), data: self.data.on_a_line(), ..self }
    }
}
