//! The whole database: its contents in numbers, whether it works, and its compaction.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::graph::GraphReply;
use super::jobs::QueueReply;

/// The contents, and counts since the database was opened.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Stats {
    /// `sync` or `os`.
    pub durability: String,
    /// The position of the last published record.
    pub position: u64,
    pub commits: u64,
    pub refusals: u64,
    pub checkpoints: u64,
    pub entries: u64,
    pub log_bytes: u64,
    pub syncs: u64,
    pub segments: u64,
    /// Bytes of memory of unpacked data of packed segments.
    pub unpacked_bytes: u64,
    /// The number of damaged places of the log found since the database was opened.
    pub damaged: u64,
    /// How far the database's time is ahead of the system's clock, in milliseconds.
    pub clock_ahead_ms: u64,
    /// Background duties whose last run failed.
    pub failing: Vec<FailingStats>,
    pub stores: Vec<StoreStats>,
    pub topics: Vec<TopicStats>,
    pub groups: Vec<GroupStats>,
    pub queues: Vec<QueueReply>,
    pub graphs: Vec<GraphReply>,
    /// What all models together have a limited number of.
    pub limits: Vec<LimitStats>,
}

/// A limit on names, or on other things that all models together have a limited number of.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct LimitStats {
    /// The setting.
    pub limit: Cow<'static, str>,
    pub count: u64,
    pub most: u64,
}

/// A background duty whose last run failed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct FailingStats {
    pub duty: String,
    /// The number of consecutive failures.
    pub times: u64,
    /// The time of the first of them, in milliseconds since 1970.
    pub since_ms: u64,
    pub message: String,
}

/// An event store.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct StoreStats {
    pub store: String,
    /// The number of events ever appended: the position of the last.
    pub events: u64,
}

/// A topic.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TopicStats {
    pub topic: String,
    pub partitions: u32,
    /// The number of messages in its partitions.
    pub messages: u64,
}

/// The lag of a group, over all partitions that it reads.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GroupStats {
    pub group: String,
    pub members: usize,
    pub lag: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// * `no_space`: a commit was refused for lack of disk space, and no commit that needs space
    ///   has succeeded since. Commits that free space still work.
    /// * `no_segment`: a commit was refused because its segment could not be created for another
    ///   reason.
    /// * `damaged`: a part of the log was found damaged. Everything else is served.
    /// * `ok`: otherwise.
    pub status: Cow<'static, str>,
    /// A client without a session gets the status only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durability: Option<String>,
    /// Background duties whose last run failed. No promise is broken by that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing: Option<Vec<FailingStats>>,
    /// The damage found since the database was opened, at most 16 places: file, byte
    /// and record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damaged: Option<Vec<String>>,
}

/// The result; bytes are bytes of files.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CompactionReply {
    pub segments: u64,
    pub entries_dropped: u64,
    pub bytes_before: u64,
    pub bytes_after: u64,
}

/// The samples of the last hour, oldest first.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct HistoryReply {
    /// The time between two samples, in milliseconds.
    pub interval_ms: u64,
    pub samples: Vec<HistorySample>,
}

/// Figures of one moment, and counts since the sample before.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistorySample {
    /// The time of the sample, in milliseconds since 1970.
    pub time_ms: u64,
    pub commits: u64,
    pub refusals: u64,
    pub entries: u64,
    pub log_bytes: u64,
    pub syncs: u64,
    /// Requests of all front ends that ended.
    pub requests: u64,
    /// An upper bound of the 99th percentile, in milliseconds; null without a timed commit.
    pub commit_p99_ms: Option<f64>,
    /// An upper bound of the 99th percentile, in milliseconds; null without a sync.
    pub sync_p99_ms: Option<f64>,
    /// Open connections of all front ends.
    pub connections: u64,
    /// Bytes of memory that requests and responses hold.
    pub client_bytes: u64,
    /// The lag of all groups together; null on a node that does not lead.
    pub lag: Option<u64>,
    /// The age of the oldest pending job, in milliseconds; null without one.
    pub oldest_pending_ms: Option<u64>,
    /// Free bytes of the file system of the database.
    pub disk_free_bytes: Option<u64>,
}
