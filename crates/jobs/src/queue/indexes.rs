//! One queue: the indexes of its live jobs, and the facts that it remembers of finished ones.
//!
//! Invariants:
//! * Each live job of the queue stands in exactly one of its group's `pending`, `delayed`, `leased`
//!   and `held`, under the key that the job gives.
//! * A job that can expire also stands in `expiring` while it is not active.
//! * A job that was cancelled with the queue stands in `cleared` or in `detached` until its step is
//!   in the log.
//!
//! The queue holds no job itself.
//!
//! A destroyed queue has lost its name. It stays while it has dead jobs, or cleared jobs without a
//! step.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::mem;
use core::ops::{Deref, DerefMut};

use quire_model::{Place, Timestamp};

use super::detached::DetachedJobs;
use super::group::{Groups, IdleTurns};
use super::rate::Meter;
use super::stats::QueueStats;
use crate::id::QueueId;
use crate::job::Job;
use crate::ordered::{OrderedKey, OrderedMap};
use crate::{JobId, JobState, QueueSettings};

impl OrderedKey for (Timestamp, QueueId) {}

impl OrderedKey for (Timestamp, JobId) {}

/// Queues to which time will bring something, by when it brings the first thing.
pub(crate) type Timers = OrderedMap<(Timestamp, QueueId)>;

/// Jobs by when time brings something to them.
pub(crate) type JobsByTime = OrderedMap<(Timestamp, JobId)>;

/// The time of a queue's timer and the queue's memory, before the queue is changed.
#[derive(Debug, Clone, Copy, Default)]
#[must_use = "a begun change must be ended"]
pub(crate) struct ChangeMark {
    due: Option<Timestamp>,
    memory: u64,
}

/// The memory of a dead job: its id.
const DEAD_BYTES: u64 = 32;

/// A queue. Most of it, its [`QueueIndexes`], is in memory only while it holds something: an idle
/// queue takes some 150 bytes and its name.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) name: Arc<str>,
    /// The time of the last entry about the queue. Changes by time up to then are applied.
    pub(crate) time: Timestamp,
    /// When it was destroyed.
    pub(crate) destroyed_at: Option<Timestamp>,
    /// Older history may be deleted, because of a retention that the queue had before.
    pub(crate) gone_before: Timestamp,
    /// The number of live jobs by state, and the totals of finished jobs.
    pub(crate) counts: [u64; JobState::ALL.len()],
    indexes: Option<Box<QueueIndexes>>,
    /// The turns of the groups while `indexes` is `None`.
    turns: IdleTurns,
}

/// The indexes of a queue's live and dead jobs; see [`Queue`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct QueueIndexes {
    pub(crate) settings: QueueSettings,
    pub(crate) groups: Groups,
    pub(crate) meter: Meter,
    /// Scheduled and retrying jobs, by the time from which they may run.
    pub(crate) delayed: JobsByTime,
    /// Active jobs, by the time at which their lease runs out.
    pub(crate) leased: JobsByTime,
    pub(crate) held: BTreeSet<JobId>,
    /// Jobs that are not active, by their expiry.
    pub(crate) expiring: JobsByTime,
    /// The dead jobs. They are kept until a client retries or deletes them.
    pub(crate) dead: BTreeSet<JobId>,
    /// Jobs that were cancelled with the queue and have no step in the log yet, by the time of
    /// that.
    pub(crate) cleared: JobsByTime,
    /// The same, with the records that they had before. The first clear comes first.
    pub(crate) detached: Vec<DetachedJobs>,
}

/// Empty indexes, for an idle queue whose indexes are not in memory.
static NO_INDEXES: QueueIndexes = QueueIndexes::new(Groups::new());

impl QueueIndexes {
    const fn new(groups: Groups) -> Self {
        QueueIndexes {
            settings: QueueSettings::NONE,
            groups,
            meter: Meter::new(),
            delayed: JobsByTime::new(),
            leased: JobsByTime::new(),
            held: BTreeSet::new(),
            expiring: JobsByTime::new(),
            dead: BTreeSet::new(),
            cleared: JobsByTime::new(),
            detached: Vec::new(),
        }
    }

    /// The turns of the groups, if the indexes hold nothing else.
    fn idle(&self) -> Option<IdleTurns> {
        let indexes = [&self.delayed, &self.leased, &self.expiring, &self.cleared];
        let is_empty = self.held.is_empty() && self.dead.is_empty() && indexes.iter().all(|index| index.is_empty());
        let has_defaults = self.settings == QueueSettings::NONE && self.meter == Meter::new();
        self.groups.idle().filter(|_| is_empty && self.detached.is_empty() && has_defaults)
    }
}

impl Deref for Queue {
    type Target = QueueIndexes;

    #[inline]
    fn deref(&self) -> &QueueIndexes {
        self.indexes.as_deref().unwrap_or(&NO_INDEXES)
    }
}

impl DerefMut for Queue {
    #[inline]
    fn deref_mut(&mut self) -> &mut QueueIndexes {
        self.indexes.get_or_insert_with(|| Box::new(QueueIndexes::new(self.turns.groups())))
    }
}

impl PartialEq for Queue {
    /// Whether an idle queue has its indexes in memory makes no difference.
    fn eq(&self, other: &Self) -> bool {
        let facts =
            |queue: &Queue| (Arc::clone(&queue.name), queue.time, queue.destroyed_at, queue.gone_before, queue.counts);
        let indexes = match (self.idle(), other.idle()) {
            (None, None) => **self == **other,
            (one, another) => one == another,
        };
        indexes && facts(self) == facts(other)
    }
}

impl Eq for Queue {}

impl Queue {
    pub(crate) fn new(name: &str) -> Self {
        Queue {
            name: Arc::from(name),
            time: Timestamp::ZERO,
            destroyed_at: None,
            gone_before: Timestamp::ZERO,
            counts: [0; JobState::ALL.len()],
            indexes: None,
            turns: IdleTurns::NONE,
        }
    }

    /// The turns of a queue without live or dead jobs, settings, or starts that its rate counts.
    fn idle(&self) -> Option<IdleTurns> {
        self.indexes.as_ref().map_or(Some(self.turns), |indexes| indexes.idle())
    }

    /// Whether its indexes are in memory.
    pub(crate) fn is_awake(&self) -> bool {
        self.indexes.is_some()
    }

    /// Its indexes, loaded into memory.
    pub(crate) fn awake(&mut self) -> &mut QueueIndexes {
        self
    }

    /// Removes the indexes of an idle queue from memory. A change of the queue makes them again.
    pub(crate) fn sleep(&mut self) {
        if let Some(turns) = self.idle() {
            (self.indexes, self.turns) = (None, turns);
        }
    }

    /// The indexes of an idle queue, as they are in memory otherwise.
    pub(crate) fn idle_indexes(&self) -> Option<QueueIndexes> {
        self.indexes.is_none().then(|| QueueIndexes::new(self.turns.groups()))
    }

    /// Returns the number of unfinished jobs.
    pub(crate) fn live_count(&self) -> u64 {
        let live = JobState::ALL.iter().filter(|state| !state.is_finished());
        live.map(|state| self.counts[*state as usize]).sum()
    }

    /// Applies the passage of time that needs no entry: rates that allow starts again.
    fn pass(&mut self, now: Timestamp) {
        if now > self.time {
            self.time = now;
            if let Some(QueueIndexes { groups, settings, .. }) = self.indexes.as_deref_mut() {
                groups.thaw(settings, now);
            }
        }
    }

    /// Adds a job to the index of its state.
    pub(crate) fn insert(&mut self, id: JobId, job: &Job, expires_at: Option<Timestamp>) {
        self.counts[job.state as usize] += 1;
        let stood = match job.state {
            JobState::Pending => false,
            JobState::Scheduled | JobState::Retrying => !self.delayed.add((job.until(), id)),
            JobState::Active => !self.leased.add((job.until(), id)),
            JobState::Cancelled => !self.cleared.add((job.until(), id)),
            _ => !self.held.insert(id),
        };
        assert!(!stood, "job {id} is in the index already");
        if job.state.is_finished() {
            return;
        }
        if let Some(time) = expires_at.filter(|_| job.state != JobState::Active) {
            self.expiring.add((time, id));
        }
        let (now, QueueIndexes { groups, settings, .. }) = (self.time, &mut **self);
        groups.change(job.group, settings, now, |group| match job.state {
            JobState::Pending => {
                assert!(group.pending.add((Reverse(job.priority), id)), "job {id} was pending already");
            }
            JobState::Active => group.active += 1,
            _ => group.resting += 1,
        });
    }

    /// Takes a job away.
    pub(crate) fn remove(&mut self, id: JobId, job: &Job, expires_at: Option<Timestamp>) {
        self.take_out(id, job, expires_at);
        if !job.state.is_finished() {
            self.release_group(job.group);
        }
    }

    /// Moves a job from the index of its old state to that of its new state.
    pub(crate) fn shift(&mut self, id: JobId, before: &Job, after: &Job, expires_at: Option<Timestamp>) {
        self.take_out(id, before, expires_at);
        self.insert(id, after, expires_at);
        if before.group != after.group {
            self.release_group(before.group);
        }
    }

    fn release_group(&mut self, group: u32) {
        let (now, QueueIndexes { groups, settings, .. }) = (self.time, &mut **self);
        groups.release(group, settings, now);
    }

    fn take_out(&mut self, id: JobId, job: &Job, expires_at: Option<Timestamp>) {
        self.counts[job.state as usize] -= 1;
        let stood = match job.state {
            JobState::Pending => true,
            JobState::Scheduled | JobState::Retrying => self.delayed.take(&(job.until(), id)),
            JobState::Active => self.leased.take(&(job.until(), id)),
            JobState::Cancelled => self.cleared.take(&(job.until(), id)),
            _ => self.held.remove(&id),
        };
        assert!(stood, "job {id} is missing in the index of its state");
        if job.state.is_finished() {
            return;
        }
        if let Some(time) = expires_at.filter(|_| job.state != JobState::Active) {
            self.expiring.take(&(time, id));
        }
        let (now, QueueIndexes { groups, settings, .. }) = (self.time, &mut **self);
        groups.change(job.group, settings, now, |group| match job.state {
            JobState::Pending => {
                assert!(group.pending.take(&(Reverse(job.priority), id)), "job {id} was not pending");
            }
            JobState::Active => group.active -= 1,
            _ => group.resting -= 1,
        });
    }

    /// Returns the memory of the queue's named groups and dead jobs.
    pub(crate) fn memory(&self) -> u64 {
        self.indexes.as_ref().map_or(0, |indexes| indexes.groups.memory() + indexes.dead.len() as u64 * DEAD_BYTES)
    }

    /// Begins to apply an entry of this time.
    pub(crate) fn begin_change(&mut self, now: Timestamp) -> ChangeMark {
        let before = ChangeMark { due: self.next_due(), memory: self.memory() };
        self.pass(now);
        before
    }

    /// Ends an entry: each group gets its place, and the timer is set to the next due time. The
    /// change of the queue's memory is added to `memory`.
    pub(crate) fn end_change(&mut self, id: QueueId, before: ChangeMark, timers: &mut Timers, memory: &mut u64) {
        if let Some(QueueIndexes { groups, settings, .. }) = self.indexes.as_deref_mut() {
            groups.settle(settings, self.time);
        }
        *memory = *memory - before.memory + self.memory();
        let (before, after) = (before.due, self.next_due());
        if before != after {
            before.map(|time| timers.take(&(time, id)));
            after.map(|time| timers.add((time, id)));
        }
    }

    /// Notes that a pending job of a group starts. All indexes change in one step.
    pub(crate) fn start(&mut self, id: JobId, pending: &Job, active: &Job, expires_at: Option<Timestamp>) {
        self.counts[JobState::Pending as usize] -= 1;
        self.counts[JobState::Active as usize] += 1;
        assert!(self.leased.add((active.until(), id)), "job {id} was leased already");
        if let Some(time) = expires_at {
            self.expiring.take(&(time, id));
        }
        let (now, QueueIndexes { groups, settings, meter, .. }) = (self.time, &mut **self);
        if let Some(rate) = settings.rate {
            meter.start(rate, now);
        }
        let turn = groups.next_turn();
        groups.change(pending.group, settings, now, |group| {
            assert!(group.pending.take(&(Reverse(pending.priority), id)), "job {id} was not pending");
            group.active += 1;
            group.turn = turn;
            if let Some(rate) = settings.group_rate {
                group.meter.start(rate, now);
            }
        });
    }

    /// Puts other settings in place.
    pub(crate) fn set(&mut self, settings: QueueSettings) {
        if settings.rate != self.settings.rate {
            self.meter = Meter::default();
        }
        let fresh_meters = settings.group_rate != self.settings.group_rate;
        self.gone_before = self.gone_before.max(self.told_from().unwrap_or_default());
        self.settings = settings;
        let now = self.time;
        self.groups.resettle(&settings, now, fresh_meters);
    }

    /// The start of the history that still counts, by the queue's retention; `None` when it has
    /// none.
    fn told_from(&self) -> Option<Timestamp> {
        let kept = self.settings.retention_micros?;
        Some(Timestamp::from_micros(self.time.as_micros().saturating_sub(kept)))
    }

    /// The start of the history that still counts: by the queue's retention, or else `of_database`.
    pub(crate) fn history_from(&self, of_database: Timestamp) -> Timestamp {
        self.told_from().unwrap_or(of_database).max(self.gone_before)
    }

    /// Subtracts a removed finished job from the counts.
    pub(crate) fn uncount(&mut self, id: JobId, state: JobState) {
        if let Some(indexes) = &mut self.indexes {
            indexes.dead.remove(&id);
        }
        let count = &mut self.counts[state as usize];
        *count = count.saturating_sub(1);
    }

    /// Cancels the jobs that are not active, or all jobs of a queue that is destroyed, in one step
    /// whatever their number. Returns whether there were any.
    pub(crate) fn detach(&mut self, at: Timestamp, place: Place, is_destroyed: bool) -> bool {
        let is_taken = |state: &JobState| !state.is_finished() && (is_destroyed || *state != JobState::Active);
        let taken = JobState::ALL.into_iter().filter(is_taken);
        let count: u64 = taken.map(|state| mem::take(&mut self.counts[state as usize])).sum();
        if count == 0 {
            return false;
        }
        self.counts[JobState::Cancelled as usize] += count;
        let (now, QueueIndexes { groups, settings, delayed, leased, held, expiring, detached, .. }) =
            (self.time, &mut **self);
        *expiring = JobsByTime::new();
        detached.push(DetachedJobs {
            at,
            place,
            is_destroyed,
            count: count as usize,
            pending: groups.take_waiting(settings, now, is_destroyed),
            delayed: mem::take(delayed),
            leased: if is_destroyed { mem::take(leased) } else { JobsByTime::new() },
            held: mem::take(held),
        });
        true
    }

    /// When a clear took a job that has no step for it yet, by its record.
    pub(crate) fn detached_at(&self, job: &Job) -> Option<Timestamp> {
        self.detached.iter().find(|detached| detached.took(job)).map(|detached| detached.at)
    }

    /// Moves a detached job to the `cleared` ones.
    pub(crate) fn end_detached(&mut self, id: JobId, job: &Job) {
        let detached = &mut self.awake().detached;
        let index = detached.iter().position(|detached| detached.took(job)).expect("a clear took the job");
        let of_clear = &mut detached[index];
        of_clear.remove(id, job);
        let at = of_clear.at;
        if of_clear.count == 0 {
            detached.remove(index);
        }
        assert!(self.cleared.add((at, id)), "job {id} was cleared already");
    }

    /// The jobs that were cancelled with the queue and have no step yet.
    pub(crate) fn untold(&self) -> impl Iterator<Item = JobId> {
        let detached = self.detached.iter().flat_map(DetachedJobs::ids);
        self.cleared.keys().map(|(_, id)| *id).chain(detached)
    }

    /// Their number.
    pub(crate) fn untold_count(&self) -> usize {
        self.cleared.len() + self.detached.iter().map(|detached| detached.count).sum::<usize>()
    }

    /// Why a job was cancelled that is `cleared`.
    pub(crate) fn why_cleared(&self, job: &Job) -> &'static str {
        let is_destroyed = self.destroyed_at.is_some_and(|time| time <= job.until());
        if is_destroyed { "the queue was destroyed" } else { "the queue was cleared" }
    }

    pub(crate) fn stats(&self) -> QueueStats {
        let count = |state: JobState| self.counts[state as usize];
        QueueStats {
            scheduled: count(JobState::Scheduled),
            pending: count(JobState::Pending),
            active: count(JobState::Active),
            retrying: count(JobState::Retrying),
            held: count(JobState::Held),
            completed: count(JobState::Completed),
            cancelled: count(JobState::Cancelled),
            dead: count(JobState::Dead),
        }
    }

    /// The time of the first thing that time will bring.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        let first = |index: &JobsByTime| index.first().map_or(Timestamp::MAX, |((time, _), ())| *time);
        let next = first(&self.delayed).min(first(&self.leased)).min(first(&self.expiring));
        (next < Timestamp::MAX).then_some(next)
    }

    /// The jobs to which time has brought something: leases that ran out first, then jobs that
    /// expired, then those that may run, the longest due first.
    pub(crate) fn due(&self, now: Timestamp) -> impl Iterator<Item = JobId> {
        let up_to_now = move |(time, _): &&(Timestamp, JobId)| *time <= now;
        let over = self.leased.keys().take_while(up_to_now).chain(self.expiring.keys().take_while(up_to_now));
        over.chain(self.delayed.keys().take_while(up_to_now)).map(|(_, id)| *id)
    }
}
