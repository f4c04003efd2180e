//! The state: live jobs, the catalogue of queues, the timers, the keys, the bulk changes.
//!
//! Invariants:
//! * `timers` holds the first due time of each queue that has one.
//! * A queue's indexes hold exactly its jobs.
//! * `extras` holds exactly the jobs that are marked so.
//! * `untold` holds exactly the queues with cleared jobs whose steps are not in the log yet.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;

use quire_model::{DottedNames, Timestamp};

use crate::JobId;
use crate::bulk::Bulks;
use crate::id::QueueId;
use crate::job::{Holder, Job, Key, Keys, RareFields, RetainedJobs, key_memory};
use crate::ordered::OrderedMap;
use crate::queue::{ChangeMark, Queue, Timers, group_memory};

/// Every queue and every live job.
///
/// Reads that need more than ids and times take the log's `History` as well.
#[derive(Debug, Default)]
pub struct Jobs {
    pub(crate) queues: BTreeMap<QueueId, Queue>,
    pub(crate) queue_ids: BTreeMap<Arc<str>, QueueId>,
    pub(crate) dotted: DottedNames,
    /// The number of queues that were ever created, which is the number of the next one.
    pub(crate) queues_created: u32,
    pub(crate) jobs: OrderedMap<JobId, Job>,
    pub(crate) extras: BTreeMap<JobId, RareFields>,
    pub(crate) keys: Keys,
    pub(crate) kept: RetainedJobs,
    pub(crate) timers: Timers,
    pub(crate) bulks: Bulks,
    pub(crate) untold: BTreeSet<QueueId>,
    pub(crate) idle: IdleQueues,
    /// The memory of the groups and dead jobs of all queues: the sum of [`Queue::memory`].
    pub(crate) queue_memory: u64,
}

/// The memory of an unfinished job: its facts, and its place in an index.
pub(crate) const JOB_BYTES: u64 = 96;

/// The memory of the [`RareFields`] of a job.
const RARE_BYTES: u64 = 208;

/// The memory of a finished job that is retained.
const RETAINED_BYTES: u64 = 32;

/// The memory of a new job. `group` is the name of its group if the group is new; `key` is the
/// length of its key.
pub(crate) fn new_job_memory(group: Option<&str>, has_rare_fields: bool, key: Option<usize>) -> u64 {
    let group = group.filter(|name| !name.is_empty()).map_or(0, |name| group_memory(name.len()));
    let rare = if has_rare_fields || key.is_some() { RARE_BYTES } else { 0 };
    JOB_BYTES + group + rare + key.map_or(0, key_memory)
}

/// The queues that became idle last. Of other idle queues, memory has only names and counts.
#[derive(Debug, Default)]
pub(crate) struct IdleQueues(VecDeque<QueueId>);

/// The number of idle queues in memory: their next job is expected soon.
const IDLE_MAX: usize = 64;

impl PartialEq for IdleQueues {
    /// They are no part of the state.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for IdleQueues {}

impl Jobs {
    /// The first due time of any job: a lease or a job expires, or a job may run. A
    /// `Command::Tick` is useful then. It is zero while a bulk change is running or cleared jobs
    /// wait for their steps. `None` when nothing is due.
    pub fn next_due(&self) -> Option<Timestamp> {
        if self.bulks.is_active() || !self.untold.is_empty() {
            return Some(Timestamp::ZERO);
        }
        self.timers.first().map(|((time, _), ())| *time)
    }

    /// Returns the memory of all jobs, in bytes: estimated by their number, and the lengths of the
    /// names of their groups and of their keys.
    pub fn memory_bytes(&self) -> u64 {
        let counted =
            [(self.jobs.len(), JOB_BYTES), (self.extras.len(), RARE_BYTES), (self.kept.len(), RETAINED_BYTES)];
        let counted: u64 = counted.into_iter().map(|(count, bytes)| count as u64 * bytes).sum();
        counted + self.queue_memory + self.keys.memory()
    }

    /// Returns the number of unfinished jobs.
    pub fn job_count(&self) -> usize {
        let cleared: usize = self.untold.iter().map(|queue| self.queue(*queue).untold_count()).sum();
        self.jobs.len() - cleared
    }

    /// The record of a job. One that was cancelled with its queue is cancelled, although its own
    /// record may be written later.
    pub(crate) fn known(&self, id: JobId) -> Option<Job> {
        let job = self.jobs.get(&id)?;
        Some(self.detached_at(job).map_or(*job, |at| job.cleared(at)))
    }

    /// When a clear took the job of this record, if it did and the record is as before.
    #[inline]
    pub(crate) fn detached_at(&self, job: &Job) -> Option<Timestamp> {
        if self.untold.is_empty() || job.state.is_finished() {
            return None;
        }
        self.queues.get(&job.queue)?.detached_at(job)
    }

    /// The job that has a key, as of the last entry.
    pub(crate) fn key_holder(&self, key: &Key) -> Option<Holder> {
        self.keys.holder(key).filter(|holder| self.keeps_key(holder))
    }

    /// Whether no clear took the job that has a key.
    pub(crate) fn keeps_key(&self, holder: &Holder) -> bool {
        self.untold.is_empty() || self.jobs.get(&holder.job).is_none_or(|job| self.detached_at(job).is_none())
    }

    pub(crate) fn queue(&self, id: QueueId) -> &Queue {
        self.queues.get(&id).expect("a named queue exists")
    }

    pub(crate) fn queue_mut(&mut self, id: QueueId) -> &mut Queue {
        self.queues.get_mut(&id).expect("a named queue exists")
    }

    /// Adds a queue, under its name unless it is destroyed.
    pub(crate) fn add_queue(&mut self, id: QueueId, queue: Queue) {
        if queue.destroyed_at.is_none() {
            self.queue_ids.insert(Arc::clone(&queue.name), id);
            self.dotted.add(&queue.name);
        }
        self.queues.insert(id, queue);
    }

    /// Removes a queue's remains when none of its cleared jobs waits for a step.
    pub(crate) fn settle_queue(&mut self, id: QueueId) {
        let Some(queue) = self.queues.get(&id).filter(|queue| queue.untold_count() == 0) else { return };
        let is_over = queue.destroyed_at.is_some() && queue.dead.is_empty();
        self.untold.remove(&id);
        if is_over && let Some(queue) = self.queues.remove(&id) {
            self.queue_memory -= queue.memory();
        }
    }

    /// Ends a change of a queue that began with [`Queue::begin_change`].
    pub(crate) fn end_change(&mut self, id: QueueId, before: ChangeMark) {
        let queue = self.queues.get_mut(&id).expect("a named queue exists");
        queue.end_change(id, before, &mut self.timers, &mut self.queue_memory);
        if queue.is_awake() && queue.live_count() == 0 {
            self.note_idle(id);
        }
    }

    /// Notes a queue without unfinished jobs, and removes another one from memory.
    fn note_idle(&mut self, id: QueueId) {
        if self.idle.0.contains(&id) {
            return;
        }
        self.idle.0.push_back(id);
        if self.idle.0.len() > IDLE_MAX
            && let Some(first) = self.idle.0.pop_front()
            && let Some(queue) = self.queues.get_mut(&first)
        {
            queue.sleep();
        }
    }

    pub(crate) fn extra(&self, id: JobId, job: &Job) -> Option<&RareFields> {
        if job.extra { self.extras.get(&id) } else { None }
    }
}
