//! The four models as vectors and maps: what a commit does to them, refused whole when a part is. The oracle of a run.
//!
//! It is written against the documentation of the models, not against their code, and knows nothing of logs. Ids that only
//! the database gives are known by numbers here; see [`Book`](crate::book::Book).

mod graph;
mod jobs;
mod members;
mod retention;
mod subscriptions;
mod take;

use std::collections::{BTreeMap, BTreeSet};

use crate::book;

pub(crate) use graph::{Changed, Graph, Known};
pub(crate) use members::{Member, Roster};
pub(crate) use retention::Goner;
pub(crate) use subscriptions::Subscription;

/// A part of a commit. Small numbers are names, for stores, topics, queues, groups and blocks alike. `value` is unlike any
/// other. Times are microseconds.
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
    /// Events up to a position go.
    Trim {
        store: usize,
        up_to: u64,
    },
    /// Events with a tag go.
    Forget {
        store: usize,
        tag: usize,
    },
    /// Events are kept for so long.
    KeepEvents {
        store: usize,
        kept_ms: Option<u64>,
    },
    /// Events with a tag are to be delivered as jobs, from behind a position on, or on from where it was.
    Subscribe {
        name: usize,
        store: usize,
        tag: usize,
        after: Option<u64>,
    },
    Unsubscribe {
        name: usize,
    },
    /// What nobody asks for: these events become jobs, and the subscription is moved behind them.
    Deliver {
        name: usize,
        positions: Vec<u64>,
        to: u64,
    },
    Produce {
        topic: usize,
        value: u64,
    },
    /// Messages before an offset go, or only those that no group is to read still.
    DeleteRecords {
        topic: usize,
        before: Option<u64>,
        keep_unread: bool,
    },
    /// Messages are kept for so long.
    KeepMessages {
        topic: usize,
        kept_ms: Option<u64>,
    },
    /// So many bytes of messages are kept at least.
    KeepBytes {
        topic: usize,
        kept_bytes: Option<u64>,
    },
    /// Messages go when their key has a newer one, from now on and for ever.
    CompactKeys {
        topic: usize,
    },
    /// Becomes a member by a lease, in the place of whoever has this name.
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
    /// What a group has not read is kept, or no longer.
    Protect {
        group: usize,
        topic: usize,
        protects: bool,
    },
    Offset {
        group: usize,
        topic: usize,
        offset: u64,
        /// The member by lease that commits it, and since when it reads.
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
    /// The past of the graph is kept for so long, and so many versions of each block.
    KeepGraph {
        kept_ms: Option<u64>,
        versions: u64,
    },
    /// The past of the graph before a record goes.
    TrimGraph {
        from: u64,
    },
}

/// What an append expects of the events with a tag.
#[derive(Debug, Clone)]
pub(crate) enum Condition {
    NoneWith { tag: usize, after: u64 },
    LastIs { tag: usize, position: u64 },
}

/// When a failed attempt is followed by another.
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

/// What stands in a job's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carries {
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
    pub(crate) carries: Carries,
    pub(crate) phase: Phase,
}

/// What an accepted part is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Appended {
        positions: Option<(u64, u64)>,
        duplicate: bool,
    },
    Produced(u64),
    /// Where the topic begins, or the history of the graph.
    Starts(u64),
    Done,
    /// The id of the new member.
    Joined(u64),
    /// The number of the new job.
    Enqueued(usize),
    /// The numbers of the jobs and of their leases.
    Fetched(Vec<(usize, u64)>),
    /// Whether the block or edge was there before.
    Was(bool),
}

#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) tag: usize,
    pub(crate) id: Option<u8>,
    pub(crate) value: u64,
    /// The record that it is in, and the time of that.
    record: u64,
    time: u64,
    /// Whether nobody sees it any more.
    pub(crate) gone: bool,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Store {
    pub(crate) events: Vec<Event>,
    /// Events up to here are gone.
    trimmed: u64,
    kept_ms: Option<u64>,
}

#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) value: u64,
    /// The record that it is in.
    record: u64,
    time_ms: u64,
}

impl Message {
    pub(crate) fn key(&self) -> &'static str {
        book::key(self.value)
    }

    /// `None` when it says that its key is gone.
    pub(crate) fn text(&self) -> Option<String> {
        book::message(self.value)
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Topic {
    /// How many there were before it.
    number: usize,
    pub(crate) messages: Vec<Message>,
    /// The offset of the first that is there.
    pub(crate) start: u64,
    kept_ms: Option<u64>,
    pub(crate) kept_bytes: Option<u64>,
    /// Whether messages go when their key has a newer one.
    pub(crate) compacts: bool,
    /// The groups whose unread messages stay.
    protected: BTreeSet<usize>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Naive {
    pub(crate) stores: BTreeMap<usize, Store>,
    pub(crate) topics: BTreeMap<usize, Topic>,
    pub(crate) offsets: BTreeMap<(usize, usize), u64>,
    /// Of which anything was ever noted.
    pub(crate) groups: BTreeSet<usize>,
    /// By group and topic.
    pub(crate) rosters: BTreeMap<(usize, usize), Roster>,
    /// How many became members.
    pub(crate) members: u64,
    pub(crate) subscriptions: BTreeMap<usize, Subscription>,
    /// Those that there ever were.
    pub(crate) subscribed: BTreeSet<usize>,
    pub(crate) jobs: Vec<Job>,
    pub(crate) queues: BTreeSet<usize>,
    /// How many leases were granted.
    pub(crate) leases: u64,
    pub(crate) graph: Graph,
    /// How many records there are.
    pub(crate) records: u64,
    /// The time of the last record, in microseconds; the earliest, where nobody was told when it was committed.
    pub(crate) time: u64,
    pub(crate) is_time_known: bool,
    /// Whether finished jobs may be gone.
    pub(crate) compacted: bool,
}

/// A commit in the making.
struct Draft {
    after: Naive,
    /// The number that its record gets.
    record: u64,
    now: u64,
    /// The clock of whoever commits, which may be behind.
    clock: u64,
    jobs_before: usize,
    changed_jobs: BTreeSet<usize>,
    /// How many events each store had before.
    events_before: BTreeMap<usize, u64>,
    /// Jobs that the commit itself made pending: it does not fetch them.
    made_pending: BTreeSet<usize>,
    /// Jobs that the commit itself made dead: it does not revive them.
    made_dead: BTreeSet<usize>,
    /// Whether anything is written.
    effects: bool,
    /// Whether it delivers: when, depends on what had to be read for it.
    delivers: bool,
}

impl Naive {
    /// The answers in the order of the parts, and whether the commit took a position; or the index of the part that is refused,
    /// and nothing has changed.
    ///
    /// The models decide one after the other, so of several parts that can't be, that of the first model is refused.
    pub(crate) fn commit(&mut self, parts: &[Part], now: u64) -> Result<(Vec<Answer>, bool), usize> {
        let mut draft = self.draft(now);
        let mut answers = vec![Answer::Done; parts.len()];
        for model in 0..4 {
            for (index, part) in parts.iter().enumerate().filter(|(_, part)| part.model() == model) {
                answers[index] = draft.take(part).ok_or(index)?;
            }
        }
        Ok((answers, self.adopt(draft)))
    }

    /// Takes in what time has brought, if it is time; says whether that took a position.
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
            made_dead: BTreeSet::new(),
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

impl Part {
    /// Which model's it is, in the order in which they decide.
    fn model(&self) -> usize {
        match self {
            Part::Produce { .. }
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
