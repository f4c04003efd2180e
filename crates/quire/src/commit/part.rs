//! A part of a commit: the everyday commands own or borrow their data; every other command of a
//! model is borrowed.

use std::borrow::Cow;

use quire_model::ModelId;

use super::{BlockKey, Message, NewBlock, NewEdge, NewJob};
use crate::events::{Condition, NewEvent};
use crate::jobs::{JobId, LeaseToken};
use crate::time::{DueTime, RetryTime};
use crate::{Sequence, events, graph, jobs, streams, system};

/// A part of a commit. The methods of [`Commit`](crate::Commit) add the common parts;
/// [`Commit::part`](crate::Commit::part) adds any.
#[derive(Debug, Clone)]
pub enum Part<'c> {
    /// Produces a message to the partition of its key. A missing topic is created with one
    /// partition.
    Produce {
        /// The topic.
        topic: Cow<'c, str>,
        /// The message.
        message: Message<'c>,
    },
    /// Commits the offset of a consumer group.
    CommitOffset {
        /// The group.
        group: Cow<'c, str>,
        /// The topic.
        topic: Cow<'c, str>,
        /// The partition, from 0.
        partition: u32,
        /// The offset of the next record to read.
        offset: Sequence,
    },
    /// Any other command to a topic.
    Streams(streams::Command<'c>),
    /// Appends events if every condition holds.
    Append {
        /// The event store.
        store: Cow<'c, str>,
        /// The events, in order.
        events: Vec<NewEvent<'c>>,
        /// The conditions, all of which must hold.
        conditions: Vec<Condition<'c>>,
    },
    /// Records how far an event store has read a source.
    Upstream {
        /// The event store.
        store: Cow<'c, str>,
        /// The name of the source.
        source: Cow<'c, str>,
        /// The position in the source; greater than the one before.
        position: u64,
    },
    /// Any other command to an event store.
    Events(events::Command<'c>),
    /// Enqueues a job.
    Enqueue {
        /// The queue.
        queue: Cow<'c, str>,
        /// The job.
        job: NewJob<'c>,
    },
    /// Completes a job.
    Ack {
        /// The job.
        job: JobId,
        /// The lease that the worker received with the job.
        token: LeaseToken,
        /// The result; may be empty.
        result: Cow<'c, [u8]>,
    },
    /// Ends an attempt at a job with an error.
    Fail {
        /// The job.
        job: JobId,
        /// The lease that the worker received with the job.
        token: LeaseToken,
        /// The error.
        error: Cow<'c, str>,
        /// When the job is tried again.
        retry: RetryTime,
    },
    /// Returns a job to its queue; the attempt does not count.
    Snooze {
        /// The job.
        job: JobId,
        /// The lease that the worker received with the job.
        token: LeaseToken,
        /// When the job may run again.
        until: DueTime,
    },
    /// Any other command to a queue.
    Jobs(jobs::Command<'c>),
    /// Puts a block.
    PutBlock {
        /// The graph.
        graph: Cow<'c, str>,
        /// The block.
        block: NewBlock<'c>,
    },
    /// Deletes a block and its edges.
    DeleteBlock {
        /// The graph.
        graph: Cow<'c, str>,
        /// The block.
        block: BlockKey<'c>,
    },
    /// Puts an edge.
    PutEdge {
        /// The graph.
        graph: Cow<'c, str>,
        /// The edge.
        edge: NewEdge<'c>,
    },
    /// Deletes an edge.
    DeleteEdge {
        /// The graph.
        graph: Cow<'c, str>,
        /// The block that the edge leaves.
        source: BlockKey<'c>,
        /// The type of the edge.
        edge_type: Cow<'c, str>,
        /// The block that the edge enters.
        target: BlockKey<'c>,
    },
    /// Any other command to a graph.
    Graph(graph::Command<'c>),
    /// A change of users, keys, roles or rules, with its audit event. A commit with such a part
    /// takes no idempotency key.
    System(system::Command<'c>),
}

/// The model that decides a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartModel {
    Streams,
    Events,
    Jobs,
    Graph,
    System,
}

impl PartModel {
    /// The model with this id.
    pub(crate) fn of(model: ModelId) -> Self {
        match model {
            ModelId::STREAMS => PartModel::Streams,
            ModelId::EVENTS => PartModel::Events,
            ModelId::JOBS => PartModel::Jobs,
            ModelId::GRAPH => PartModel::Graph,
            ModelId::SYSTEM => PartModel::System,
            other => unreachable!("no part of a commit belongs to model {}", other.get()),
        }
    }
}

impl Part<'_> {
    #[inline]
    pub(crate) fn model(&self) -> PartModel {
        match self {
            Part::Produce { .. } | Part::CommitOffset { .. } | Part::Streams(_) => PartModel::Streams,
            Part::Append { .. } | Part::Upstream { .. } | Part::Events(_) => PartModel::Events,
            Part::Enqueue { .. } | Part::Ack { .. } | Part::Fail { .. } | Part::Snooze { .. } | Part::Jobs(_) => {
                PartModel::Jobs
            }
            Part::PutBlock { .. }
            | Part::DeleteBlock { .. }
            | Part::PutEdge { .. }
            | Part::DeleteEdge { .. }
            | Part::Graph(_) => PartModel::Graph,
            Part::System(_) => PartModel::System,
        }
    }
}

impl<'c> From<streams::Command<'c>> for Part<'c> {
    fn from(command: streams::Command<'c>) -> Self {
        Part::Streams(command)
    }
}

impl<'c> From<events::Command<'c>> for Part<'c> {
    fn from(command: events::Command<'c>) -> Self {
        Part::Events(command)
    }
}

impl<'c> From<jobs::Command<'c>> for Part<'c> {
    fn from(command: jobs::Command<'c>) -> Self {
        Part::Jobs(command)
    }
}

impl<'c> From<graph::Command<'c>> for Part<'c> {
    fn from(command: graph::Command<'c>) -> Self {
        Part::Graph(command)
    }
}

impl<'c> From<system::Command<'c>> for Part<'c> {
    fn from(command: system::Command<'c>) -> Self {
        Part::System(command)
    }
}
