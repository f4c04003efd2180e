//! One queue: the indexes its live jobs stand in, and what it remembers of the finished ones.
//!
//! Invariant: each live job of the queue stands in exactly one of `pending`, `delayed` and `leased`, under the key that
//! its phase gives. The queue holds no job itself.

use alloc::collections::BTreeSet;
use alloc::string::String;
use core::cmp::Reverse;

use quire_model::Timestamp;

use crate::state::{Job, PendingKey, Phase};
use crate::{JobId, QueueStats};

/// The number of a queue in the catalogue, dense from 0 in the order of creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueueId(pub(crate) u32);

impl QueueId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Queue {
    pub(crate) name: String,
    /// Jobs that may be fetched, the next one first.
    pub(crate) pending: BTreeSet<PendingKey>,
    /// Scheduled and retrying jobs, by the time from which they may run.
    pub(crate) delayed: BTreeSet<(Timestamp, JobId)>,
    /// How many of `delayed` are scheduled; the others are retrying.
    pub(crate) scheduled: usize,
    /// Active jobs, by the time at which their lease runs out.
    pub(crate) leased: BTreeSet<(Timestamp, JobId)>,
    /// How many jobs were completed, ever.
    pub(crate) completed: u64,
    /// The dead jobs.
    pub(crate) dead: BTreeSet<JobId>,
}

impl Queue {
    pub(crate) fn new(name: String) -> Self {
        Queue {
            name,
            pending: BTreeSet::new(),
            delayed: BTreeSet::new(),
            scheduled: 0,
            leased: BTreeSet::new(),
            completed: 0,
            dead: BTreeSet::new(),
        }
    }

    /// Puts a job into the index of its phase.
    pub(crate) fn insert(&mut self, id: JobId, job: &Job) {
        let new = match job.phase {
            Phase::Pending => self.pending.insert((Reverse(job.priority), id)),
            Phase::Scheduled { run_at } => {
                self.scheduled += 1;
                self.delayed.insert((run_at, id))
            }
            Phase::Retrying { due } => self.delayed.insert((due, id)),
            Phase::Active { deadline, .. } => self.leased.insert((deadline, id)),
        };
        assert!(new, "job {id} stood in the index already");
    }

    /// Takes a job out of the index of its phase.
    pub(crate) fn remove(&mut self, id: JobId, job: &Job) {
        let was_there = match job.phase {
            Phase::Pending => self.pending.remove(&(Reverse(job.priority), id)),
            Phase::Scheduled { run_at } => {
                self.scheduled -= 1;
                self.delayed.remove(&(run_at, id))
            }
            Phase::Retrying { due } => self.delayed.remove(&(due, id)),
            Phase::Active { deadline, .. } => self.leased.remove(&(deadline, id)),
        };
        assert!(was_there, "job {id} did not stand in the index of its phase");
    }

    pub(crate) fn stats(&self) -> QueueStats {
        let scheduled = self.scheduled as u64;
        QueueStats {
            scheduled,
            pending: self.pending.len() as u64,
            active: self.leased.len() as u64,
            retrying: self.delayed.len() as u64 - scheduled,
            completed: self.completed,
            dead: self.dead.len() as u64,
        }
    }

    /// The time of the first thing that time will bring.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        let delayed = self.delayed.first().map(|(due, _)| *due);
        let leased = self.leased.first().map(|(deadline, _)| *deadline);
        match (delayed, leased) {
            (Some(delayed), Some(leased)) => Some(delayed.min(leased)),
            (delayed, leased) => delayed.or(leased),
        }
    }

    /// The jobs to which time has brought something: leases that ran out first, then jobs that may run, the longest
    /// due first.
    pub(crate) fn due(&self, now: Timestamp) -> impl Iterator<Item = JobId> {
        let up_to_now = move |(time, _): &&(Timestamp, JobId)| *time <= now;
        let expired = self.leased.iter().take_while(up_to_now);
        expired.chain(self.delayed.iter().take_while(up_to_now)).map(|(_, id)| *id)
    }
}
