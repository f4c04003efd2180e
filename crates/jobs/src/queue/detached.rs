//! Jobs that were cancelled with their queue, all at once.
//!
//! A clear takes whole indexes out of the queue, so its time does not depend on how many jobs they
//! hold, only on the number of groups. The record of each job stays as it was. The job counts as
//! cancelled because it has not changed since: its last step is before the clear. Each job gets its
//! cancelled record with its step, a few jobs with each tick.
//!
//! A checkpoint has the cancelled records, so a state that was loaded has no detached jobs. The two
//! states are equal.

use alloc::collections::{BTreeMap, BTreeSet};
use core::cmp::Reverse;

use quire_model::{Place, Timestamp};

use super::group::PendingKey;
use super::indexes::JobsByTime;
use crate::job::Job;
use crate::ordered::OrderedMap;
use crate::{JobId, JobState};

/// The jobs of one clear that have no step yet. See the module.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DetachedJobs {
    /// The time and the place of the clear.
    pub(crate) at: Timestamp,
    pub(crate) place: Place,
    /// Whether the queue was destroyed: active jobs are cancelled as well.
    pub(crate) is_destroyed: bool,
    pub(crate) count: usize,
    /// The pending jobs by the numbers that their groups had.
    pub(crate) pending: BTreeMap<u32, OrderedMap<PendingKey>>,
    pub(crate) delayed: JobsByTime,
    pub(crate) leased: JobsByTime,
    pub(crate) held: BTreeSet<JobId>,
}

impl DetachedJobs {
    /// Whether an unfinished job of the queue, or one with this record, was cancelled by the clear.
    pub(crate) fn took(&self, job: &Job) -> bool {
        self.is_destroyed || job.state != JobState::Active && job.last() < self.place
    }

    /// Removes a job that the clear took.
    pub(crate) fn remove(&mut self, id: JobId, job: &Job) {
        let stood = match job.state {
            JobState::Pending => {
                let pending = self.pending.get_mut(&job.group).expect("the group of a detached job has jobs");
                let stood = pending.take(&(Reverse(job.priority), id));
                if pending.is_empty() {
                    self.pending.remove(&job.group);
                }
                stood
            }
            JobState::Scheduled | JobState::Retrying => self.delayed.take(&(job.until(), id)),
            JobState::Active => self.leased.take(&(job.until(), id)),
            _ => self.held.remove(&id),
        };
        assert!(stood, "job {id} is missing among the detached ones");
        self.count -= 1;
    }

    /// The jobs, in no useful order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = JobId> {
        let pending = self.pending.values().flat_map(|pending| pending.keys().map(|(_, id)| *id));
        let timed = self.delayed.keys().chain(self.leased.keys()).map(|(_, id)| *id);
        pending.chain(timed).chain(self.held.iter().copied())
    }
}
