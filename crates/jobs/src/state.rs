//! The state: live jobs, the catalogue of queues, the timers, the keys, the bulk changes.
//!
//! Invariants: `timers` holds, for each queue to which time will bring something, the time of the first such thing; a
//! queue's indexes hold exactly its jobs; `extras` holds exactly the jobs that say so; `untold` holds exactly the queues with
//! jobs that were cleared and are not told of.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{At, Denied, Effects, Entry, History, Model, ModelId, Timestamp};

use crate::bulk::Bulks;
use crate::job::{Extra, Job};
use crate::kept::Kept;
use crate::keys::Keys;
use crate::ordered::Ordered;
use crate::queue::{Due, Queue, QueueId, Timers};
use crate::{Command, JobId, Refusal, Reply, apply, checkpoint, decide};

/// Every queue and every live job.
///
/// Reads that need more than ids and times take the log's [`History`] as well.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Jobs {
    pub(crate) queues: BTreeMap<QueueId, Queue>,
    pub(crate) queue_ids: BTreeMap<Arc<str>, QueueId>,
    /// How many queues were ever created: the number of the next.
    pub(crate) queues_created: u32,
    pub(crate) jobs: Ordered<JobId, Job>,
    pub(crate) extras: BTreeMap<JobId, Extra>,
    pub(crate) keys: Keys,
    pub(crate) kept: Kept,
    pub(crate) timers: Timers,
    pub(crate) bulks: Bulks,
    pub(crate) untold: BTreeSet<QueueId>,
}

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum JobState {
    /// Its time to run has not come.
    Scheduled,
    /// It may be fetched.
    Pending,
    /// A worker holds it.
    Active,
    /// An attempt failed; it waits for the next.
    Retrying,
    /// Somebody holds it back.
    Held,
    /// Done.
    Completed,
    /// Called off.
    Cancelled,
    /// Given up.
    Dead,
}

impl JobState {
    /// All of them, in the order of a job's life.
    pub const ALL: [JobState; 8] = [
        JobState::Scheduled,
        JobState::Pending,
        JobState::Active,
        JobState::Retrying,
        JobState::Held,
        JobState::Completed,
        JobState::Cancelled,
        JobState::Dead,
    ];

    /// The name, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            JobState::Scheduled => "scheduled",
            JobState::Pending => "pending",
            JobState::Active => "active",
            JobState::Retrying => "retrying",
            JobState::Held => "held",
            JobState::Completed => "completed",
            JobState::Cancelled => "cancelled",
            JobState::Dead => "dead",
        }
    }

    /// The state of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        JobState::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Whether a job in this state is no longer to be worked on.
    pub const fn is_finished(self) -> bool {
        matches!(self, JobState::Completed | JobState::Cancelled | JobState::Dead)
    }

    pub(crate) fn from_number(number: u8) -> Option<Self> {
        JobState::ALL.get(usize::from(number)).copied()
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How many jobs of a queue are in which state, as of the last commit: what time has brought since is not taken in. Of the
/// finished ones, how many there were, but for those that were deleted or retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueStats {
    /// Their time to run has not come.
    pub scheduled: u64,
    /// May be fetched, as far as the queue's settings let them.
    pub pending: u64,
    /// Held by workers.
    pub active: u64,
    /// Waiting for their next attempt.
    pub retrying: u64,
    /// Held back.
    pub held: u64,
    /// Done.
    pub completed: u64,
    /// Called off.
    pub cancelled: u64,
    /// Given up.
    pub dead: u64,
}

impl QueueStats {
    /// How many are in this state.
    pub const fn of(&self, state: JobState) -> u64 {
        match state {
            JobState::Scheduled => self.scheduled,
            JobState::Pending => self.pending,
            JobState::Active => self.active,
            JobState::Retrying => self.retrying,
            JobState::Held => self.held,
            JobState::Completed => self.completed,
            JobState::Cancelled => self.cancelled,
            JobState::Dead => self.dead,
        }
    }
}

impl Jobs {
    /// The time of the first thing that time will bring (a lease runs out, a job may run, one expires): when
    /// [`Command::Tick`] is worth while; at once while a bulk change is under way, or jobs of a cleared queue are not told of. `None`
    /// when there is no such thing.
    pub fn next_due(&self) -> Option<Timestamp> {
        if self.bulks.is_active() || !self.untold.is_empty() {
            return Some(Timestamp::ZERO);
        }
        self.timers.first().map(|((time, _), ())| *time)
    }

    /// How many jobs are not finished.
    pub fn job_count(&self) -> usize {
        let cleared: usize = self.untold.iter().map(|queue| self.queue(*queue).cleared.len()).sum();
        self.jobs.len() - cleared
    }

    pub(crate) fn queue(&self, id: QueueId) -> &Queue {
        self.queues.get(&id).expect("a queue that is named is there")
    }

    pub(crate) fn queue_mut(&mut self, id: QueueId) -> &mut Queue {
        self.queues.get_mut(&id).expect("a queue that is named is there")
    }

    /// Adds a queue, under its name unless it is destroyed.
    pub(crate) fn add_queue(&mut self, id: QueueId, queue: Queue) {
        if queue.destroyed_at.is_none() {
            self.queue_ids.insert(Arc::clone(&queue.name), id);
        }
        self.queues.insert(id, queue);
    }

    /// Jobs of a queue are told of or gone: lets go of what was kept for them.
    pub(crate) fn settle_queue(&mut self, id: QueueId) {
        let Some(queue) = self.queues.get(&id).filter(|queue| queue.cleared.is_empty()) else { return };
        let is_over = queue.destroyed_at.is_some() && queue.dead.is_empty();
        self.untold.remove(&id);
        if is_over {
            self.queues.remove(&id);
        }
    }

    /// Ends a change of a queue that began with [`Queue::begin_change`].
    pub(crate) fn end_change(&mut self, id: QueueId, due: Due) {
        self.queues.get_mut(&id).expect("a queue that is named is there").end_change(id, due, &mut self.timers);
    }

    pub(crate) fn extra(&self, id: JobId, job: &Job) -> Option<&Extra> {
        if job.extra { self.extras.get(&id) } else { None }
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
