//! A commit: the parts that are to happen together.
//!
//! It is a plain list that borrows what the parts carry. It checks nothing; the models decide.

use quire_streams::TopicRef;
use quire_streams::wire::{Batch, BatchBuilder, Header};

use crate::events::{Append, Condition, NewEvent};
use crate::graph::{BlockRef, DeleteBlock, DeleteEdge, PutBlock, PutEdge};
use crate::jobs::{JobId, LeaseToken, NewJob, Retry};
use crate::{Sequence, Timestamp, events, graph, jobs, streams};

/// The parts that are to happen together. See the [crate's example](crate).
#[derive(Debug, Default)]
#[must_use = "a commit does nothing until it is given to a database"]
pub struct Commit<'c> {
    parts: Vec<Part<'c>>,
}

/// A part of a commit.
#[derive(Debug)]
pub enum Part<'c> {
    /// A message for the partition that its key belongs to. A topic that is not there is created with one partition.
    Produce {
        /// The topic.
        topic: &'c str,
        /// The message.
        message: Message<'c>,
    },
    /// A command to a topic.
    Streams(streams::Command<'c>),
    /// A command to an event store.
    Events(events::Command<'c>),
    /// A command to a queue.
    Jobs(jobs::Command<'c>),
    /// A command to a graph.
    Graph(graph::Command<'c>),
}

impl<'c> Commit<'c> {
    /// No parts yet.
    pub fn new() -> Self {
        Commit::default()
    }

    /// Adds a part.
    pub fn part(mut self, part: Part<'c>) -> Self {
        self.parts.push(part);
        self
    }

    /// How many parts there are.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Appends events.
    pub fn append(self, store: &'c str, events: impl IntoIterator<Item = NewEvent<'c>>) -> Self {
        self.append_if(store, events, [])
    }

    /// Appends events under conditions; without events, the conditions guard the rest of the commit.
    pub fn append_if(
        self,
        store: &'c str,
        events: impl IntoIterator<Item = NewEvent<'c>>,
        conditions: impl IntoIterator<Item = Condition<'c>>,
    ) -> Self {
        let append =
            Append { store, events: events.into_iter().collect(), conditions: conditions.into_iter().collect() };
        self.part(Part::Events(events::Command::Append(append)))
    }

    /// Notes how far an event store has read a source, which grows only: see [`events::Upstream`].
    pub fn upstream(self, store: &'c str, source: &'c str, position: u64) -> Self {
        self.part(Part::Events(events::Command::Upstream(events::Upstream { store, source, position })))
    }

    /// Produces a message.
    pub fn produce(self, topic: &'c str, message: Message<'c>) -> Self {
        self.part(Part::Produce { topic, message })
    }

    /// Notes where a consumer group goes on in a partition.
    pub fn commit_offset(self, group: &'c str, topic: &'c str, partition: u32, offset: Sequence) -> Self {
        self.part(Part::Streams(streams::Command::CommitOffset {
            group,
            topic: TopicRef::Name(topic),
            partition,
            offset,
            leader_epoch: None,
            metadata: "",
            by: streams::Committer::Anyone,
        }))
    }

    /// Enqueues a job.
    pub fn enqueue(self, queue: &'c str, job: NewJob<'c>) -> Self {
        self.part(Part::Jobs(jobs::Command::Enqueue { queue, job }))
    }

    /// Completes a job, with its result.
    pub fn ack(self, job: JobId, token: LeaseToken, result: &'c [u8]) -> Self {
        self.part(Part::Jobs(jobs::Command::Ack { job, token, result }))
    }

    /// Ends an attempt at a job with an error.
    pub fn fail(self, job: JobId, token: LeaseToken, error: &'c str, retry: Retry) -> Self {
        self.part(Part::Jobs(jobs::Command::Fail { job, token, error, retry }))
    }

    /// Puts a block.
    pub fn put_block(self, block: PutBlock<'c>) -> Self {
        self.part(Part::Graph(graph::Command::PutBlock(block)))
    }

    /// Deletes a block and its edges.
    pub fn delete_block(self, graph: &'c str, block: impl Into<BlockRef<'c>>) -> Self {
        self.part(Part::Graph(graph::Command::DeleteBlock(DeleteBlock { graph, block: block.into() })))
    }

    /// Puts an edge.
    pub fn put_edge(self, edge: PutEdge<'c>) -> Self {
        self.part(Part::Graph(graph::Command::PutEdge(edge)))
    }

    /// Deletes an edge.
    pub fn delete_edge(
        self,
        graph: &'c str,
        source: impl Into<BlockRef<'c>>,
        edge_type: &'c str,
        target: impl Into<BlockRef<'c>>,
    ) -> Self {
        let edge = DeleteEdge { graph, source: source.into(), edge_type, target: target.into() };
        self.part(Part::Graph(graph::Command::DeleteEdge(edge)))
    }

    pub(crate) fn parts(&self) -> &[Part<'c>] {
        &self.parts
    }
}

/// A time as batches have it: milliseconds since 1970.
pub(crate) fn batch_time_ms(time: Timestamp) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// A message for a topic.
#[derive(Debug, Clone, Default)]
pub struct Message<'c> {
    pub(crate) key: Option<&'c [u8]>,
    pub(crate) value: Option<&'c [u8]>,
    pub(crate) headers: Vec<Header<'c>>,
    pub(crate) timestamp_ms: Option<i64>,
    pub(crate) partition: Option<u32>,
}

impl<'c> Message<'c> {
    /// A message with this value.
    pub fn new(value: &'c (impl AsRef<[u8]> + ?Sized)) -> Self {
        Message { value: Some(value.as_ref()), ..Message::default() }
    }

    /// A message without a value: what deletes a key from a compacted topic.
    pub fn tombstone() -> Self {
        Message::default()
    }

    /// Gives it a key. Messages of one key go to one partition, the one that Kafka's producers choose.
    #[must_use]
    pub fn key(mut self, key: &'c (impl AsRef<[u8]> + ?Sized)) -> Self {
        self.key = Some(key.as_ref());
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, key: &'c str, value: &'c (impl AsRef<[u8]> + ?Sized)) -> Self {
        self.headers.push(Header::new(key, value.as_ref()));
        self
    }

    /// Adds a header that has no value, which is not an empty one.
    #[must_use]
    pub fn header_without_value(mut self, key: &'c str) -> Self {
        self.headers.push(Header { key: key.as_bytes(), value: None });
        self
    }

    /// Sets its time, in milliseconds since 1970, instead of the time at which it is produced.
    #[must_use]
    pub fn timestamp_ms(mut self, timestamp_ms: i64) -> Self {
        self.timestamp_ms = Some(timestamp_ms);
        self
    }

    /// Sets its partition, instead of the one its key belongs to.
    #[must_use]
    pub fn partition(mut self, partition: u32) -> Self {
        self.partition = Some(partition);
        self
    }

    /// The command that produces it as a batch, and creates the topic with one partition when it is not there.
    pub(crate) fn command(&self, topic: TopicRef<'c>, batch: Batch<'c>) -> streams::Command<'c> {
        let create_partitions = Some(1);
        match (self.partition, self.key) {
            (None, Some(key)) => streams::Command::ProduceByKey { topic, key, batch, create_partitions },
            (partition, _) => {
                let partition = partition.unwrap_or(0);
                streams::Command::Produce { topic, partition, batch, create_partitions }
            }
        }
    }

    /// Adds it to a batch.
    #[inline]
    pub(crate) fn add_to(&self, batch: &mut BatchBuilder, now_ms: i64) -> crate::Result<()> {
        batch
            .add(self.key, self.value, &self.headers, self.timestamp_ms.unwrap_or(now_ms))
            .map_err(|error| crate::Error::new(crate::ErrorKind::Invalid, error.to_string()))
    }
}
