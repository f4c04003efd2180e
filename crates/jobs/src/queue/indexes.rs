//! One queue: the indexes its live jobs stand in, and what it remembers of the finished ones.
//!
//! Invariants:
//! * Each live job of the queue stands in exactly one of its group's `pending`, `delayed`, `leased`
//!   and `held`, under the key that the job gives.
//! * A job that can expire also stands in `expiring` while it is not active.
//! * A job that was cancelled with the queue stands in `cleared` until its step is in the log.
//!
//! The queue holds no job itself.
//!
//! A destroyed queue has lost its name. It stays while it has dead jobs, or cleared jobs without a
//! step.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use core::cmp::Reverse;

use quire_model::Timestamp;

use super::group::Groups;
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

/// The time of a queue's timer before the queue is changed.
#[derive(Debug, Clone, Copy, Default)]
#[must_use = "a change that is begun is ended"]
pub(crate) struct TimerMark(Option<Timestamp>);

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Queue {
    pub(crate) name: Arc<str>,
    pub(crate) settings: QueueSettings,
    /// The time of the last entry about the queue. Changes by time up to then are applied.
    pub(crate) time: Timestamp,
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
    /// When it was destroyed.
    pub(crate) destroyed_at: Option<Timestamp>,
    /// Older history may be deleted, because of a retention that the queue had before.
    pub(crate) gone_before: Timestamp,
    /// The number of jobs in each state. Finished states count all jobs that ever reached them.
    pub(crate) counts: [u64; JobState::ALL.len()],
}

impl Queue {
    pub(crate) fn new(name: &str) -> Self {
        Queue {
            name: Arc::from(name),
            settings: QueueSettings::default(),
            time: Timestamp::ZERO,
            groups: Groups::default(),
            meter: Meter::default(),
            delayed: JobsByTime::default(),
            leased: JobsByTime::default(),
            held: BTreeSet::new(),
            expiring: JobsByTime::default(),
            dead: BTreeSet::new(),
            cleared: JobsByTime::default(),
            destroyed_at: None,
            gone_before: Timestamp::ZERO,
            counts: [0; JobState::ALL.len()],
        }
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
            self.groups.thaw(&self.settings, now);
        }
    }

    /// Puts a job where it stands.
    pub(crate) fn insert(&mut self, id: JobId, job: &Job, expires_at: Option<Timestamp>) {
        self.counts[job.state as usize] += 1;
        let stood = match job.state {
            JobState::Pending => false,
            JobState::Scheduled | JobState::Retrying => !self.delayed.add((job.until(), id)),
            JobState::Active => !self.leased.add((job.until(), id)),
            JobState::Cancelled => !self.cleared.add((job.until(), id)),
            _ => !self.held.insert(id),
        };
        assert!(!stood, "job {id} stood in the index already");
        if job.state.is_finished() {
            return;
        }
        if let Some(time) = expires_at.filter(|_| job.state != JobState::Active) {
            self.expiring.add((time, id));
        }
        self.groups.change(job.group, &self.settings, self.time, |group| match job.state {
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
            self.groups.release(job.group, &self.settings, self.time);
        }
    }

    /// Puts a job from where it stood to where it stands.
    pub(crate) fn shift(&mut self, id: JobId, before: &Job, after: &Job, expires_at: Option<Timestamp>) {
        self.take_out(id, before, expires_at);
        self.insert(id, after, expires_at);
        if before.group != after.group {
            self.groups.release(before.group, &self.settings, self.time);
        }
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
        assert!(stood, "job {id} did not stand in the index of its state");
        if job.state.is_finished() {
            return;
        }
        if let Some(time) = expires_at.filter(|_| job.state != JobState::Active) {
            self.expiring.take(&(time, id));
        }
        self.groups.change(job.group, &self.settings, self.time, |group| match job.state {
            JobState::Pending => {
                assert!(group.pending.take(&(Reverse(job.priority), id)), "job {id} was not pending");
            }
            JobState::Active => group.active -= 1,
            _ => group.resting -= 1,
        });
    }

    /// Begins to apply an entry of this time.
    pub(crate) fn begin_change(&mut self, now: Timestamp) -> TimerMark {
        let due = TimerMark(self.next_due());
        self.pass(now);
        due
    }

    /// Ends an entry: each group gets its place, and the timer is set to the next due time.
    pub(crate) fn end_change(&mut self, id: QueueId, TimerMark(before): TimerMark, timers: &mut Timers) {
        self.groups.settle(&self.settings, self.time);
        let after = self.next_due();
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
        let (now, settings) = (self.time, &self.settings);
        if let Some(rate) = settings.rate {
            self.meter.start(rate, now);
        }
        let turn = self.groups.next_turn();
        self.groups.change(pending.group, settings, now, |group| {
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
        self.groups.resettle(&settings, self.time, fresh_meters);
    }

    /// The start of the history that still counts, by the queue's retention; `None` when it has
    /// none.
    fn told_from(&self) -> Option<Timestamp> {
        let kept = self.settings.retention_micros?;
        Some(Timestamp::from_micros(self.time.as_micros().saturating_sub(kept)))
    }

    /// The same; without a retention, as the database has it.
    pub(crate) fn history_from(&self, of_database: Timestamp) -> Timestamp {
        self.told_from().unwrap_or(of_database).max(self.gone_before)
    }

    /// A finished job is no longer.
    pub(crate) fn uncount(&mut self, id: JobId, state: JobState) {
        self.dead.remove(&id);
        let count = &mut self.counts[state as usize];
        *count = count.saturating_sub(1);
    }

    /// Why a job was cancelled that is `cleared`.
    pub(crate) fn why_cleared(&self, job: &Job) -> &'static str {
        let is_destroyed = self.destroyed_at.is_some_and(|time| time <= job.until());
        if is_destroyed { "the queue was destroyed" } else { "the queue was cleared" }
    }

    /// Every live job of the queue, in no useful order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = JobId> {
        let pending = self.groups.iter().flat_map(|(_, group)| group.pending.keys().map(|(_, id)| *id));
        let timed = self.delayed.keys().chain(self.leased.keys()).map(|(_, id)| *id);
        pending.chain(timed).chain(self.held.iter().copied())
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
