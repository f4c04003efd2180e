//! A readable partition: of a topic, or the only one of an event store or a queue. All are read
//! from the log alone.

use std::ops::ControlFlow;

use bytes::BytesMut;
use quire::streams::wire::{Batch, PREFIX_BYTES};
use quire::streams::{PartitionOffsets, StreamReadError, TimeOffset};
use quire::{History, ReadView, Sequence, streams};

use crate::broker::LEADER_EPOCH;
use crate::errors::KafkaError;
use crate::event_topics::EventTopic;
use crate::job_topics::JobTopic;
use crate::topics::{KafkaTopic, TopicKind};

/// An existing partition.
#[derive(Debug)]
pub(crate) enum ReadablePartition {
    Stream(streams::Partition),
    Events(EventTopic),
    Jobs(JobTopic),
}

/// How many bytes of batches a fetch may still return.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FetchSpace {
    pub(crate) bytes_max: usize,
    /// Whether a first batch may exceed the space, so that every reader makes progress.
    pub(crate) or_one_batch: bool,
}

impl FetchSpace {
    /// Whether a batch of `bytes` fits after `taken` bytes.
    pub(crate) fn takes(self, taken: usize, bytes: usize) -> bool {
        taken.saturating_add(bytes) <= self.bytes_max || (taken == 0 && self.or_one_batch)
    }
}

impl ReadablePartition {
    /// Finds a partition of a topic.
    ///
    /// # Errors
    /// When the topic has no such partition.
    pub(crate) fn of(view: &ReadView<'_>, topic: &KafkaTopic, partition: i32) -> Result<Self, KafkaError> {
        let number = u32::try_from(partition).map_err(|_| KafkaError::unknown_partition(partition))?;
        match &topic.kind {
            TopicKind::Stream { id, .. } => Ok(ReadablePartition::Stream(view.streams.partition(*id, number)?)),
            TopicKind::Events { store, number: of } if number == 0 => {
                Ok(ReadablePartition::Events(EventTopic::of(view, store, *of)?))
            }
            TopicKind::Jobs { queue, .. } if number == 0 => Ok(ReadablePartition::Jobs(JobTopic::of(view, queue)?)),
            TopicKind::Events { .. } | TopicKind::Jobs { .. } => Err(KafkaError::unknown_partition(partition)),
        }
    }

    /// The bytes of the tag under which the log records its changes: deleted records, a deleted
    /// topic, trimmed events. A queue has no such changes.
    pub(crate) fn changes_tag(&self) -> Option<Box<[u8]>> {
        match self {
            ReadablePartition::Stream(partition) => Some(partition.tag().topic().tag().as_bytes().into()),
            ReadablePartition::Events(topic) => Some(topic.changes_tag()),
            ReadablePartition::Jobs(_) => None,
        }
    }

    /// The bytes of the tag of its records.
    pub(crate) fn tag(&self) -> Option<Box<[u8]>> {
        match self {
            ReadablePartition::Stream(partition) => Some(partition.tag().tag().as_bytes().into()),
            ReadablePartition::Events(topic) => topic.tag(),
            ReadablePartition::Jobs(topic) => Some(topic.tag()),
        }
    }

    /// The first and next offsets.
    pub(crate) fn offsets(&self, history: &dyn History) -> Result<PartitionOffsets, KafkaError> {
        match self {
            ReadablePartition::Stream(partition) => Ok(partition.offsets(history).map_err(StreamReadError::from)?),
            ReadablePartition::Events(topic) => Ok(topic.offsets(history)?),
            ReadablePartition::Jobs(topic) => topic.offsets(history),
        }
    }

    /// The first offset, even when the end can't be read.
    pub(crate) fn start(&self, history: &dyn History) -> Result<Sequence, KafkaError> {
        match self {
            ReadablePartition::Stream(partition) => {
                Ok(partition.reach(history).map_err(StreamReadError::from)?.offsets.start)
            }
            ReadablePartition::Events(_) | ReadablePartition::Jobs(_) => Ok(self.offsets(history)?.start),
        }
    }

    /// Appends the batches from the one that contains offset `from` to `out`, up to the space.
    /// Returns the offset after them; `None` when there is none.
    ///
    /// # Errors
    /// When the offset is out of range, or the log can't be read.
    pub(crate) fn fetch(
        &self,
        history: &dyn History,
        from: Sequence,
        room: FetchSpace,
        out: &mut BytesMut,
    ) -> Result<Option<Sequence>, KafkaError> {
        let begin = out.len();
        match self {
            ReadablePartition::Stream(partition) => {
                let mut end = None;
                partition.fetch(history, from, room.bytes_max, &mut |stored| {
                    if !room.takes(out.len() - begin, stored.batch.bytes().len()) {
                        return ControlFlow::Break(());
                    }
                    put(out, stored.batch, stored.base_offset);
                    end = Some(stored.next_offset());
                    ControlFlow::Continue(())
                })?;
                Ok(end)
            }
            ReadablePartition::Events(topic) => topic.fetch(history, from, room, out),
            ReadablePartition::Jobs(topic) => topic.fetch(history, from, room, out),
        }
    }

    /// Finds a partition of a topic, for a search by time.
    ///
    /// # Errors
    /// When the topic has no such partition.
    pub(crate) fn from_time(
        view: &ReadView<'_>,
        topic: &KafkaTopic,
        partition: i32,
        timestamp_ms: i64,
    ) -> Result<Self, KafkaError> {
        let number = u32::try_from(partition).map_err(|_| KafkaError::unknown_partition(partition))?;
        match &topic.kind {
            TopicKind::Stream { id, .. } => {
                Ok(ReadablePartition::Stream(view.streams.partition_from_time(*id, number, timestamp_ms)?))
            }
            TopicKind::Events { .. } | TopicKind::Jobs { .. } => ReadablePartition::of(view, topic, partition),
        }
    }

    /// Returns the first record that is not earlier than this time. For a topic it reads the
    /// batches that the search found.
    pub(crate) fn offset_at_time(
        &self,
        history: &dyn History,
        timestamp_ms: i64,
    ) -> Result<Option<TimeOffset>, KafkaError> {
        match self {
            ReadablePartition::Stream(partition) => {
                let mut open = |batch: &Batch<'_>, bytes_max| quire::open_batch_up_to(batch, bytes_max).ok();
                Ok(partition.offset_at_time(history, timestamp_ms, &mut open).map_err(StreamReadError::from)?)
            }
            ReadablePartition::Events(topic) => Ok(topic.offset_at_time(history, timestamp_ms)?),
            ReadablePartition::Jobs(topic) => topic.offset_at_time(history, timestamp_ms),
        }
    }

    /// Returns the first record with the latest time. For a topic it uses the start of the record's
    /// batch.
    pub(crate) fn latest_record(
        &self,
        history: &dyn History,
        hint: Option<Sequence>,
    ) -> Result<Option<TimeOffset>, KafkaError> {
        match self {
            ReadablePartition::Stream(partition) => {
                let mut open = |batch: &Batch<'_>, bytes_max| quire::open_batch_up_to(batch, bytes_max).ok();
                Ok(partition.latest_record(history, hint, &mut open).map_err(StreamReadError::from)?)
            }
            ReadablePartition::Events(topic) => topic.latest_record(history),
            ReadablePartition::Jobs(topic) => topic.latest_record(history),
        }
    }
}

/// Appends a batch with its base offset set.
pub(crate) fn put(out: &mut BytesMut, batch: Batch<'_>, base_offset: Sequence) {
    out.extend_from_slice(&batch.prefix(base_offset, LEADER_EPOCH));
    out.extend_from_slice(&batch.bytes()[PREFIX_BYTES..]);
}
