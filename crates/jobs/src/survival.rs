//! The entries of jobs that still count: those of live and dead jobs, of jobs with a key, and of
//! finished jobs within their retention.
//!
//! Only a dead job can come back, so an entry that stopped counting never counts again.

use quire_model::{Entry, Timestamp};

use crate::codec::{ENQUEUED, Effect, queue_of};
use crate::{JobId, Jobs};

impl Jobs {
    pub(crate) fn still_counts(&self, entry: &Entry<'_>, history_from: Timestamp) -> bool {
        let queue = queue_of(entry.tags).and_then(|queue| self.queues.get(&queue));
        let is_young = entry.time >= queue.map_or(history_from, |queue| queue.history_from(history_from));
        if is_young && entry.kind.kind != ENQUEUED {
            return true;
        }
        let is_there = |id: JobId| {
            self.jobs.contains_key(&id)
                || self.keys.timed(id).is_some()
                || self.kept.contains(id)
                || self.queues.values().any(|queue| queue.dead.contains(&id))
        };
        match Effect::of(entry) {
            // An unreadable entry is kept, so that its reader reports the damage.
            Err(_) => true,
            // A job with its own retention was kept for exactly that time.
            Ok(Effect::Enqueued(enqueued)) => {
                is_young && enqueued.retention_micros.is_none() || is_there(JobId::new(entry.place))
            }
            Ok(Effect::Steps(steps)) => {
                steps.iter().any(|step| step.is_err() || step.is_ok_and(|step| is_there(step.job)))
            }
            Ok(Effect::Noted { job, .. } | Effect::MovedOut { job, .. }) => is_there(job),
            Ok(Effect::Edited(edited)) => is_there(edited.job),
            Ok(Effect::Revived(revived)) => is_there(revived.job),
            Ok(Effect::BulkBegun(_)) => self.bulks.get(entry.place).is_some_and(|bulk| !bulk.progress.done),
            // The state has the facts of these entries, and no reader reads them.
            Ok(Effect::Extended { .. } | Effect::KeyHeld { .. } | Effect::BulkAdvanced(_)) => false,
            Ok(
                Effect::QueueCreated { .. }
                | Effect::QueueSet { .. }
                | Effect::QueueCleared { .. }
                | Effect::QueueDestroyed { .. },
            ) => true,
        }
    }
}
