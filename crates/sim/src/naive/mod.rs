//! The four models as vectors and maps: the effects of a commit, or its refusal as a whole. It is
//! the oracle of a run.
//!
//! It follows the documentation of the models, not their code, and knows nothing of logs. Ids that
//! only the database assigns are numbers here; see [`Book`](crate::book::Book).

mod graph;
mod jobs;
mod keys;
mod members;
mod retention;
mod subscriptions;
mod take;

use std::collections::{BTreeMap, BTreeSet};

use crate::book;
use keys::AnsweredKey;

pub(crate) use graph::{Graph, NaiveEffect, NaiveGraphState};
pub(crate) use keys::{KEPT_MS, KEYS_MAX, NaiveKey, NaiveOutcome};
pub(crate) use members::{Member, Roster};
pub(crate) use retention::ExpiredCommit;
pub(crate) use subscriptions::Subscription;

/// A part of a commit. Stores, topics, queues, groups and blocks are named by small numbers. Each
/// `value` is unique. Times are in microseconds.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    Append {
        store: usize,
        tag: usize,
        events: usize,
        condition: Option<Condition>,
        value: u64,
    },
    /// One event with an id of the client's.
    AppendOnce {
        store: usize,
        tag: usize,
        id: u8,
        value: u64,
    },
    /// Trims events up to a position.
    Trim {
        store: usize,
        up_to: u64,
    },
    /// Erases events with a tag.
    Forget {
        store: usize,
        tag: usize,
    },
    /// Sets the retention of events.
    KeepEvents {
        store: usize,
        kept_ms: Option<u64>,
    },
    /// Creates a subscription that delivers events with a tag as jobs, from a position on, or from
    /// its current one.
    Subscribe {
        name: usize,
        store: usize,
        tag: usize,
        after: Option<u64>,
    },
    Unsubscribe {
        name: usize,
    },
    /// A delivery by the database itself: these events become jobs, and the subscription advances.
    Deliver {
        name: usize,
        positions: Vec<u64>,
        to: u64,
    },
    Produce {
        topic: usize,
        value: u64,
    },
    /// Creates a topic whose name is the topic name of another object.
    CreateRival {
        rival: Rival,
    },
    DeleteRival {
        rival: Rival,
    },
    /// Deletes messages before an offset, or only those that no group still has to read.
    DeleteRecords {
        topic: usize,
        before: Option<u64>,
        keep_unread: bool,
    },
    /// Sets the retention of messages in time.
    KeepMessages {
        topic: usize,
        kept_ms: Option<u64>,
    },
    /// Sets the retention of messages in bytes.
    KeepBytes {
        topic: usize,
        kept_bytes: Option<u64>,
    },
    /// Compacts the topic by key, from now on.
    CompactKeys {
        topic: usize,
    },
    /// Joins by a lease, and replaces a member of this name.
    Join {
        group: usize,
        topic: usize,
        name: Option<usize>,
        lease_ms: u32,
    },
    Renew {
        group: usize,
        topic: usize,
        member: u64,
    },
    Leave {
        group: usize,
        topic: usize,
        member: u64,
    },
    /// Keeps messages until a group has read them, or stops that.
    Protect {
        group: usize,
        topic: usize,
        protects: bool,
    },
    Offset {
        group: usize,
        topic: usize,
        offset: u64,
        /// The committing member, and the version of its assignment.
        by: Option<(u64, u64)>,
    },
    Enqueue {
        queue: usize,
        priority: u8,
        attempts_max: u16,
        run_at: Option<u64>,
        value: u64,
    },
    Fetch {
        queues: Vec<usize>,
        count: u32,
        lease_micros: u64,
    },
    Ack {
        job: usize,
        lease: u64,
    },
    Fail {
        job: usize,
        lease: u64,
        retry: Retry,
    },
    Heartbeat {
        job: usize,
        lease: u64,
        lease_micros: u64,
    },
    Snooze {
        job: usize,
        lease: u64,
        until: u64,
    },
    Cancel {
        job: usize,
    },
    /// A dead job gets all its attempts again.
    Revive {
        job: usize,
    },
    PutBlock {
        block: usize,
        must_be_new: bool,
        value: u64,
    },
    DeleteBlock {
        block: usize,
    },
    PutEdge {
        source: usize,
        target: usize,
    },
    DeleteEdge {
        source: usize,
        target: usize,
    },
    /// Sets how long, and how many versions of each block, a graph keeps its history.
    KeepGraph {
        kept_ms: Option<u64>,
        versions: u64,
    },
    /// Trims the history of a graph before a record.
    TrimGraph {
        from: u64,
    },
}

/// An object whose topic name another topic may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rival {
    Store(usize),
    /// A queue, or the subscription that will create it.
    Queue(usize),
}

/// The condition of an append on the events with a tag.
#[derive(Debug, Clone)]
pub(crate) enum Condition {
    NoneWith { tag: usize, after: u64 },
    LastIs { tag: usize, position: u64 },
}

/// The retry policy of failed attempts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Retry {
    At(u64),
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Scheduled { run_at: u64 },
    Pending,
    Active { lease: u64, deadline: u64 },
    Retrying { due: u64 },
    Completed,
    Dead,
    Cancelled,
}

/// The payload of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NaivePayload {
    Value(u64),
    /// The event that a subscription delivers with it.
    Event {
        store: usize,
        position: u64,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) queue: usize,
    pub(crate) priority: u8,
    pub(crate) attempt: u16,
    pub(crate) attempts_max: u16,
    pub(crate) carries: NaivePayload,
    pub(crate) phase: Phase,
    /// Whether a lease of it ran out.
    pub(crate) is_lost: bool,
}

/// The reply to an accepted part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NaiveReply {
    Appended {
        positions: Option<(u64, u64)>,
        duplicate: bool,
    },
    Produced(u64),
    /// The new start of the topic, or of the history of the graph.
    Starts(u64),
    Done,
    /// The id of the new member.
    Joined(u64),
    /// The number of the new job.
    Enqueued(usize),
    /// The numbers of the jobs and of their leases.
    Fetched(Vec<(usize, u64)>),
    /// Whether the block or edge existed before.
    Was(bool),
}

#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) tag: usize,
    pub(crate) id: Option<u8>,
    pub(crate) value: u64,
    /// Its record, and the record's time.
    record: u64,
    time: u64,
    /// Whether it is hidden from reads.
    pub(crate) gone: bool,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Store {
    pub(crate) events: Vec<Event>,
    /// Events up to here are trimmed.
    trimmed: u64,
    kept_ms: Option<u64>,
}

#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) value: u64,
    /// Its record.
    record: u64,
    time_ms: u64,
}

impl Message {
    pub(crate) fn key(&self) -> &'static str {
        book::key(self.value)
    }

    /// `None` for a deletion marker.
    pub(crate) fn text(&self) -> Option<String> {
        book::message(self.value)
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Topic {
    /// The number of earlier topics with the same name.
    number: usize,
    pub(crate) messages: Vec<Message>,
    /// The offset of the first existing one.
    pub(crate) start: u64,
    kept_ms: Option<u64>,
    pub(crate) kept_bytes: Option<u64>,
    /// Whether the topic compacts by key.
    pub(crate) compacts: bool,
    /// The groups whose unread messages stay.
    protected: BTreeSet<usize>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Naive {
    pub(crate) stores: BTreeMap<usize, Store>,
    pub(crate) topics: BTreeMap<usize, Topic>,
    pub(crate) offsets: BTreeMap<(usize, usize), u64>,
    /// Every consumer group that was ever used.
    pub(crate) groups: BTreeSet<usize>,
    /// By group and topic.
    pub(crate) rosters: BTreeMap<(usize, usize), Roster>,
    /// How many members joined.
    pub(crate) members: u64,
    pub(crate) subscriptions: BTreeMap<usize, Subscription>,
    /// The names of all subscriptions ever created.
    pub(crate) subscribed: BTreeSet<usize>,
    pub(crate) jobs: Vec<Job>,
    pub(crate) queues: BTreeSet<usize>,
    /// The objects whose topic name an existing topic has taken.
    pub(crate) rivals: BTreeSet<Rival>,
    /// How many leases were granted.
    pub(crate) leases: u64,
    pub(crate) graph: Graph,
    /// In the order of their records.
    pub(crate) keys: Vec<AnsweredKey>,
    /// How many records there are.
    pub(crate) records: u64,
    /// The time of the last record, in microseconds; a lower bound, if no client got the time of
    /// the commit.
    pub(crate) time: u64,
    pub(crate) is_time_known: bool,
    /// Whether finished jobs may be deleted.
    pub(crate) compacted: bool,
}

/// A commit in progress.
struct Draft {
    after: Naive,
    /// The number of its record.
    record: u64,
    now: u64,
    /// The clock of the committing process, which may be late.
    clock: u64,
    jobs_before: usize,
    changed_jobs: BTreeSet<usize>,
    /// How many events each store had before.
    events_before: BTreeMap<usize, u64>,
    /// Jobs that the commit itself made pending: it does not fetch them.
    made_pending: BTreeSet<usize>,
    /// Whether it writes anything.
    effects: bool,
    /// Whether it delivers: the moment depends on how much had to be read.
    delivers: bool,
}

impl Naive {
    /// Returns the replies in the order of the parts, and whether the commit got a position. If a
    /// part is refused, it returns the part's index, and nothing has changed.
    ///
    /// The models decide in a fixed order. So if several parts are invalid, the refusal of the
    /// first model counts.
    pub(crate) fn commit(&mut self, parts: &[Part], now: u64) -> Result<(Vec<NaiveReply>, bool), usize> {
        match self.commit_with_key(parts, None, now) {
            NaiveOutcome::Committed { answers, took_position } => Ok((answers, took_position)),
            NaiveOutcome::Refused { part } => Err(part),
            NaiveOutcome::Answered { .. } | NaiveOutcome::KeyReused { .. } => unreachable!("there is no key"),
        }
    }

    /// Applies due state changes; returns whether that took a position.
    pub(crate) fn tick(&mut self, now: u64) -> bool {
        let is_due = |job: &Job| match job.phase {
            Phase::Active { deadline: due, .. } | Phase::Scheduled { run_at: due } | Phase::Retrying { due } => {
                due <= now
            }
            Phase::Pending | Phase::Completed | Phase::Dead | Phase::Cancelled => false,
        };
        if !self.jobs.iter().any(is_due) {
            return false;
        }
        let mut draft = self.draft(now);
        for job in 0..draft.jobs_before {
            draft.settle(job);
        }
        self.adopt(draft)
    }

    fn draft(&self, clock: u64) -> Draft {
        let events_before = self.stores.iter().map(|(name, store)| (*name, store.events.len() as u64));
        Draft {
            after: self.clone(),
            record: self.records + 1,
            now: clock.max(self.time),
            clock,
            jobs_before: self.jobs.len(),
            changed_jobs: BTreeSet::new(),
            events_before: events_before.collect(),
            made_pending: BTreeSet::new(),
            effects: false,
            delivers: false,
        }
    }

    fn adopt(&mut self, draft: Draft) -> bool {
        if draft.effects {
            *self = Naive { time: draft.now, is_time_known: !draft.delivers, records: draft.record, ..draft.after };
        }
        draft.effects
    }
}

impl Draft {
    /// Takes all parts. Returns the answers in their order, or the index of the refused part.
    fn decide(&mut self, parts: &[Part]) -> Result<Vec<NaiveReply>, usize> {
        let mut answers = vec![NaiveReply::Done; parts.len()];
        for model in 0..4 {
            for (index, part) in parts.iter().enumerate().filter(|(_, part)| part.model() == model) {
                answers[index] = self.take(part).ok_or(index)?;
            }
        }
        Ok(answers)
    }
}

impl Part {
    /// The model of the part, in the order of their decisions.
    fn model(&self) -> usize {
        match self {
            Part::Produce { .. }
            | Part::CreateRival { .. }
            | Part::DeleteRival { .. }
            | Part::DeleteRecords { .. }
            | Part::KeepMessages { .. }
            | Part::KeepBytes { .. }
            | Part::CompactKeys { .. }
            | Part::Join { .. }
            | Part::Renew { .. }
            | Part::Leave { .. }
            | Part::Protect { .. }
            | Part::Offset { .. } => 0,
            Part::Append { .. }
            | Part::AppendOnce { .. }
            | Part::Trim { .. }
            | Part::Forget { .. }
            | Part::Subscribe { .. }
            | Part::Unsubscribe { .. }
            | Part::KeepEvents { .. } => 1,
            Part::Enqueue { .. }
            | Part::Deliver { .. }
            | Part::Fetch { .. }
            | Part::Ack { .. }
            | Part::Fail { .. }
            | Part::Heartbeat { .. }
            | Part::Snooze { .. }
            | Part::Cancel { .. }
            | Part::Revive { .. } => 2,
            Part::PutBlock { .. }
            | Part::DeleteBlock { .. }
            | Part::PutEdge { .. }
            | Part::DeleteEdge { .. }
            | Part::KeepGraph { .. }
            | Part::TrimGraph { .. } => 3,
        }
    }
}
