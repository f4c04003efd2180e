//! Topics, their records, and consumer groups.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::value::{ShownBytes, names};

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TopicReply {
    pub topic: String,
    pub partitions: u32,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PartitionReply {
    pub partition: u32,
    /// The offset of the first existing record.
    pub start: u64,
    /// The offset of the next record. If `unreadable` is set, the offset after the last readable
    /// record.
    pub next: u64,
    /// Why the end of the partition can't be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// The bytes of its batches, too high by at most 1/32.
    pub bytes: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TopicWithPartitions {
    pub topic: String,
    pub settings: SettingsReply,
    /// The groups whose unread records are kept.
    pub protected_for: Vec<String>,
    pub partitions: Vec<PartitionReply>,
    /// The number of records ever written.
    pub written: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SettingsReply {
    pub retention_ms: Option<u64>,
    pub retention_bytes: Option<u64>,
    pub batch_bytes_max: u32,
    pub compression: String,
    pub cleanup: String,
    pub delete_retention_ms: u64,
    pub timestamp_after_max_ms: u64,
    pub timestamp_before_max_ms: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TopicOffsetReply {
    pub partition: u32,
    pub offset: u64,
    pub metadata: String,
    pub time_ms: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TopicGroupReply {
    pub topic: String,
    pub group: String,
    /// One offset for each partition with a committed offset of the group.
    pub offsets: Vec<TopicOffsetReply>,
}

/// The facts of a page of records.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RecordsPosition {
    /// The records that are too large for a response.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(!default)]
    pub skipped: Vec<SkippedRecord>,
    /// Where a reader continues, also at the end of the partition.
    pub next_offset: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SkippedRecord {
    pub offset: u64,
    pub reason: Cow<'static, str>,
    pub bytes: usize,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RecordReply {
    pub offset: u64,
    pub timestamp_ms: i64,
    #[serde(flatten)]
    #[schemars(with = "names::Key")]
    pub key: ShownBytes<'static, names::Key>,
    #[serde(flatten)]
    #[schemars(with = "names::ValueBytes")]
    pub value: ShownBytes<'static, names::ValueBytes>,
    pub headers: Vec<HeaderReply>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct HeaderReply {
    #[serde(flatten)]
    #[schemars(with = "names::Key")]
    pub key: ShownBytes<'static, names::Key>,
    #[serde(flatten)]
    #[schemars(with = "names::ValueBytes")]
    pub value: ShownBytes<'static, names::ValueBytes>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GroupReply {
    pub group: String,
    /// The number of partitions with a committed offset.
    pub partitions: usize,
    pub generation: u32,
    /// Its members by lease.
    pub members: usize,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GroupWithOffsets {
    pub group: String,
    pub generation: u32,
    /// The partitions of each member of the current generation; empty when there is none.
    pub protocol: String,
    pub members: Vec<MemberReply>,
    /// The topics that keep records until this group has read them.
    pub protected_in: Vec<String>,
    pub offsets: Vec<OffsetReply>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct MemberReply {
    pub topic: String,
    pub member: u64,
    pub name: String,
    pub partitions: Vec<u32>,
    /// When its lease expires.
    pub until_ms: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct OffsetReply {
    #[serde(flatten)]
    pub source: GroupSourceReply,
    pub partition: u32,
    /// The committed offset.
    pub offset: u64,
    /// The first existing offset.
    pub start: u64,
    /// The offset of the next record.
    pub next: u64,
    /// How many records the group has not read, without deleted ones.
    pub lag: u64,
    pub metadata: String,
    pub time_ms: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GroupSourceReply {
    Topic(String),
    Store(String),
    Queue(String),
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GroupEventReply {
    pub group: String,
    pub queue: String,
    pub offset: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PositionReply {
    pub group: String,
    pub store: String,
    pub offset: u64,
}
