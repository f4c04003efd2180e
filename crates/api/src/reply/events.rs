//! Event stores.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

impl EventReply<'_> {
    /// The same in a response made of lines.
    #[must_use]
    pub fn on_a_line(self) -> Self {
        EventReply { metadata: self.metadata.on_a_line(), data: self.data.on_a_line(), ..self }
    }
}
