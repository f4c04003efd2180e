//! The JSON of commits of the log.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ProblemReply, TagReply};

/// A fact of a page of commits.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CommitsRead {
    pub head: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct LoggedCommitReply {
    pub position: u64,
    pub time_ms: u64,
    pub entries: Vec<CommitEntryReply>,
    pub next_entry: Option<u32>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CommitEntryReply {
    pub entry: u32,
    pub model: Cow<'static, str>,
    pub kind: Cow<'static, str>,
    pub bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<LoggedEventReply>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graph: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edge: Option<LoggedEdgeReply>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct LoggedEventReply {
    pub position: u64,
    #[serde(rename = "type")]
    pub event_type: String,
    pub tags: Vec<TagReply<'static>>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct LoggedEdgeReply {
    pub source: String,
    #[serde(rename = "type")]
    pub edge_type: String,
    pub target: String,
}

/// A commit that was refused.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RefusedCommitReply<'p> {
    /// 1 for the first one since the server was started.
    pub number: u64,
    /// The time of the decision, in milliseconds since 1970.
    pub time_ms: u64,
    /// The resources that the refused part touches.
    pub resources: Vec<TouchedResourceReply>,
    pub problem: ProblemReply<'p>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TouchedResourceReply {
    pub kind: Cow<'static, str>,
    /// Null for every resource of the kind.
    pub name: Option<String>,
}
