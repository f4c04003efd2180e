//! A partition to be read: of a topic, or the only one of an event store or a queue. All are read from the log alone.

use std::ops::ControlFlow;

use bytes::BytesMut;
use quire::streams::wire::{Batch, PREFIX_BYTES};
use quire::streams::{PartitionOffsets, StreamReadError, TimeOffset};
use quire::{History, Sequence, View, streams};

use crate::broker::LEADER_EPOCH;
use crate::errors::Failure;
use crate::event_topics::EventTopic;
use crate::job_topics::JobTopic;
use crate::topics::{Kind, Topic};

/// A partition that is there.
#[derive(Debug)]
pub(crate) enum Partition {
    Stream(streams::Partition),
    Events(EventTopic),
    Jobs(JobTopic),
}

/// How many bytes of batches a fetch may still take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub(crate) bytes_max: usize,
    /// Whether a first batch that is larger may be taken all the same, so that every reader gets on.
    pub(crate) or_one_batch: bool,
}

impl Room {
    /// Whether a batch of so many bytes fits behind so many.
    pub(crate) fn takes(self, taken: usize, bytes: usize) -> bool {
        taken.saturating_add(bytes) <= self.bytes_max || (taken == 0 && self.or_one_batch)
    }
}

impl Partition {
    /// Looks a partition of a topic up.
    ///
    /// # Errors
    /// When the topic has no such partition.
    pub(crate) fn of(view: &View<'_>, topic: &Topic, partition: i32) -> Result<Self, Failure> {
        let number = u32::try_from(partition).map_err(|_| Failure::unknown_partition(partition))?;
        match &topic.kind {
            Kind::Stream { id, .. } => Ok(Partition::Stream(view.streams.partition(*id, number)?)),
            Kind::Events { store, number: of } if number == 0 => {
                Ok(Partition::Events(EventTopic::of(view, store, *of)?))
            }
            Kind::Jobs { queue, .. } if number == 0 => Ok(Partition::Jobs(JobTopic::of(view, queue)?)),
            Kind::Events { .. } | Kind::Jobs { .. } => Err(Failure::unknown_partition(partition)),
        }
    }

    /// The bytes of the tag that it is changed under, which is another: records deleted, the topic deleted, events let go of. Of a
    /// queue nothing goes.
    pub(crate) fn changes_tag(&self) -> Option<Box<[u8]>> {
        match self {
            Partition::Stream(partition) => Some(partition.tag().topic().tag().as_bytes().into()),
            Partition::Events(topic) => Some(topic.changes_tag()),
            Partition::Jobs(_) => None,
        }
    }

    /// The bytes of the tag that it is written under.
    pub(crate) fn tag(&self) -> Option<Box<[u8]>> {
        match self {
            Partition::Stream(partition) => Some(partition.tag().tag().as_bytes().into()),
            Partition::Events(topic) => topic.tag(),
            Partition::Jobs(topic) => Some(topic.tag()),
        }
    }

    /// Where it begins and ends.
    pub(crate) fn offsets(&self, history: &dyn History) -> Result<PartitionOffsets, Failure> {
        match self {
            Partition::Stream(partition) => Ok(partition.offsets(history).map_err(StreamReadError::from)?),
            Partition::Events(topic) => Ok(topic.offsets(history)?),
            Partition::Jobs(topic) => topic.offsets(history),
        }
    }

    /// Where it begins, also when it can't be told where it ends.
    pub(crate) fn start(&self, history: &dyn History) -> Result<Sequence, Failure> {
        match self {
            Partition::Stream(partition) => Ok(partition.reach(history).map_err(StreamReadError::from)?.offsets.start),
            Partition::Events(_) | Partition::Jobs(_) => Ok(self.offsets(history)?.start),
        }
    }

    /// Copies the batches from the one that holds offset `from` on behind `out`, as long as there is room. Says where they end;
    /// `None` when there is none.
    ///
    /// # Errors
    /// When the offset is out of range, or the log can't be read.
    pub(crate) fn fetch(
        &self,
        history: &dyn History,
        from: Sequence,
        room: Room,
        out: &mut BytesMut,
    ) -> Result<Option<Sequence>, Failure> {
        let begin = out.len();
        match self {
            Partition::Stream(partition) => {
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
            Partition::Events(topic) => topic.fetch(history, from, room, out),
            Partition::Jobs(topic) => topic.fetch(history, from, room, out),
        }
    }

    /// Looks a partition of a topic up, to be searched for a time.
    ///
    /// # Errors
    /// When the topic has no such partition.
    pub(crate) fn from_time(
        view: &View<'_>,
        topic: &Topic,
        partition: i32,
        timestamp_ms: i64,
    ) -> Result<Self, Failure> {
        let number = u32::try_from(partition).map_err(|_| Failure::unknown_partition(partition))?;
        match &topic.kind {
            Kind::Stream { id, .. } => {
                Ok(Partition::Stream(view.streams.partition_from_time(*id, number, timestamp_ms)?))
            }
            Kind::Events { .. } | Kind::Jobs { .. } => Partition::of(view, topic, partition),
        }
    }

    /// The first record that is not earlier than this time; of a topic, in what was looked up for it.
    pub(crate) fn offset_at_time(
        &self,
        history: &dyn History,
        timestamp_ms: i64,
    ) -> Result<Option<TimeOffset>, Failure> {
        match self {
            Partition::Stream(partition) => {
                let mut open = |batch: &Batch<'_>, bytes_max| quire::open_batch_up_to(batch, bytes_max).ok();
                Ok(partition.offset_at_time(history, timestamp_ms, &mut open).map_err(StreamReadError::from)?)
            }
            Partition::Events(topic) => Ok(topic.offset_at_time(history, timestamp_ms)?),
            Partition::Jobs(topic) => topic.offset_at_time(history, timestamp_ms),
        }
    }

    /// The first record with the latest time; of a topic, with the help of where its batch begins.
    pub(crate) fn latest_record(
        &self,
        history: &dyn History,
        hint: Option<Sequence>,
    ) -> Result<Option<TimeOffset>, Failure> {
        match self {
            Partition::Stream(partition) => {
                let mut open = |batch: &Batch<'_>, bytes_max| quire::open_batch_up_to(batch, bytes_max).ok();
                Ok(partition.latest_record(history, hint, &mut open).map_err(StreamReadError::from)?)
            }
            Partition::Events(topic) => topic.latest_record(history),
            Partition::Jobs(topic) => topic.latest_record(history),
        }
    }
}

/// Adds a batch as it reads at its offset.
pub(crate) fn put(out: &mut BytesMut, batch: Batch<'_>, base_offset: Sequence) {
    out.extend_from_slice(&batch.prefix(base_offset, LEADER_EPOCH));
    out.extend_from_slice(&batch.bytes()[PREFIX_BYTES..]);
}
