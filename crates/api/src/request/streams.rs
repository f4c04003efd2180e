//! The JSON form of the commands of topics.

use quire::streams::wire::Codec;
use quire::streams::{
    Cleanup, Command, Committer, Despite, Setting, SettingSet, TopicChanges, TopicRef, TopicSettings,
};
use quire::{Message, Part, Sequence};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::Failure;
use crate::bytes::{Base64, Text, from_text, given, text_or_base64};
use crate::schema::inline_schema;

/// Produces a message. Its key and the values of its headers are text. Its value is any JSON.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Produce<'r> {
    #[serde(borrow)]
    topic: Text<'r>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<Text<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_base64: Option<Base64>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'r RawValue>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    value_text: Option<Text<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_base64: Option<Base64>,
    #[serde(borrow, deserialize_with = "crate::meter::list", default)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    headers: Vec<HeaderRequest<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partition: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp_ms: Option<i64>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HeaderRequest<'r> {
    #[serde(borrow)]
    key: Text<'r>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Text<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_base64: Option<Base64>,
}

impl<'r> Produce<'r> {
    /// A message with this value: text, JSON or any other bytes.
    pub fn new(topic: impl Into<Text<'r>>, value: impl AsRef<[u8]>) -> Self {
        let (value_text, value_base64) = text_or_base64(value);
        Produce { value_text, value_base64, ..Produce::tombstone(topic) }
    }

    /// A message without a value, which deletes its key from a compacted topic.
    pub fn tombstone(topic: impl Into<Text<'r>>) -> Self {
        Produce {
            topic: topic.into(),
            key: None,
            key_base64: None,
            value: None,
            value_text: None,
            value_base64: None,
            headers: Vec::new(),
            partition: None,
            timestamp_ms: None,
        }
    }

    /// Sets the key.
    #[must_use]
    pub fn key(mut self, key: impl AsRef<[u8]>) -> Self {
        (self.key, self.key_base64) = text_or_base64(key);
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, key: impl Into<Text<'r>>, value: impl AsRef<[u8]>) -> Self {
        let (value, value_base64) = text_or_base64(value);
        self.headers.push(HeaderRequest { key: key.into(), value, value_base64 });
        self
    }

    /// Adds a header without a value. An empty value differs from no value.
    #[must_use]
    pub fn header_without_value(mut self, key: impl Into<Text<'r>>) -> Self {
        self.headers.push(HeaderRequest { key: key.into(), value: None, value_base64: None });
        self
    }

    setters! {
        /// Sets the partition, which the key selects otherwise.
        partition: u32;
        /// Sets the time, in milliseconds since 1970.
        timestamp_ms: i64;
    }
}

impl<'r> CreateTopic<'r> {
    /// A topic with default settings.
    pub fn new(name: impl Into<Text<'r>>, partitions: u32) -> Self {
        CreateTopic { name: name.into(), partitions, settings: SettingsRequest::default() }
    }
}

impl<'r> CommitOffset<'r> {
    /// The offset of the next record that a group reads from a partition.
    pub fn new(group: impl Into<Text<'r>>, topic: impl Into<Text<'r>>, partition: u32, offset: u64) -> Self {
        let (group, topic) = (group.into(), topic.into());
        CommitOffset { group, topic, partition, offset, leader_epoch: None, metadata: None }
    }
}

/// Creates a topic.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateTopic<'r> {
    #[serde(borrow)]
    name: Text<'r>,
    partitions: u32,
    #[serde(default, skip_serializing_if = "SettingsRequest::is_empty")]
    settings: SettingsRequest,
}

/// Settings of a topic: a number, or null for the default; an absent one leaves the setting
/// unchanged.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct SettingsRequest {
    #[serde(deserialize_with = "given_or_null")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if)]
    retention_ms: Option<Option<u64>>,
    #[serde(deserialize_with = "given_or_null")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if)]
    retention_bytes: Option<Option<u64>>,
    #[serde(deserialize_with = "given_or_null")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if)]
    batch_bytes_max: Option<Option<u32>>,
    #[serde(deserialize_with = "given_or_null")]
    #[serde(skip_serializing_if = "Option::is_none")]
    compression: Option<Option<CodecName>>,
    #[serde(deserialize_with = "given_or_null")]
    #[serde(skip_serializing_if = "Option::is_none")]
    cleanup: Option<Option<CleanupName>>,
    #[serde(deserialize_with = "given_or_null")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if)]
    delete_retention_ms: Option<Option<u64>>,
    #[serde(deserialize_with = "given_or_null")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if)]
    timestamp_after_max_ms: Option<Option<u64>>,
    #[serde(deserialize_with = "given_or_null")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if)]
    timestamp_before_max_ms: Option<Option<u64>>,
}

/// The name of a cleanup policy: `delete`, `compact` or `compact,delete`.
#[derive(Debug, Clone, Copy)]
struct CleanupName(Cleanup);

impl Serialize for CleanupName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

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

impl Serialize for CodecName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

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
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteTopic<'r> {
    #[serde(borrow)]
    topic: Text<'r>,
}

/// Changes the settings of a topic, or gives it more partitions.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AlterTopic<'r> {
    #[serde(borrow)]
    topic: Text<'r>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partitions: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    settings: Option<SettingsRequest>,
}

/// Deletes the records of a partition before an offset, or all.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteRecords<'r> {
    #[serde(borrow)]
    topic: Text<'r>,
    partition: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<u64>,
}

/// Makes a topic keep records until a group has read them, or stops that.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProtectUnread<'r> {
    #[serde(borrow)]
    group: Text<'r>,
    #[serde(borrow)]
    topic: Text<'r>,
    protects: bool,
}

/// Deletes a group's committed offset in a partition.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteOffset<'r> {
    #[serde(borrow)]
    group: Text<'r>,
    #[serde(borrow)]
    topic: Text<'r>,
    partition: u32,
}

/// Deletes a group.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteGroup<'r> {
    #[serde(borrow)]
    group: Text<'r>,
    /// Whether to delete it even if it has, or may have, members.
    #[serde(default)]
    force: bool,
}

/// Commits a consumer group's offset in a partition.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommitOffset<'r> {
    #[serde(borrow)]
    group: Text<'r>,
    #[serde(borrow)]
    topic: Text<'r>,
    partition: u32,
    offset: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    leader_epoch: Option<u32>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
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
    /// Whether no setting is given.
    fn is_empty(&self) -> bool {
        self.changes() == TopicChanges::default()
    }

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
