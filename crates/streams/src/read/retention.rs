//! Records that a topic's settings delete: a plan, made from the state and the log, and carried out
//! by a commit of [`Command::DeleteRecords`].
//!
//! Both limits err on the side of keeping. Bytes are counted by the partition's samples, so up to
//! one part in 32 more stays. Times are checked batch by batch from the start, up to the first
//! young batch; the batches after it stay until it is deleted, as in Kafka.

use alloc::vec::Vec;

use quire_model::{History, Position, ReadError, Sequence, Timestamp};

use crate::{Command, Partition, Streams, TopicId, TopicRef};

/// A partition with records that may be past their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetainedPartition {
    topic: TopicId,
    number: u32,
    partition: Partition,
    /// Records before this offset are more than the topic keeps.
    start: Sequence,
    /// The topic keeps no bytes: every record is more than that.
    keeps_no_bytes: bool,
    /// Records that are earlier have been kept long enough.
    keep_from_ms: Option<i64>,
    /// Records of commits before this one are more than the database keeps.
    keep_from: Option<Position>,
    /// The first record that a group has not read for which it is kept.
    unread: Option<Sequence>,
}

impl Command<'_> {
    /// Whether what topics keep may be different afterwards.
    pub fn changes_limits(&self) -> bool {
        matches!(self, Command::CreateTopic { .. } | Command::AlterTopic { .. } | Command::DeleteTopic { .. })
    }

    /// Whether the command only removes data. A full disk keeps some space for such commands.
    pub fn frees_space(&self) -> bool {
        matches!(
            self,
            Command::AlterTopic { .. }
                | Command::DeleteTopic { .. }
                | Command::DeleteRecords { .. }
                | Command::ProtectUnread { protects: false, .. }
        )
    }
}

impl Streams {
    /// The partitions with a retention, with their facts from memory. With `keep_from`, the
    /// partitions of every topic whose records may be deleted; records committed earlier are then
    /// not kept.
    pub fn retained(&self, now: Timestamp, keep_from: Option<Position>) -> Vec<RetainedPartition> {
        let mut retained = Vec::new();
        let unread = self.unread();
        for (topic, _, found) in self.topics.iter() {
            let settings = found.settings;
            if !settings.cleanup.deletes() {
                continue;
            }
            if settings.retention_ms.is_none() && settings.retention_bytes.is_none() && keep_from.is_none() {
                continue;
            }
            let topic = TopicId::new(topic);
            let now_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
            let keep_from_ms = settings.retention_ms.map(|ms| now_ms.saturating_sub_unsigned(ms));
            for (&number, written) in &found.written {
                // The samples also count compacted batches. Compaction itself measures the
                // remaining bytes, and finds the records beyond the limit.
                let bytes = settings.retention_bytes.filter(|_| !found.has_holes);
                let within = bytes.and_then(|bytes| written.samples.offset_with_bytes_behind(bytes));
                let start = written.start.max(within.unwrap_or_default());
                // The samples know where batches begin, and nothing begins at the end.
                let keeps_no_bytes = settings.retention_bytes == Some(0);
                let partition = Partition::new(topic, number, written.start, found.has_holes);
                retained.push(RetainedPartition {
                    topic,
                    number,
                    partition,
                    start,
                    keeps_no_bytes,
                    keep_from_ms,
                    keep_from,
                    unread: unread.from(topic, number),
                });
            }
        }
        retained
    }
}

impl RetainedPartition {
    /// Returns the partition's new first offset; `None` when all records stay. Reads the batches to
    /// be deleted, and one more.
    ///
    /// # Errors
    /// When the log can't be read.
    pub fn plan(&self, history: &dyn History) -> Result<Option<Command<'static>>, ReadError> {
        let mut start = self.start;
        if self.keeps_no_bytes {
            start = self.partition.offsets(history)?.next;
        }
        if let Some(keep_from_ms) = self.keep_from_ms {
            start = self.partition.first_batch_at(history, start, keep_from_ms)?;
        }
        if let Some(keep_from) = self.keep_from {
            start = self.partition.first_at(history, start, keep_from)?;
        }
        start = self.unread.map_or(start, |unread| unread.min(start));
        let command = Command::DeleteRecords {
            topic: TopicRef::Id(self.topic),
            partition: self.number,
            before: Some(start),
            keep_unread: true,
        };
        Ok((start > self.partition.start()).then_some(command))
    }
}
