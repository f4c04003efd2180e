//! The virtual logs in which a group commits offsets, and how much of them the group has not read.

use quire_log::Reader;
use quire_model::Sequence;

use crate::error::Result;
use crate::events::{Events, StoreNumber};
use crate::jobs::{Jobs, QueueLog};
use crate::streams::{Partition, PartitionOffsets, Streams, TopicId};

/// The bit that distinguishes the numbers of queues from those of event stores. A group uses such a
/// number to commit an offset outside of topics
/// ([`TopicRef::Outside`](crate::streams::TopicRef::Outside)).
pub const OUTSIDE_QUEUE: u32 = 1 << 30;

/// A virtual log in which a group commits.
#[derive(Debug)]
pub enum VirtualLog {
    /// A partition of a topic.
    Partition(Partition),
    /// An event store, and the number after its last event in the state.
    Store(StoreNumber, Sequence),
    /// The life-cycle events of a queue.
    Queue(QueueLog),
}

impl VirtualLog {
    /// The virtual log of an id under which a group commits; `None` if it was deleted.
    pub fn find(streams: &Streams, events: &Events, jobs: &Jobs, topic: TopicId, partition: u32) -> Option<Self> {
        match topic.as_outside() {
            None => streams.partition(topic, partition).ok().map(VirtualLog::Partition),
            Some(number) if number & OUTSIDE_QUEUE != 0 => {
                jobs.queue_log_numbered(number & !OUTSIDE_QUEUE).map(VirtualLog::Queue)
            }
            Some(number) => {
                let store = StoreNumber::new(number);
                events.store_name(store)?;
                Some(VirtualLog::Store(store, Sequence::new(events.last_appended(store).get() + 1)))
            }
        }
    }

    /// The first offset of the virtual log, and the offset of its next record. For an event store
    /// they rest on the state that they were found in: they may leave the database once it is
    /// published.
    ///
    /// # Errors
    /// When the log can't be read.
    pub fn bounds(&self, history: &Reader) -> Result<(Sequence, Sequence)> {
        match self {
            VirtualLog::Partition(partition) => {
                let PartitionOffsets { start, next } = partition.offsets(history)?;
                Ok((start, next))
            }
            VirtualLog::Store(_, next) => Ok((Sequence::new(1), *next)),
            VirtualLog::Queue(queue) => Ok(queue.bounds(history)?),
        }
    }
}

/// Number of records between an offset and the next record, without deleted ones.
pub fn unread(offset: Sequence, (start, next): (Sequence, Sequence)) -> u64 {
    next.get().saturating_sub(offset.max(start).get())
}
