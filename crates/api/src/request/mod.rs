//! The JSON form of a commit: `{"parts": [{"append": {...}}, {"enqueue": {...}}]}`, each part under
//! its command.
//!
//! The models check the content of a part; this module checks only its fields. An unknown field is
//! refused by name.

/// Methods of a request that set one optional field each.
macro_rules! setters {
    ($($(#[$doc:meta])+ $field:ident: $argument:ty;)+) => {$(
        $(#[$doc])+
        #[must_use]
        pub fn $field(mut self, $field: $argument) -> Self {
            self.$field = Some($field.into());
            self
        }
    )+};
}

pub mod access;
mod events;
mod graph;
mod jobs;
mod named;
mod one;
mod queues;
mod streams;

use std::cell::OnceCell;

use quire::{Part, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Failure;

pub use crate::bytes::{Base64, JSON_DEPTH_MAX, ParsedText, TagRequest, Text, from_text, given, is_shallow};
pub use events::{
    AppendPart, AppendRequest, ConditionRequest, ItemRequest, NewEventRequest, QueryRequest, ReadRequest, UpstreamPart,
};
pub use graph::{
    BlockRequest, DeleteBlockPart, DeleteEdgePart, DeleteEdgesPart, PutBlockPart, PutEdgePart, RetainGraph, TrimGraph,
};
pub use jobs::{
    Ack, Enqueue, Fail, Fetch, FetchRequest, Heartbeat, OnJob, PriorityRequest, Snooze, Tick, count_default,
    lease_ms_default,
};
pub use named::{
    DropProjection, DropSubscription, ForgetTag, PutSubscriptionPart, RetainEvents, SaveProjectionPart,
    SavedProjectionRequest, SubscriptionRequest, TrimEvents,
};
pub use queues::{
    BulkRequest, ChangeJob, ChangeRequest, PayloadRequest, RateRequest, ReasonRequest, SetQueue, SettingRequest,
    SettingsChange, WholeQueue,
};
pub use streams::{
    AlterTopic, CommitOffset, CreateTopic, DeleteGroup, DeleteOffset, DeleteRecords, DeleteTopic, Produce,
    ProtectUnread,
};

/// A commit.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommitRequest<'r> {
    /// The parts, which happen together.
    #[serde(borrow, deserialize_with = "crate::meter::list")]
    pub parts: Vec<PartRequest<'r>>,
}

impl<'r> CommitRequest<'r> {
    /// A commit of this part.
    pub fn of(part: impl Into<PartRequest<'r>>) -> Self {
        CommitRequest { parts: vec![part.into()] }
    }

    /// Adds a part.
    #[must_use]
    pub fn and(mut self, part: impl Into<PartRequest<'r>>) -> Self {
        self.parts.push(part.into());
        self
    }
}

/// Parts from the requests that clients build.
macro_rules! parts {
    ($($variant:ident($command:ty) $($boxed:ident)?;)+) => {$(
        impl<'r> From<$command> for PartRequest<'r> {
            fn from(command: $command) -> Self {
                PartRequest::$variant($($boxed::new)?(command))
            }
        }
    )+};
}

parts! {
    Append(AppendPart<'r>);
    Produce(Produce<'r>) Box;
    CreateTopic(CreateTopic<'r>);
    CommitOffset(CommitOffset<'r>);
    Enqueue(Enqueue<'r>) Box;
    Fetch(Fetch<'r>);
    Ack(Ack<'r>);
    Fail(Fail<'r>);
    Snooze(Snooze);
    Heartbeat(Heartbeat<'r>) Box;
    PutBlock(PutBlockPart<'r>) Box;
    DeleteBlock(DeleteBlockPart<'r>);
    PutEdge(PutEdgePart<'r>) Box;
    DeleteEdge(DeleteEdgePart<'r>);
}

/// A part of a commit: one command of one model.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", remote = "Self")]
pub enum PartRequest<'r> {
    /// Appends events under conditions.
    #[serde(borrow)]
    Append(events::AppendPart<'r>),
    /// Records how far a store has read a source.
    #[serde(borrow)]
    Upstream(events::UpstreamPart<'r>),
    /// Deletes the events up to a position.
    #[serde(borrow)]
    TrimEvents(named::TrimEvents<'r>),
    /// Deletes the events with a tag.
    #[serde(borrow)]
    ForgetTag(named::ForgetTag<'r>),
    /// Sets how long events are kept.
    #[serde(borrow)]
    RetainEvents(named::RetainEvents<'r>),
    /// Creates or changes a named subscription.
    #[serde(borrow)]
    PutSubscription(Box<named::PutSubscriptionPart<'r>>),
    /// Deletes a named subscription.
    #[serde(borrow)]
    DropSubscription(named::DropSubscription<'r>),
    /// Saves the state of a projection.
    #[serde(borrow)]
    SaveProjection(Box<named::SaveProjectionPart<'r>>),
    /// Deletes a saved projection.
    #[serde(borrow)]
    DropProjection(named::DropProjection<'r>),
    /// Produces a message.
    #[serde(borrow)]
    Produce(Box<streams::Produce<'r>>),
    /// Creates a topic.
    #[serde(borrow)]
    CreateTopic(streams::CreateTopic<'r>),
    /// Deletes a topic.
    #[serde(borrow)]
    DeleteTopic(streams::DeleteTopic<'r>),
    /// Changes a topic.
    #[serde(borrow)]
    AlterTopic(streams::AlterTopic<'r>),
    /// Deletes the first records of a partition.
    #[serde(borrow)]
    DeleteRecords(streams::DeleteRecords<'r>),
    /// Commits an offset of a group.
    #[serde(borrow)]
    CommitOffset(streams::CommitOffset<'r>),
    /// Deletes an offset of a group.
    #[serde(borrow)]
    DeleteOffset(streams::DeleteOffset<'r>),
    /// Deletes a group.
    #[serde(borrow)]
    DeleteGroup(streams::DeleteGroup<'r>),
    /// Keeps records until a group has read them.
    #[serde(borrow)]
    ProtectUnread(streams::ProtectUnread<'r>),
    /// Enqueues a job.
    #[serde(borrow)]
    Enqueue(Box<jobs::Enqueue<'r>>),
    /// Leases jobs to a worker.
    #[serde(borrow)]
    Fetch(Fetch<'r>),
    /// Completes a job.
    #[serde(borrow)]
    Ack(Ack<'r>),
    /// Ends an attempt as failed.
    #[serde(borrow)]
    Fail(Fail<'r>),
    /// Returns a job to its queue for later.
    Snooze(Snooze),
    /// Extends the lease of a job.
    #[serde(borrow)]
    Heartbeat(Box<Heartbeat<'r>>),
    /// Changes a job.
    #[serde(borrow)]
    Change(Box<queues::ChangeJob<'r>>),
    /// Changes a setting of a queue.
    #[serde(borrow)]
    SetQueue(queues::SetQueue<'r>),
    /// Cancels the jobs that are not active.
    #[serde(borrow)]
    Clear(queues::WholeQueue<'r>),
    /// Removes a queue.
    #[serde(borrow)]
    Destroy(queues::WholeQueue<'r>),
    /// Starts a change of many jobs.
    #[serde(borrow)]
    Bulk(Box<BulkRequest<'r>>),
    /// Commands on jobs, each decided by itself.
    #[serde(borrow, deserialize_with = "crate::meter::list")]
    Each(Vec<PartRequest<'r>>),
    /// Applies due times.
    Tick(jobs::Tick),
    /// Puts a block.
    #[serde(borrow)]
    PutBlock(Box<graph::PutBlockPart<'r>>),
    /// Deletes a block and its edges.
    #[serde(borrow)]
    DeleteBlock(graph::DeleteBlockPart<'r>),
    /// Puts an edge.
    #[serde(borrow)]
    PutEdge(Box<graph::PutEdgePart<'r>>),
    /// Deletes an edge.
    #[serde(borrow)]
    DeleteEdge(graph::DeleteEdgePart<'r>),
    /// Deletes edges of a block.
    #[serde(borrow)]
    DeleteEdges(graph::DeleteEdgesPart<'r>),
    /// Sets how much history a graph keeps.
    #[serde(borrow)]
    RetainGraph(graph::RetainGraph<'r>),
    /// Trims the history of a graph.
    #[serde(borrow)]
    TrimGraph(graph::TrimGraph<'r>),
}

/// The lists that a part's command borrows as slices of the database's own types.
#[derive(Debug, Default)]
pub struct Slices<'c> {
    words: Vec<&'c str>,
    numbers: Vec<u64>,
    /// For an `each`: the lists of its commands, and then the commands, which borrow them.
    parts: Vec<Slices<'c>>,
    commands: OnceCell<Vec<quire::jobs::Command<'c>>>,
    /// The same with relative times from zero, for the fingerprint of the commit.
    commands_from_zero: OnceCell<Vec<quire::jobs::Command<'c>>>,
}

impl<'c> Slices<'c> {
    /// Builds the lists of a part.
    ///
    /// # Errors
    /// When a number exceeds its range.
    pub fn of(part: &'c PartRequest<'_>) -> Result<Self, Failure> {
        let words = match part {
            PartRequest::Enqueue(enqueue) => &enqueue.tags,
            PartRequest::Fetch(fetch) => &fetch.queues,
            PartRequest::PutBlock(put) => &put.tags,
            PartRequest::Bulk(bulk) => &bulk.filter.tags,
            PartRequest::Each(parts) => {
                let parts = parts.iter().map(Slices::of).collect::<Result<_, _>>()?;
                return Ok(Slices { parts, ..Slices::default() });
            }
            _ => return Ok(Slices::default()),
        };
        let numbers = if let PartRequest::Enqueue(enqueue) = part { enqueue.waits()? } else { Vec::new() };
        Ok(Slices { words: words.iter().map(|word| &**word).collect(), numbers, ..Slices::default() })
    }
}

impl PartRequest<'_> {
    /// Builds the part for the database. Relative times count from `now`.
    ///
    /// # Errors
    /// When a value is given twice, or a condition is invalid.
    pub fn part<'c>(&'c self, slices: &'c Slices<'c>, now: Timestamp) -> Result<Part<'c>, Failure> {
        Ok(match self {
            PartRequest::Append(append) => Part::Events(append.command()?),
            PartRequest::Upstream(upstream) => Part::Events(upstream.command()),
            PartRequest::TrimEvents(trim) => Part::Events(trim.command()),
            PartRequest::ForgetTag(forget) => Part::Events(forget.command()),
            PartRequest::RetainEvents(retain) => Part::Events(retain.command()),
            PartRequest::PutSubscription(put) => Part::Events(put.command()?),
            PartRequest::DropSubscription(drop) => Part::Events(drop.command()),
            PartRequest::SaveProjection(save) => Part::Events(save.command()?),
            PartRequest::DropProjection(drop) => Part::Events(drop.command()),
            PartRequest::Produce(produce) => produce.part()?,
            PartRequest::CreateTopic(create) => Part::Streams(create.command()),
            PartRequest::DeleteTopic(delete) => Part::Streams(delete.command()),
            PartRequest::AlterTopic(alter) => Part::Streams(alter.command()?),
            PartRequest::DeleteRecords(delete) => Part::Streams(delete.command()),
            PartRequest::CommitOffset(offset) => Part::Streams(offset.command()),
            PartRequest::DeleteOffset(delete) => Part::Streams(delete.command()),
            PartRequest::DeleteGroup(delete) => Part::Streams(delete.command()),
            PartRequest::ProtectUnread(protect) => Part::Streams(protect.command()),
            PartRequest::Enqueue(enqueue) => Part::Jobs(enqueue.command(&slices.words, &slices.numbers, now)?),
            PartRequest::Fetch(fetch) => Part::Jobs(fetch.command(&slices.words)?),
            PartRequest::Ack(ack) => Part::Jobs(ack.command()?),
            PartRequest::Fail(fail) => Part::Jobs(fail.command(now)?),
            PartRequest::Snooze(snooze) => Part::Jobs(snooze.command(now)?),
            PartRequest::Change(change) => Part::Jobs(change.command(now)?),
            PartRequest::SetQueue(set) => Part::Jobs(set.command()?),
            PartRequest::Clear(whole) => Part::Jobs(quire::jobs::Command::Clear { queue: &whole.queue }),
            PartRequest::Destroy(whole) => Part::Jobs(quire::jobs::Command::Destroy { queue: &whole.queue }),
            PartRequest::Bulk(bulk) => Part::Jobs(bulk.command(&slices.words, now)?),
            PartRequest::Each(parts) => Part::Jobs(each(parts, slices, now)?),
            PartRequest::Heartbeat(heartbeat) => Part::Jobs(heartbeat.command()?),
            PartRequest::Tick(jobs::Tick {}) => Part::Jobs(quire::jobs::Command::Tick),
            PartRequest::PutBlock(put) => Part::Graph(put.command(&slices.words)?),
            PartRequest::DeleteBlock(delete) => Part::Graph(delete.command()),
            PartRequest::PutEdge(put) => Part::Graph(put.command()?),
            PartRequest::DeleteEdge(delete) => Part::Graph(delete.command()),
            PartRequest::DeleteEdges(delete) => Part::Graph(delete.command()),
            PartRequest::RetainGraph(retain) => Part::Graph(retain.command()),
            PartRequest::TrimGraph(trim) => Part::Graph(trim.command()),
        })
    }
}

/// Commands of queues, each decided by itself.
fn each<'c>(
    parts: &'c [PartRequest<'_>],
    slices: &'c Slices<'c>,
    now: Timestamp,
) -> Result<quire::jobs::Command<'c>, Failure> {
    let mut commands = Vec::with_capacity(parts.len());
    for (part, slices) in parts.iter().zip(&slices.parts) {
        match part.part(slices, now)? {
            Part::Jobs(command) => commands.push(command),
            _ => return Err(Failure::invalid("the parts of an `each` must be commands of queues")),
        }
    }
    let made = if now == Timestamp::ZERO { &slices.commands_from_zero } else { &slices.commands };
    Ok(quire::jobs::Command::Each(made.get_or_init(|| commands)))
}
