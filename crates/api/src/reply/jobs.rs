//! The state of jobs and queues.

use std::borrow::Cow;
use std::collections::BTreeMap;

use quire::jobs::JobState;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::commit::FetchedReply;
use super::value::{ShownBytes, names};

/// A job. Absent fields are left out.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct JobReply {
    pub job: String,
    pub queue: String,
    pub kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(!default)]
    pub group: String,
    pub state: Cow<'static, str>,
    pub priority: u8,
    pub tags: Vec<String>,
    #[serde(flatten)]
    #[schemars(with = "names::UniqueKey")]
    pub unique_key: Option<ShownBytes<'static, names::UniqueKey>>,
    pub enqueued_at_ms: u64,
    pub run_at_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_ms: Option<u64>,
    pub attempt: u16,
    pub attempts_max: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    #[serde(flatten)]
    #[schemars(with = "names::Payload")]
    pub payload: ShownBytes<'static, names::Payload>,
    #[serde(flatten)]
    #[schemars(with = "names::Progress")]
    pub progress: Option<ShownBytes<'static, names::Progress>>,
    #[serde(flatten)]
    #[schemars(with = "names::Checkpoint")]
    pub checkpoint: Option<ShownBytes<'static, names::Checkpoint>>,
    #[serde(flatten)]
    #[schemars(with = "names::ResultBytes")]
    pub result: Option<ShownBytes<'static, names::ResultBytes>>,
}

/// A job with its history.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct JobWithHistory {
    #[serde(flatten)]
    pub job: JobReply,
    /// Its last steps, oldest first.
    pub history: Vec<StepReply>,
    /// Whether there are older steps.
    pub more: bool,
}

/// A step of a job's life.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct StepReply {
    pub position: u64,
    pub time_ms: u64,
    pub what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
}

/// The number of jobs in each state of a queue, and its settings that are not defaults.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct QueueReply {
    pub queue: String,
    #[serde(flatten)]
    pub counts: BTreeMap<Cow<'static, str>, u64>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(!default)]
    pub settings: Map<String, Value>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct FetchReply<'a> {
    pub jobs: Vec<FetchedReply<'a>>,
}

/// An event. Absent fields are left out.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct JobEventReply {
    pub after: String,
    pub number: u64,
    pub queue: String,
    pub event: String,
    pub time_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(!default)]
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(flatten)]
    #[schemars(with = "names::NotedBytes")]
    pub data: Option<ShownBytes<'static, names::NotedBytes>>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct BulkReply {
    pub bulk: String,
    pub looked_at: u64,
    pub changed: u64,
    pub refused: u64,
    pub done: bool,
    /// Whether it ended early, because its creator lost its rights.
    #[serde(default)]
    #[schemars(!default)]
    pub stopped: bool,
}

impl QueueReply {
    /// The number of jobs in a state.
    pub fn count(&self, state: JobState) -> u64 {
        self.counts.get(state.name()).copied().unwrap_or(0)
    }
}
