//! The JSON form of the commands of topics.

use quire::streams::wire::Codec;
use quire::streams::{
    Cleanup, Command, Committer, Despite, Setting, SettingSet, TopicChanges, TopicRef, TopicSettings,
};
use quire::{Message, Part, Sequence};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::Failure;
use crate::bytes::{Base64, Text, from_text, given};
use crate::schema::inline_schema;

/// Produces a message. Its key and the values of its headers are text. Its value is any JSON.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Produce<'r> {
    #[serde(borrow)]
    topic: Text<'r>,
    #[serde(borrow)]
    key: Option<Text<'r>>,
    key_base64: Option<Base64>,
    #[serde(borrow)]
    value: Option<&'r RawValue>,
    #[serde(borrow)]
    value_text: Option<Text<'r>>,
    value_base64: Option<Base64>,
    #[serde(borrow, default)]
    headers: Vec<HeaderRequest<'r>>,
    partition: Option<u32>,
    timestamp_ms: Option<i64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HeaderRequest<'r> {
    #[serde(borrow)]
    key: Text<'r>,
    #[serde(borrow)]
    value: Option<Text<'r>>,
    value_base64: Option<Base64>,
}

/// Creates a topic.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateTopic<'r> {
    #[serde(borrow)]
    name: Text<'r>,
    partitions: u32,
    #[serde(default)]
    settings: SettingsRequest,
}

/// Settings of a topic: a number, or null for the default; an absent one leaves the setting
/// unchanged.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct SettingsRequest {
    #[serde(deserialize_with = "given_or_null")]
    retention_ms: Option<Option<u64>>,
    #[serde(deserialize_with = "given_or_null")]
    retention_bytes: Option<Option<u64>>,
    #[serde(deserialize_with = "given_or_null")]
    batch_bytes_max: Option<Option<u32>>,
    #[serde(deserialize_with = "given_or_null")]
    compression: Option<Option<CodecName>>,
    #[serde(deserialize_with = "given_or_null")]
    cleanup: Option<Option<CleanupName>>,
    #[serde(deserialize_with = "given_or_null")]
    delete_retention_ms: Option<Option<u64>>,
    #[serde(deserialize_with = "given_or_null")]
    timestamp_after_max_ms: Option<Option<u64>>,
    #[serde(deserialize_with = "given_or_null")]
    timestamp_before_max_ms: Option<Option<u64>>,
}

/// The name of a cleanup policy: `delete`, `compact` or `compact,delete`.
#[derive(Debug, Clone, Copy)]
struct CleanupName(Cleanup);

inline_schema!(CleanupName, "Cleanup", {"type": "string", "enum": ["delete", "compact", "compact,delete", "delete,compact"]});

impl<'de> Deserialize<'de> for CleanupName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from_text(from, |name| {
            let unknown = || format!("unknown cleanup policy {name:?}: use delete, compact or compact,delete");
            Cleanup::of_name(name).map(CleanupName).ok_or_else(unknown)
        })
    }
}

/// The name of a codec: `none`, `gzip`, `snappy`, `lz4` or `zstd`.
#[derive(Debug, Clone, Copy)]
struct CodecName(Codec);

inline_schema!(CodecName, "Codec", {"type": "string", "enum": ["none", "gzip", "snappy", "lz4", "zstd"]});

impl<'de> Deserialize<'de> for CodecName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from_text(from, |name| {
            let unknown = || format!("unknown codec {name:?}: use none, gzip, snappy, lz4 or zstd");
            Codec::of_name(name).map(CodecName).ok_or_else(unknown)
        })
    }
}

/// A field that is present, with a value or null.
fn given_or_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(from).map(Some)
}

/// Deletes a topic.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteTopic<'r> {
    #[serde(borrow)]
    topic: Text<'r>,
}

/// Changes the settings of a topic, or gives it more partitions.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AlterTopic<'r> {
    #[serde(borrow)]
    topic: Text<'r>,
    partitions: Option<u32>,
    settings: Option<SettingsRequest>,
}

/// Deletes the records of a partition before an offset, or all.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteRecords<'r> {
    #[serde(borrow)]
    topic: Text<'r>,
    partition: u32,
    before: Option<u64>,
}

/// Makes a topic keep records until a group has read them, or stops that.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProtectUnread<'r> {
    #[serde(borrow)]
    group: Text<'r>,
    #[serde(borrow)]
    topic: Text<'r>,
    protects: bool,
}

/// Deletes a group's committed offset in a partition.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteOffset<'r> {
    #[serde(borrow)]
    group: Text<'r>,
    #[serde(borrow)]
    topic: Text<'r>,
    partition: u32,
}

/// Deletes a group.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteGroup<'r> {
    #[serde(borrow)]
    group: Text<'r>,
    /// Whether to delete it even if it has, or may have, members.
    #[serde(default)]
    force: bool,
}

/// Commits a consumer group's offset in a partition.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommitOffset<'r> {
    #[serde(borrow)]
    group: Text<'r>,
    #[serde(borrow)]
    topic: Text<'r>,
    partition: u32,
    offset: u64,
    leader_epoch: Option<u32>,
    #[serde(borrow)]
    metadata: Option<Text<'r>>,
}

impl Produce<'_> {
    /// Builds the part.
    ///
    /// # Errors
    /// When a value is given twice.
    pub fn part(&self) -> Result<Part<'_>, Failure> {
        let value = given("value", self.value, self.value_text.as_ref(), self.value_base64.as_ref())?;
        let mut message = value.map_or_else(Message::tombstone, Message::new);
        if let Some(key) = given("key", None, self.key.as_ref(), self.key_base64.as_ref())? {
            message = message.key(key);
        }
        for header in &self.headers {
            let value = given("value", None, header.value.as_ref(), header.value_base64.as_ref())?;
            message = match value {
                Some(value) => message.header(&*header.key, value),
                None => message.header_without_value(&*header.key),
            };
        }
        if let Some(partition) = self.partition {
            message = message.partition(partition);
        }
        if let Some(timestamp_ms) = self.timestamp_ms {
            message = message.timestamp_ms(timestamp_ms);
        }
        Ok(Part::Produce { topic: (&*self.topic).into(), message })
    }
}

impl CreateTopic<'_> {
    /// Builds the command.
    pub fn command(&self) -> Command<'_> {
        let settings = TopicSettings::default().changed(self.settings.changes());
        Command::CreateTopic { name: &self.name, partitions: self.partitions, settings }
    }
}

impl SettingsRequest {
    /// A null value is treated as absent.
    fn changes(&self) -> TopicChanges {
        let null = [
            (Setting::RetentionMs, self.retention_ms == Some(None)),
            (Setting::RetentionBytes, self.retention_bytes == Some(None)),
            (Setting::BatchBytesMax, self.batch_bytes_max == Some(None)),
            (Setting::Compression, matches!(self.compression, Some(None))),
            (Setting::Cleanup, matches!(self.cleanup, Some(None))),
            (Setting::DeleteRetentionMs, self.delete_retention_ms == Some(None)),
            (Setting::TimestampAfterMaxMs, self.timestamp_after_max_ms == Some(None)),
            (Setting::TimestampBeforeMaxMs, self.timestamp_before_max_ms == Some(None)),
        ];
        let null = null.into_iter().filter(|(_, is_null)| *is_null);
        TopicChanges {
            retention_ms: self.retention_ms.filter(Option::is_some),
            retention_bytes: self.retention_bytes.filter(Option::is_some),
            batch_bytes_max: self.batch_bytes_max.flatten(),
            compression: self.compression.flatten().map(|name| name.0),
            cleanup: self.cleanup.flatten().map(|name| name.0),
            delete_retention_ms: self.delete_retention_ms.flatten(),
            timestamp_after_max_ms: self.timestamp_after_max_ms.flatten(),
            timestamp_before_max_ms: self.timestamp_before_max_ms.flatten(),
            reset: null.fold(SettingSet::NONE, |reset, (setting, _)| reset.with(setting)),
            ..TopicChanges::default()
        }
    }
}

impl DeleteTopic<'_> {
    /// Builds the command.
    pub fn command(&self) -> Command<'_> {
        Command::DeleteTopic { topic: TopicRef::Name(&self.topic) }
    }
}

impl AlterTopic<'_> {
    /// # Errors
    /// When both are given, which takes two parts, or neither.
    pub fn command(&self) -> Result<Command<'_>, Failure> {
        let topic = TopicRef::Name(&self.topic);
        match (self.partitions, &self.settings) {
            (Some(partitions), None) => Ok(Command::AddPartitions { topic, partitions }),
            (None, Some(settings)) => Ok(Command::AlterTopic { topic, changes: settings.changes() }),
            _ => Err(Failure::invalid("give either partitions or settings: use two parts for both")),
        }
    }
}

impl DeleteRecords<'_> {
    /// Builds the command.
    pub fn command(&self) -> Command<'_> {
        let topic = TopicRef::Name(&self.topic);
        Command::DeleteRecords {
            topic,
            partition: self.partition,
            before: self.before.map(Sequence::new),
            keep_unread: false,
        }
    }
}

impl ProtectUnread<'_> {
    /// Builds the command.
    pub fn command(&self) -> Command<'_> {
        let (group, topic) = (&*self.group, TopicRef::Name(&self.topic));
        Command::ProtectUnread { group, topic, protects: self.protects }
    }
}

impl DeleteOffset<'_> {
    /// Builds the command.
    pub fn command(&self) -> Command<'_> {
        Command::DeleteOffset { group: &self.group, topic: TopicRef::Name(&self.topic), partition: self.partition }
    }
}

impl DeleteGroup<'_> {
    /// Builds the command.
    pub fn command(&self) -> Command<'_> {
        let despite = if self.force { Despite::Everyone } else { Despite::Nobody };
        Command::DeleteGroup { group: &self.group, despite }
    }
}

impl CommitOffset<'_> {
    /// Builds the command.
    pub fn command(&self) -> Command<'_> {
        Command::CommitOffset {
            group: &self.group,
            topic: TopicRef::Name(&self.topic),
            partition: self.partition,
            offset: Sequence::new(self.offset),
            leader_epoch: self.leader_epoch,
            metadata: self.metadata.as_deref().unwrap_or_default(),
            by: Committer::Anyone,
        }
    }
}
