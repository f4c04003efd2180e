//! Converts the parts of a commit into commands. Payloads are borrowed.

use std::cell::OnceCell;

use quire::Part;
use quire::events::{self, EventPosition};
use quire::jobs::{self, JobId, Order};

use crate::error::ItemFault;
use crate::events::request as event;
use crate::graph::request as graph;
use crate::jobs::request::{LEASE_MICROS_DEFAULT, enqueue, report};
use crate::jobs::{change, queues};
use crate::proto::CommitPart;
use crate::proto::commit_part::{FetchPart, Kind};
use crate::streams::request as stream;

/// The lists that the command of a part borrows as slices of the database's own types.
#[derive(Debug, Default)]
pub(super) struct PartLists<'c> {
    words: Vec<&'c str>,
    jobs: Vec<JobId>,
    /// For an `each`: the lists of its commands, and then the commands, which borrow them.
    parts: Vec<PartLists<'c>>,
    commands: OnceCell<Vec<jobs::Command<'c>>>,
}

impl<'c> PartLists<'c> {
    /// Builds the lists of a part.
    ///
    /// # Errors
    /// When the id of a job is invalid.
    pub(super) fn of(part: &'c CommitPart) -> Result<Self, ItemFault> {
        let mut lists = PartLists::default();
        match &part.kind {
            Some(Kind::Enqueue(job)) => lists.words = job.tags.iter().map(String::as_str).collect(),
            Some(Kind::Fetch(fetch)) => lists.words = fetch.queues.iter().map(String::as_str).collect(),
            Some(Kind::Bulk(bulk)) => {
                lists.words = change::tags_of(bulk.filter.as_ref());
                lists.jobs = change::jobs_of(bulk.filter.as_ref())?;
            }
            Some(Kind::Graph(part)) => lists.words = part.command.as_ref().map(graph::tags).unwrap_or_default(),
            Some(Kind::Each(each)) => {
                lists.parts = each.parts.iter().map(PartLists::of).collect::<Result<_, _>>()?;
            }
            _ => {}
        }
        Ok(lists)
    }
}

/// The memory of parts besides their payloads: as messages, as lists, and as commands.
pub(super) fn lists_bytes(parts: &[CommitPart]) -> usize {
    let bytes = |part: &CommitPart| {
        let strings = match &part.kind {
            Some(Kind::Enqueue(job)) => job.tags.len(),
            Some(Kind::Fetch(fetch)) => fetch.queues.len(),
            Some(Kind::Each(each)) => return lists_bytes(&each.parts),
            _ => 0,
        };
        strings * (size_of::<String>() + size_of::<&str>())
    };
    let each = size_of::<CommitPart>() + size_of::<PartLists<'_>>() + size_of::<Part<'_>>();
    parts.len() * each + parts.iter().map(bytes).sum::<usize>()
}

/// Builds the part for the database.
///
/// # Errors
/// When the part has no kind, or an invalid field.
pub(super) fn part<'c>(part: &'c CommitPart, lists: &'c PartLists<'c>) -> Result<Part<'c>, ItemFault> {
    Ok(match part.kind.as_ref().ok_or_else(|| ItemFault::invalid("the part has no kind"))? {
        Kind::Append(append) => Part::Events(events::Command::Append(events::Append {
            store: &append.store,
            events: event::events(&append.events)?,
            conditions: event::conditions(&append.conditions)?,
        })),
        Kind::Upstream(upstream) => {
            let (store, source, position) = (&*upstream.store, &*upstream.source, upstream.position);
            Part::Events(events::Command::Upstream(events::Upstream { store, source, position }))
        }
        Kind::Forget(forget) => Part::Events(event::forget(forget)?),
        Kind::RetainEvents(retain) => {
            Part::Events(events::Command::SetRetention { store: &retain.store, retention_ms: retain.retention_ms })
        }
        Kind::PutSubscription(put) => Part::Events(events::Command::PutSubscription(event::subscription(
            &put.store,
            put.subscription.as_ref(),
            put.after,
        )?)),
        Kind::DropSubscription(drop) => Part::Events(events::Command::DropSubscription { name: &drop.name }),
        Kind::SaveProjection(save) => Part::Events(events::Command::SaveProjection(events::SaveProjection {
            store: &save.store,
            name: &save.name,
            version: save.version,
            base: EventPosition::new(save.base),
            position: EventPosition::new(save.position),
            state: &save.state,
        })),
        Kind::DropProjection(drop) => {
            Part::Events(events::Command::DropProjection { store: &drop.store, name: &drop.name })
        }

        Kind::Produce(produce) => {
            let record = produce.record.as_ref().ok_or_else(|| ItemFault::invalid("record is missing"))?;
            Part::Produce { topic: produce.topic.as_str().into(), message: stream::message(record)? }
        }
        Kind::CreateTopic(create) => Part::Streams(stream::create(create)?),
        Kind::DeleteTopic(delete) => Part::Streams(stream::delete(delete)),
        Kind::AlterTopic(alter) => Part::Streams(stream::alter(alter)?),
        Kind::DeleteRecords(delete) => Part::Streams(stream::delete_records(delete)),
        Kind::CommitOffset(commit) => Part::Streams(stream::commit_offset(commit)),
        Kind::DeleteOffset(delete) => Part::Streams(stream::delete_offset(delete)),
        Kind::DeleteGroup(delete) => Part::Streams(stream::delete_group(delete)),
        Kind::ProtectUnread(protect) => Part::Streams(stream::protect_unread(protect)),

        Kind::Each(each) => {
            let mut commands = Vec::with_capacity(each.parts.len());
            for (inner, lists) in each.parts.iter().zip(&lists.parts) {
                match self::part(inner, lists)? {
                    Part::Jobs(command) => commands.push(command),
                    _ => return Err(ItemFault::invalid("the parts of an `each` must be commands of queues")),
                }
            }
            Part::Jobs(jobs::Command::Each(lists.commands.get_or_init(|| commands)))
        }
        Kind::Enqueue(job) => Part::Jobs(enqueue(job, &lists.words)?),
        Kind::Fetch(fetch) => Part::Jobs(fetch_command(fetch, &lists.words)),
        Kind::Report(given) => Part::Jobs(report(given)?),
        Kind::Change(item) => Part::Jobs(change::command(item)?),
        Kind::SetQueue(set) => match queues::changes(set.settings.as_ref())[..] {
            [change] => Part::Jobs(jobs::Command::SetQueue { queue: &set.queue, change }),
            _ => return Err(ItemFault::invalid("give exactly one setting: use a part for each")),
        },
        Kind::Clear(clear) => Part::Jobs(jobs::Command::Clear { queue: &clear.queue }),
        Kind::Destroy(destroy) => Part::Jobs(jobs::Command::Destroy { queue: &destroy.queue }),
        Kind::Bulk(bulk) => Part::Jobs(change::bulk(bulk, &lists.words, &lists.jobs)?),
        Kind::Tick(_) => Part::Jobs(jobs::Command::Tick),

        Kind::Graph(part) => {
            let command = part.command.as_ref().ok_or_else(|| ItemFault::invalid("command is missing"))?;
            Part::Graph(graph::command(&part.graph, command, &lists.words)?)
        }
    })
}

fn fetch_command<'c>(fetch: &'c FetchPart, queues: &'c [&'c str]) -> jobs::Command<'c> {
    jobs::Command::Fetch {
        queues,
        order: if fetch.weights.is_empty() { Order::Strict } else { Order::Weighted(&fetch.weights) },
        count: fetch.count.unwrap_or(1),
        lease_micros: fetch.lease_us.unwrap_or(LEASE_MICROS_DEFAULT),
        worker: &fetch.worker,
    }
}
