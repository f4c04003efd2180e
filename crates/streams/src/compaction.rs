//! A scan of a compacted partition: finds the newest record of each key, and measures the
//! partition.
//!
//! It scans the whole partition in the published log, and changes nothing. The log's compaction
//! carries out the result, batch by batch ([`NewestRecords::left`]); where the topic has a limit of
//! bytes, so does a commit.

use alloc::vec::Vec;
use core::ops::ControlFlow;

use quire_model::{Entry, History, Position, ReadError, Timestamp};

use crate::codec::BATCH_PRODUCED;
use crate::newest::{KeyHash, NewestRecords};
use crate::read::Open;
use crate::samples::Samples;
use crate::tag::partition_of;
use crate::{Command, Partition, StoredBatch, Streams, TopicId, TopicRef};

/// A partition of which offsets may be without a record, and what its topic chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactedPartition {
    /// Its topic.
    pub topic: TopicId,
    /// Its number.
    pub number: u32,
    /// The bytes of all batches that were ever appended to the partition.
    pub appended_bytes: u64,
    /// See [`TopicSettings::delete_retention_ms`](crate::TopicSettings::delete_retention_ms).
    pub delete_retention_ms: u64,
    partition: Partition,
    /// Whether it still compacts; else it is only measured.
    compacts: bool,
    retention_bytes: Option<u64>,
}

/// The limits of a scan.
#[derive(Debug, Clone, Copy)]
pub struct CompactionScope {
    /// Only records before this position may be compacted.
    pub end: Position,
    /// See [`NewestRecords::new`].
    pub keys_max: usize,
    /// See [`NewestRecords::new`].
    pub turn: u64,
    /// The time of the scan.
    pub now: Timestamp,
}

/// The result of a scan.
#[derive(Debug)]
pub struct Look {
    /// The newest record of each key.
    pub newest: NewestRecords,
    /// The bytes of batches that may be compacted.
    pub bytes: u64,
    /// The bytes of the batches after these.
    pub bytes_behind: u64,
    /// The earliest later time, in milliseconds since 1970, at which marked records without a value
    /// may be removed. Records that may be removed now and still exist are in batches that are not
    /// worth a rewrite.
    pub horizon_ms: Option<i64>,
    /// The records beyond the topic's limit of bytes.
    pub too_much: Option<Command<'static>>,
}

impl Streams {
    /// The partitions whose keys, or whose bytes, a scan has to read.
    pub fn compacted(&self) -> Vec<CompactedPartition> {
        let mut compacted = Vec::new();
        for (topic, _, found) in self.topics.iter().filter(|(.., found)| found.has_holes) {
            let settings = found.settings;
            let (topic, compacts) = (TopicId::new(topic), settings.cleanup.compacts());
            let retention_bytes = settings.retention_bytes.filter(|_| settings.cleanup.deletes());
            if !compacts && retention_bytes.is_none() {
                continue;
            }
            compacted.extend(found.written.iter().map(|(&number, written)| CompactedPartition {
                topic,
                number,
                appended_bytes: written.samples.appended_bytes(),
                delete_retention_ms: settings.delete_retention_ms,
                partition: Partition::new(topic, number, written.start, true),
                compacts,
                retention_bytes,
            }));
        }
        compacted
    }
}

impl CompactedPartition {
    /// Scans the whole partition. `open` decompresses.
    ///
    /// # Errors
    /// When the log can't be read.
    pub fn look(
        &self,
        history: &dyn History,
        scope: CompactionScope,
        open: Open<'_>,
        hash: &dyn Fn(&[u8]) -> KeyHash,
    ) -> Result<Look, ReadError> {
        let start = self.partition.start();
        let now_ms = i64::try_from(scope.now.as_millis()).unwrap_or(i64::MAX);
        let next = self.partition.offsets(history)?.next;
        let mut sizes = Samples::default();
        let newest = NewestRecords::new((start, next), scope.keys_max, scope.turn);
        let mut look = Look { newest, bytes: 0, bytes_behind: 0, horizon_ms: None, too_much: None };
        self.partition.each(history, start, &mut |found| {
            if found.sequence.is_none_or(|base| base >= next) {
                return ControlFlow::Break(());
            }
            let stored = StoredBatch::new(found);
            let bytes = found.body.len();
            sizes.add(stored.base_offset, bytes, stored.batch.max_timestamp_ms());
            *if found.place.position < scope.end { &mut look.bytes } else { &mut look.bytes_behind } += bytes as u64;
            if let Some(horizon) = stored.batch.delete_horizon_ms().filter(|horizon| *horizon > now_ms) {
                look.horizon_ms = Some(look.horizon_ms.map_or(horizon, |known| known.min(horizon)));
            }
            if self.compacts {
                look.take_in(&stored, open, hash);
            }
            ControlFlow::Continue(())
        })?;
        look.too_much =
            self.retention_bytes.and_then(|bytes| sizes.offset_with_bytes_behind(bytes)).and_then(|before| {
                let (topic, before) = (TopicRef::Id(self.topic), Some(before).filter(|before| *before > start)?);
                Some(Command::DeleteRecords { topic, partition: self.number, before: Some(before), keep_unread: true })
            });
        Ok(look)
    }
}

impl Look {
    fn take_in(&mut self, stored: &StoredBatch<'_>, open: Open<'_>, hash: &dyn Fn(&[u8]) -> KeyHash) {
        if stored.batch.records().is_ok() {
            self.newest.add(stored.base_offset, &stored.batch, stored.batch.records_bytes(), hash);
        } else if let Some(opened) = open(&stored.batch) {
            self.newest.add(stored.base_offset, &stored.batch, &opened, hash);
        } else {
            self.newest.skip();
        }
    }
}

impl<'a> StoredBatch<'a> {
    /// The batch that an entry holds, and of which partition; `None` of any other entry.
    pub fn of(entry: &Entry<'a>) -> Option<(TopicId, u32, StoredBatch<'a>)> {
        if entry.kind != BATCH_PRODUCED {
            return None;
        }
        let (topic, number) = partition_of(entry.tags.first()?)?;
        Some((topic, number, StoredBatch::new(entry)))
    }
}
