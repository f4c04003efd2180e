//! What a group has committed in: looked up in the state, and how much of it is unread, by the log alone.

use quire_log::Reader;
use quire_model::Sequence;

use crate::error::Result;
use crate::events::{Events, StoreNumber};
use crate::jobs::{Jobs, QueueLog};
use crate::streams::{Partition, PartitionOffsets, Streams, TopicId};

/// The bit that tells the numbers of queues from those of event stores, where a group commits in what is no topic
/// ([`TopicRef::Outside`](crate::streams::TopicRef::Outside)).
pub const OUTSIDE_QUEUE: u32 = 1 << 30;

/// See the module.
#[derive(Debug)]
pub enum ReadBy {
    /// A partition of a topic.
    Partition(Partition),
    /// An event store, and the number behind its last event as the state has it.
    Store(StoreNumber, Sequence),
    /// What happens to the jobs of a queue.
    Queue(QueueLog),
}

impl ReadBy {
    /// What a group has committed in under this id; `None` when it is gone.
    pub fn find(streams: &Streams, events: &Events, jobs: &Jobs, topic: TopicId, partition: u32) -> Option<Self> {
        match topic.as_outside() {
            None => streams.partition(topic, partition).ok().map(ReadBy::Partition),
            Some(number) if number & OUTSIDE_QUEUE != 0 => {
                jobs.queue_log_numbered(number & !OUTSIDE_QUEUE).map(ReadBy::Queue)
            }
            Some(number) => {
                let store = StoreNumber::new(number);
                events.store_name(store)?;
                Some(ReadBy::Store(store, Sequence::new(events.last_appended(store).get() + 1)))
            }
        }
    }

    /// The first offset that is there, and the one that the next record gets. Of a store they may be told when what they were looked up in
    /// is published.
    ///
    /// # Errors
    /// When the log can't be read.
    pub fn bounds(&self, history: &Reader) -> Result<(Sequence, Sequence)> {
        match self {
            ReadBy::Partition(partition) => {
                let PartitionOffsets { start, next } = partition.offsets(history)?;
                Ok((start, next))
            }
            ReadBy::Store(_, next) => Ok((Sequence::new(1), *next)),
            ReadBy::Queue(queue) => Ok(queue.bounds(history)?),
        }
    }
}

/// How many records there are to read from an offset on, between the first that is there and the next to come.
pub fn unread(offset: Sequence, (start, next): (Sequence, Sequence)) -> u64 {
    next.get().saturating_sub(offset.max(start).get())
}
