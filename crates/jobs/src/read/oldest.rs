//! The pending job that has waited longest, for operators who look for queues without workers.

use core::cmp::Reverse;
use core::ops::Bound;

use quire_model::{History, Place, ReadError, Timestamp};

use super::logged::enqueued_at;
use crate::queue::QueueGroup;
use crate::{JobId, Jobs, Priority};

/// Most groups of a queue that are searched.
const GROUPS_MAX: usize = 256;

impl Jobs {
    /// The oldest pending job of a queue, among its first 256 groups; `None` without a pending job.
    pub fn oldest_pending(&self, queue: &str) -> Option<JobId> {
        let queue = self.queue(*self.queue_ids.get(queue)?);
        queue.groups.iter().take(GROUPS_MAX).filter_map(|(_, group)| oldest_of(group)).min()
    }

    /// The time from which a job could run, as it was enqueued; `None` when its entry was deleted.
    ///
    /// # Errors
    /// When the entry can't be read.
    pub fn runnable_since(&self, history: &dyn History, job: JobId) -> Result<Option<Timestamp>, ReadError> {
        let found = enqueued_at(history, job)?;
        Ok(found.map(|(entry, enqueued)| enqueued.run_at.map_or(entry.time, |run_at| run_at.max(entry.time))))
    }
}

/// The oldest pending job of a group: one look for each priority in use.
fn oldest_of(group: &QueueGroup) -> Option<JobId> {
    let (mut oldest, mut from) = (None, Bound::Unbounded);
    while let Some(((Reverse(priority), job), ())) = group.pending.entries_from(from).next() {
        oldest = Some(oldest.map_or(*job, |oldest: JobId| oldest.min(*job)));
        let Some(lower) = priority.get().checked_sub(1) else { break };
        from = Bound::Included((Reverse(Priority::new(lower)), JobId::new(Place::START)));
    }
    oldest
}
