//! A delivery: records of one partition, and the commit of its offset.

use std::sync::Arc;

use quire_api::reply::RecordReply;
use quire_api::request::{CommitOffset, CommitRequest, Produce};

/// Records of one partition, in order. It has at least one.
#[derive(Debug, Clone)]
pub struct RemoteDelivery {
    /// The partition.
    pub partition: u32,
    /// Number of records before the first that were deleted before this group read them.
    pub lost: u64,
    /// The records.
    pub records: Vec<RecordReply>,
    pub(super) topic: Arc<str>,
    pub(super) group: Arc<str>,
    /// The offset that the group commits for this delivery.
    pub(super) next: u64,
}

impl RemoteDelivery {
    /// The part of a commit that acknowledges the delivery, for a commit that you send yourself.
    pub fn offset_part(&self) -> CommitOffset<'static> {
        CommitOffset::new(String::from(&*self.group), String::from(&*self.topic), self.partition, self.next)
    }

    /// The offset of the first record.
    pub(super) fn first(&self) -> u64 {
        self.records.first().map_or(self.next, |record| record.offset)
    }

    /// The commit that moves the records to a dead-letter topic.
    pub(super) fn dead_letters(&self, dead_letter: &str, error: &str) -> CommitRequest<'static> {
        let letter = |record: &RecordReply| {
            let topic = dead_letter.to_owned();
            let mut message = match record.value.is_null() {
                false => Produce::new(topic, record.value.bytes()),
                true => Produce::tombstone(topic),
            };
            if !record.key.is_null() {
                message = message.key(record.key.bytes());
            }
            for header in &record.headers {
                // A name of a header is text by the Kafka protocol.
                let name = String::from_utf8_lossy(header.key.bytes()).into_owned();
                message = match header.value.is_null() {
                    false => message.header(name, header.value.bytes()),
                    true => message.header_without_value(name),
                };
            }
            let message = message.header("error", error).header("topic", self.topic.as_bytes());
            let message = message.header("partition", self.partition.to_string());
            message.header("offset", record.offset.to_string()).timestamp_ms(record.timestamp_ms).into()
        };
        CommitRequest { parts: self.records.iter().map(letter).collect() }
    }
}

/// What the handler of a consumer returns: the commit that happens together with the offset.
///
/// `()` converts to no further part, and a [`CommitRequest`] to a commit with a key that the client
/// chooses.
#[derive(Debug)]
pub struct ConsumerCommit {
    /// The commit.
    pub commit: CommitRequest<'static>,
    /// An idempotency key of your own, which another process can repeat.
    pub key: Option<String>,
}

impl From<CommitRequest<'static>> for ConsumerCommit {
    fn from(commit: CommitRequest<'static>) -> Self {
        ConsumerCommit { commit, key: None }
    }
}

impl From<()> for ConsumerCommit {
    fn from((): ()) -> Self {
        ConsumerCommit { commit: CommitRequest { parts: Vec::new() }, key: None }
    }
}
