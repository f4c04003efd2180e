//! The facts of an entry about its queue, for readers that show whole commits.

use alloc::vec::Vec;

use quire_model::{Entry, ReadError};

use crate::codec::{Effect, queue_of, unreadable};
use crate::id::QueueId;
use crate::{JobId, Jobs};

/// The most jobs that [`QueueEntry`] lists.
const JOBS_MAX: usize = 200;

/// An entry of the model. See [`Jobs::queue_entry`].
#[derive(Debug, Clone)]
pub struct QueueEntry<'s> {
    /// The name of the queue; `None` for a destroyed queue, and for an entry of several queues.
    pub queue: Option<&'s str>,
    /// The jobs that the entry adds or changes: the first 200.
    pub jobs: Vec<JobId>,
    /// The number of jobs that the entry adds or changes.
    pub job_count: usize,
}

impl Jobs {
    /// Returns the facts of an entry of this model.
    ///
    /// # Errors
    /// When a newer program wrote the entry.
    pub fn queue_entry(&self, entry: &Entry<'_>) -> Result<QueueEntry<'_>, ReadError> {
        let effect = Effect::read(entry)?;
        let (mut jobs, mut job_count) = (Vec::new(), 0);
        let mut add = |job: JobId| {
            job_count += 1;
            if jobs.len() < JOBS_MAX {
                jobs.push(job);
            }
        };
        let queue: Option<QueueId> = match effect {
            Effect::QueueCreated { queue, .. }
            | Effect::QueueSet { queue, .. }
            | Effect::QueueCleared { queue }
            | Effect::QueueDestroyed { queue } => Some(queue),
            Effect::Enqueued(enqueued) => {
                add(JobId::new(entry.place));
                Some(enqueued.queue)
            }
            Effect::Extended { jobs } => {
                jobs.into_iter().for_each(|(job, _)| add(job));
                None
            }
            Effect::Noted { job, .. } | Effect::KeyHeld { job, .. } | Effect::MovedOut { job, .. } => {
                add(job);
                queue_of(entry.tags)
            }
            Effect::Edited(edit) => {
                add(edit.job);
                queue_of(entry.tags)
            }
            Effect::Revived(revival) => {
                add(revival.job);
                queue_of(entry.tags)
            }
            Effect::BulkBegun(_) | Effect::BulkAdvanced(_) => None,
            Effect::Steps(steps) => {
                for step in steps.iter() {
                    add(step.map_err(|error| unreadable(entry.place, &error))?.job);
                }
                queue_of(entry.tags)
            }
        };
        let queue = queue.and_then(|queue| self.queues.get(&queue)).map(|queue| &*queue.name);
        Ok(QueueEntry { queue, jobs, job_count })
    }
}
