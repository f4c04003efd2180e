//! The JSON form of a commit: `{"parts": [{"append": {...}}, {"enqueue": {...}}]}`, each part under
//! its command.
//!
//! The models check the content of a part; this module checks only its fields. An unknown field is
//! refused by name.

mod events;
mod graph;
mod jobs;
mod named;
mod one;
mod queues;
mod streams;

use std::cell::OnceCell;

use quire::{Part, Timestamp};
use serde::Deserialize;

use crate::body::Body;
use crate::error::Problem;
use crate::given::GivenField;

pub(crate) use events::{AppendRequest, QueryRequest};
pub(crate) use graph::BlockRequest;
pub(crate) use jobs::{Ack, Fail, Fetch, Heartbeat, OnJob, Snooze, count_default, lease_ms_default};
pub(crate) use named::{SavedProjectionRequest, SubscriptionRequest};
pub(crate) use queues::{BulkRequest, ChangeRequest, SettingRequest, SettingsChange};

/// A commit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommitRequest<'r> {
    #[serde(borrow)]
    pub(crate) parts: Vec<PartRequest<'r>>,
}

/// A part of a commit: one command of one model.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", remote = "Self")]
pub(crate) enum PartRequest<'r> {
    #[serde(borrow)]
    Append(events::Append<'r>),
    #[serde(borrow)]
    Upstream(events::Upstream<'r>),
    #[serde(borrow)]
    TrimEvents(named::TrimEvents<'r>),
    #[serde(borrow)]
    ForgetTag(named::ForgetTag<'r>),
    #[serde(borrow)]
    RetainEvents(named::RetainEvents<'r>),
    #[serde(borrow)]
    PutSubscription(Box<named::PutSubscription<'r>>),
    #[serde(borrow)]
    DropSubscription(named::DropSubscription<'r>),
    #[serde(borrow)]
    SaveProjection(Box<named::SaveProjection<'r>>),
    #[serde(borrow)]
    DropProjection(named::DropProjection<'r>),
    #[serde(borrow)]
    Produce(Box<streams::Produce<'r>>),
    #[serde(borrow)]
    CreateTopic(streams::CreateTopic<'r>),
    #[serde(borrow)]
    DeleteTopic(streams::DeleteTopic<'r>),
    #[serde(borrow)]
    AlterTopic(streams::AlterTopic<'r>),
    #[serde(borrow)]
    DeleteRecords(streams::DeleteRecords<'r>),
    #[serde(borrow)]
    CommitOffset(streams::CommitOffset<'r>),
    #[serde(borrow)]
    DeleteOffset(streams::DeleteOffset<'r>),
    #[serde(borrow)]
    DeleteGroup(streams::DeleteGroup<'r>),
    #[serde(borrow)]
    ProtectUnread(streams::ProtectUnread<'r>),
    #[serde(borrow)]
    Enqueue(Box<jobs::Enqueue<'r>>),
    #[serde(borrow)]
    Fetch(Fetch<'r>),
    #[serde(borrow)]
    Ack(Ack<'r>),
    #[serde(borrow)]
    Fail(Fail<'r>),
    Snooze(Snooze),
    #[serde(borrow)]
    Heartbeat(Box<Heartbeat<'r>>),
    #[serde(borrow)]
    Change(Box<queues::ChangeJob<'r>>),
    #[serde(borrow)]
    SetQueue(queues::SetQueue<'r>),
    #[serde(borrow)]
    Clear(queues::WholeQueue<'r>),
    #[serde(borrow)]
    Destroy(queues::WholeQueue<'r>),
    #[serde(borrow)]
    Bulk(Box<BulkRequest<'r>>),
    #[serde(borrow)]
    Each(Vec<PartRequest<'r>>),
    Tick(jobs::Tick),
    #[serde(borrow)]
    PutBlock(Box<graph::PutBlock<'r>>),
    #[serde(borrow)]
    DeleteBlock(graph::DeleteBlock<'r>),
    #[serde(borrow)]
    PutEdge(Box<graph::PutEdge<'r>>),
    #[serde(borrow)]
    DeleteEdge(graph::DeleteEdge<'r>),
    #[serde(borrow)]
    DeleteEdges(graph::DeleteEdges<'r>),
    #[serde(borrow)]
    RetainGraph(graph::RetainGraph<'r>),
    #[serde(borrow)]
    TrimGraph(graph::TrimGraph<'r>),
}

/// The lists that a part's command borrows as slices of the database's own types.
#[derive(Debug, Default)]
pub(crate) struct Slices<'c> {
    words: Vec<&'c str>,
    numbers: Vec<u64>,
    /// For an `each`: the lists of its commands, and then the commands, which borrow them.
    parts: Vec<Slices<'c>>,
    commands: OnceCell<Vec<quire::jobs::Command<'c>>>,
}

impl<'c> Slices<'c> {
    /// Builds the lists of a part.
    ///
    /// # Errors
    /// When a number exceeds its range.
    pub(crate) fn of(part: &'c PartRequest<'_>) -> Result<Self, Problem> {
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

impl<'r> PartRequest<'r> {
    /// The part `enqueue` of a body.
    ///
    /// # Errors
    /// When the body has other fields, or those of the path. So do the other parts.
    pub(crate) fn enqueue(queue: &'r str, body: &'r Body) -> Result<Self, Problem> {
        body.parse_with(&[GivenField::Name("queue", queue)]).map(PartRequest::Enqueue)
    }

    /// The part `produce` of a body.
    pub(crate) fn produce(topic: &'r str, body: &'r Body) -> Result<Self, Problem> {
        body.parse_with(&[GivenField::Name("topic", topic)]).map(PartRequest::Produce)
    }

    /// The part `create_topic` of a body.
    pub(crate) fn create_topic(body: &'r Body) -> Result<Self, Problem> {
        body.parse().map(PartRequest::CreateTopic)
    }

    /// The part `put_block` of a body. `block` is the field with the block.
    pub(crate) fn put_block(graph: &'r str, block: GivenField<'r>, body: &'r Body) -> Result<Self, Problem> {
        body.parse_with(&[GivenField::Name("graph", graph), block]).map(PartRequest::PutBlock)
    }
}

impl PartRequest<'_> {
    /// Builds the part for the database. Relative times count from `now`.
    ///
    /// # Errors
    /// When a value is given twice, or a condition is invalid.
    pub(crate) fn part<'c>(&'c self, slices: &'c Slices<'c>, now: Timestamp) -> Result<Part<'c>, Problem> {
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
) -> Result<quire::jobs::Command<'c>, Problem> {
    let mut commands = Vec::with_capacity(parts.len());
    for (part, slices) in parts.iter().zip(&slices.parts) {
        match part.part(slices, now)? {
            Part::Jobs(command) => commands.push(command),
            _ => return Err(Problem::invalid("the parts of an `each` must be commands of queues")),
        }
    }
    Ok(quire::jobs::Command::Each(slices.commands.get_or_init(|| commands)))
}
