//! A successful commit: its position and time, and one reply a part, named by its content.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::problem::ProblemReply;
use super::value::{ShownBytes, names};

/// Builds the response to a commit.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CommitReply<'a> {
    pub position: u64,
    pub time_ms: u64,
    pub replies: Vec<PartReply<'a>>,
}

/// The answer that a commit would get. Nothing was committed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DryRunReply<'a> {
    /// Always true.
    pub dry_run: bool,
    pub position: u64,
    pub time_ms: u64,
    pub replies: Vec<PartReply<'a>>,
    /// The entries that the commit would append.
    pub entries: Vec<DraftedEntryReply>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DraftedEntryReply {
    pub model: Cow<'static, str>,
    pub kind: Cow<'static, str>,
    pub bytes: u64,
}

/// Builds the response to a part.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PartReply<'a> {
    TopicCreated {
        partitions: u32,
    },
    TopicDeleted {},
    TopicAltered {
        partitions: u32,
    },
    RecordsDeleted {
        partition: u32,
        start: u64,
    },
    OffsetDeleted {
        partition: u32,
    },
    GroupDeleted {},
    UnreadProtected {},
    Produced {
        partition: u32,
        offset: u64,
    },
    OffsetCommitted {
        partition: u32,
    },
    Appended {
        first: Option<u64>,
        last: Option<u64>,
        duplicate: bool,
    },
    Enqueued {
        job: String,
        state: Cow<'static, str>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        #[schemars(!default)]
        duplicate: bool,
    },
    Fetched {
        jobs: Vec<FetchedReply<'a>>,
    },
    Acked {},
    Failed {
        retry_at_ms: Option<u64>,
    },
    Snoozed {
        until_ms: u64,
    },
    Extended {
        deadline_ms: u64,
    },
    Changed {
        state: Option<Cow<'static, str>>,
    },
    QueueSet {},
    Cleared {
        jobs: u64,
    },
    BulkBegun {
        bulk: String,
    },
    Each(Vec<EachReply<'a>>),
    Ticked {
        jobs: usize,
        more: bool,
    },
    BlockPut {
        id: String,
        version: u64,
        created: bool,
    },
    BlockDeleted {
        id: String,
        version: u64,
    },
    EdgePut {
        created: bool,
    },
    EdgeDeleted {
        existed: bool,
    },
    EdgesDeleted {
        edges: usize,
        more: bool,
    },
    RetentionSet {},
    HistoryTrimmed {
        from: u64,
    },
}

/// A job for its worker.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct FetchedReply<'a> {
    pub job: String,
    pub token: String,
    pub queue: Cow<'a, str>,
    pub kind: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    #[schemars(!default)]
    pub group: Cow<'a, str>,
    pub attempt: u16,
    pub attempts_max: u16,
    pub priority: u8,
    pub deadline_ms: u64,
    /// When its timeout ends the attempt, regardless of heartbeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_until_ms: Option<u64>,
    #[serde(flatten)]
    #[schemars(with = "names::Payload")]
    pub payload: ShownBytes<'a, names::Payload>,
    #[serde(flatten)]
    #[schemars(with = "names::Checkpoint")]
    pub checkpoint: Option<ShownBytes<'a, names::Checkpoint>>,
}

/// The result or the refusal of one command of an `each`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum EachReply<'a> {
    Accepted(PartReply<'a>),
    Refused { refused: ProblemReply<'a> },
}
