//! The commands of topics as a client writes them.

use quire::streams::{Command, TopicRef};
use quire::{Message, Part, Sequence};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::bytes::{Base64, Text, given};
use crate::error::Problem;

/// Produces a message. Its key and the values of its headers are text, unlike its value, which is any JSON.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Produce<'r> {
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

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeaderRequest<'r> {
    #[serde(borrow)]
    key: Text<'r>,
    #[serde(borrow)]
    value: Option<Text<'r>>,
    value_base64: Option<Base64>,
}

/// Creates a topic.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateTopic<'r> {
    #[serde(borrow)]
    name: Text<'r>,
    partitions: u32,
}

/// Notes where a consumer group goes on in a partition.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommitOffset<'r> {
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
    pub(crate) fn part(&self) -> Result<Part<'_>, Problem> {
        let value = given("value", self.value, self.value_text.as_ref(), self.value_base64.as_ref())?;
        let mut message = value.map_or_else(Message::tombstone, Message::new);
        if let Some(key) = given("key", None, self.key.as_ref(), self.key_base64.as_ref())? {
            message = message.key(key);
        }
        for header in &self.headers {
            let value = given("value", None, header.value.as_ref(), header.value_base64.as_ref())?;
            message = message.header(&header.key, value.unwrap_or_default());
        }
        if let Some(partition) = self.partition {
            message = message.partition(partition);
        }
        if let Some(timestamp_ms) = self.timestamp_ms {
            message = message.timestamp_ms(timestamp_ms);
        }
        Ok(Part::Produce { topic: &self.topic, message })
    }
}

impl CreateTopic<'_> {
    pub(crate) fn command(&self) -> Command<'_> {
        Command::CreateTopic { name: &self.name, partitions: self.partitions }
    }
}

impl CommitOffset<'_> {
    pub(crate) fn command(&self) -> Command<'_> {
        Command::CommitOffset {
            group: &self.group,
            topic: TopicRef::Name(&self.topic),
            partition: self.partition,
            offset: Sequence::new(self.offset),
            leader_epoch: self.leader_epoch,
            metadata: self.metadata.as_deref().unwrap_or_default(),
        }
    }
}
