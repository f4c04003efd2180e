//! The state: live jobs, the catalogue of queues, the timers.
//!
//! Invariants: `timers` holds, for each queue to which time will bring something, the time of the first such thing; a
//! queue's indexes hold exactly its live jobs. Payloads, kinds, tags, results and errors are not here but in the log.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{At, Denied, Effects, Entry, History, Model, ModelId, Timestamp};

use crate::queue::{Queue, QueueId};
use crate::{Backoff, Command, JobId, LeaseToken, Priority, Refusal, Reply, apply, checkpoint, decide};

/// Every queue and every live job.
///
/// Reads that need more than ids and times take the log's [`History`] as well.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Jobs {
    /// By [`QueueId`].
    pub(crate) queues: Vec<Queue>,
    pub(crate) queue_ids: BTreeMap<String, QueueId>,
    pub(crate) jobs: BTreeMap<JobId, Job>,
    pub(crate) timers: BTreeSet<(Timestamp, QueueId)>,
}

/// What scheduling needs of a live job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) queue: QueueId,
    pub(crate) priority: Priority,
    /// How many attempts have started.
    pub(crate) attempt: u16,
    pub(crate) attempts_max: u16,
    pub(crate) backoff: Backoff,
    pub(crate) phase: Phase,
}

/// The state of a live job, with the time that ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Scheduled { run_at: Timestamp },
    Pending,
    Active { token: LeaseToken, deadline: Timestamp },
    Retrying { due: Timestamp },
}

/// The order in which a queue's jobs are fetched.
pub(crate) type PendingKey = (Reverse<Priority>, JobId);

impl Job {
    pub(crate) fn state(&self) -> JobState {
        match self.phase {
            Phase::Scheduled { .. } => JobState::Scheduled,
            Phase::Pending => JobState::Pending,
            Phase::Active { .. } => JobState::Active,
            Phase::Retrying { .. } => JobState::Retrying,
        }
    }

    pub(crate) fn attempts_left(&self) -> bool {
        self.attempt < self.attempts_max
    }
}

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobState {
    /// Its time to run has not come.
    Scheduled,
    /// It may be fetched.
    Pending,
    /// A worker holds it.
    Active,
    /// An attempt failed; it waits for the next.
    Retrying,
    /// Done.
    Completed,
    /// Given up.
    Dead,
}

impl JobState {
    /// All of them, in the order of a job's life.
    pub const ALL: [JobState; 6] = [
        JobState::Scheduled,
        JobState::Pending,
        JobState::Active,
        JobState::Retrying,
        JobState::Completed,
        JobState::Dead,
    ];

    /// The name, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            JobState::Scheduled => "scheduled",
            JobState::Pending => "pending",
            JobState::Active => "active",
            JobState::Retrying => "retrying",
            JobState::Completed => "completed",
            JobState::Dead => "dead",
        }
    }

    /// The state of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        JobState::ALL.into_iter().find(|state| state.name() == name)
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How many jobs of a queue are in which state, as of the last commit: what time has brought since is not taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueStats {
    /// Their time to run has not come.
    pub scheduled: u64,
    /// May be fetched.
    pub pending: u64,
    /// Held by workers.
    pub active: u64,
    /// Waiting for their next attempt.
    pub retrying: u64,
    /// Done, ever.
    pub completed: u64,
    /// Given up.
    pub dead: u64,
}

impl Jobs {
    /// The time of the first thing that time will bring (a lease runs out, a job may run): when [`Command::Tick`] is
    /// worth while. `None` when there is no such thing.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.timers.first().map(|(time, _)| *time)
    }

    /// How many jobs are kept: those that are not finished, and those that are and kept still.
    pub fn job_count(&self) -> usize {
        self.jobs.len()
    }

    pub(crate) fn queue(&self, id: QueueId) -> &Queue {
        &self.queues[id.index()]
    }

    /// Changes a queue and its timer with it.
    pub(crate) fn with_queue(&mut self, id: QueueId, change: impl FnOnce(&mut Queue)) {
        let queue = &mut self.queues[id.index()];
        let before = queue.next_due();
        change(queue);
        let after = queue.next_due();
        if before != after {
            before.map(|time| self.timers.remove(&(time, id)));
            after.map(|time| self.timers.insert((time, id)));
        }
    }
}

impl Model for Jobs {
    const ID: ModelId = ModelId::JOBS;
    type Command<'c> = Command<'c>;
    type Reply = Reply;
    type Refusal = Refusal;

    fn decide(
        &self,
        history: &dyn History,
        at: At,
        commands: &[Command<'_>],
        effects: &mut dyn Effects,
        replies: &mut Vec<Reply>,
    ) -> Result<(), Denied<Refusal>> {
        decide::decide(self, history, at, commands, effects, replies)
    }

    fn apply(&mut self, entry: &Entry<'_>) {
        apply::apply(self, entry);
    }

    fn survives(&self, entry: &Entry<'_>, history_from: Timestamp) -> bool {
        self.still_counts(entry, history_from)
    }

    fn save(&self, out: &mut Encoder) {
        checkpoint::save(self, out);
    }

    fn load(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        checkpoint::load(from)
    }
}
