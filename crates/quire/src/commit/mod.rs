//! A commit: a list of parts that are applied together.
//!
//! Each part owns its data or borrows it from the caller; nothing borrowed is copied before it
//! reaches the log. Building a commit checks nothing: the models check it when the database
//! decides.

mod handle;
mod message;
mod new_graph;
mod new_job;
mod part;
mod words;

use std::borrow::Cow;

use quire_model::CowBytes;

pub use handle::{EnqueueResult, PartHandle, TypedReply};
pub use message::Message;
pub use new_graph::{BlockKey, NewBlock, NewEdge};
pub use new_job::{NewJob, UniqueKey};
pub use part::Part;
pub(crate) use part::PartModel;
pub(crate) use words::TextList;

use crate::events::{Condition, NewEvent};
use crate::jobs::{JobId, LeaseToken, Retry};
use crate::time::IntoTimestamp;
use crate::{Sequence, Timestamp};

/// Parts that are applied together, or not at all. See the [crate's example](crate).
///
/// A part borrows or owns its data. A commit that borrows nothing is a `Commit<'static>`, which a
/// handler can return and a task can own:
///
/// ```
/// use quire::events::NewEvent;
/// use quire::{Commit, Message, NewJob};
///
/// fn order_placed(order: u32) -> Commit<'static> {
///     Commit::new()
///         .append("orders", [NewEvent::new("OrderPlaced").tag(format!("order:{order}"))])
///         .enqueue("mails", NewJob::new(format!("confirm order {order}")))
///         .produce("orders", Message::new(order.to_be_bytes()).key(format!("order:{order}")))
/// }
/// assert_eq!(order_placed(17).len(), 3);
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "a commit does nothing until it is given to a database"]
pub struct Commit<'c> {
    parts: Vec<Part<'c>>,
}

impl<'c> Commit<'c> {
    /// Returns a commit without parts.
    pub fn new() -> Self {
        Commit::default()
    }

    /// Adds a part, such as a command of a model.
    pub fn part(mut self, part: impl Into<Part<'c>>) -> Self {
        self.parts.push(part.into());
        self
    }

    /// Returns the number of parts.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// Returns whether the commit has no parts.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Appends events to an event store.
    pub fn append(self, store: impl Into<Cow<'c, str>>, events: impl IntoIterator<Item = NewEvent<'c>>) -> Self {
        self.append_if(store, events, [])
    }

    /// Appends events if every condition holds. Without events, the conditions guard the rest of
    /// the commit.
    pub fn append_if(
        self,
        store: impl Into<Cow<'c, str>>,
        events: impl IntoIterator<Item = NewEvent<'c>>,
        conditions: impl IntoIterator<Item = Condition<'c>>,
    ) -> Self {
        let (events, conditions) = (events.into_iter().collect(), conditions.into_iter().collect());
        self.part(Part::Append { store: store.into(), events, conditions })
    }

    /// Records how far an event store has read a source. The position only grows: see
    /// [`Upstream`](crate::events::Upstream).
    pub fn upstream(self, store: impl Into<Cow<'c, str>>, source: impl Into<Cow<'c, str>>, position: u64) -> Self {
        self.part(Part::Upstream { store: store.into(), source: source.into(), position })
    }

    /// Produces a message to a topic. A missing topic is created with one partition.
    pub fn produce(self, topic: impl Into<Cow<'c, str>>, message: Message<'c>) -> Self {
        self.part(Part::Produce { topic: topic.into(), message })
    }

    /// Commits the offset of the next record that a consumer group reads from a partition.
    pub fn commit_offset(
        self,
        group: impl Into<Cow<'c, str>>,
        topic: impl Into<Cow<'c, str>>,
        partition: u32,
        offset: Sequence,
    ) -> Self {
        self.part(Part::CommitOffset { group: group.into(), topic: topic.into(), partition, offset })
    }

    /// Enqueues a job. A missing queue is created.
    pub fn enqueue(self, queue: impl Into<Cow<'c, str>>, job: impl Into<NewJob<'c>>) -> Self {
        self.part(Part::Enqueue { queue: queue.into(), job: job.into() })
    }

    /// Completes a job with a result, which may be empty. A stale lease refuses the commit.
    pub fn ack(self, job: JobId, token: LeaseToken, result: impl Into<CowBytes<'c>>) -> Self {
        self.part(Part::Ack { job, token, result: result.into().into_cow() })
    }

    /// Ends an attempt at a job with an error. A stale lease refuses the commit.
    pub fn fail(self, job: JobId, token: LeaseToken, error: impl Into<Cow<'c, str>>, retry: Retry) -> Self {
        self.part(Part::Fail { job, token, error: error.into(), retry })
    }

    /// Returns a job to its queue until a time. The attempt does not count. A stale lease refuses
    /// the commit.
    pub fn snooze(self, job: JobId, token: LeaseToken, until: impl IntoTimestamp) -> Self {
        self.part(crate::jobs::Command::Snooze { job, token, until: until.into_timestamp() })
    }

    /// Puts a block into a graph. A missing graph is created.
    pub fn put_block(self, graph: impl Into<Cow<'c, str>>, block: impl Into<NewBlock<'c>>) -> Self {
        self.part(Part::PutBlock { graph: graph.into(), block: block.into() })
    }

    /// Deletes a block and its edges.
    pub fn delete_block(self, graph: impl Into<Cow<'c, str>>, block: impl Into<BlockKey<'c>>) -> Self {
        self.part(Part::DeleteBlock { graph: graph.into(), block: block.into() })
    }

    /// Puts an edge into a graph. A missing graph is created.
    pub fn put_edge(self, graph: impl Into<Cow<'c, str>>, edge: impl Into<NewEdge<'c>>) -> Self {
        self.part(Part::PutEdge { graph: graph.into(), edge: edge.into() })
    }

    /// Deletes an edge.
    pub fn delete_edge(
        self,
        graph: impl Into<Cow<'c, str>>,
        source: impl Into<BlockKey<'c>>,
        edge_type: impl Into<Cow<'c, str>>,
        target: impl Into<BlockKey<'c>>,
    ) -> Self {
        self.part(Part::DeleteEdge {
            graph: graph.into(),
            source: source.into(),
            edge_type: edge_type.into(),
            target: target.into(),
        })
    }

    pub(crate) fn parts(&self) -> &[Part<'c>] {
        &self.parts
    }
}

/// Returns a time as record batches have it: milliseconds since 1970.
pub(crate) fn batch_time_ms(time: Timestamp) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
