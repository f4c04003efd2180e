//! Whether the state holds everything that an entry refers to: after records were lost, it may not.

use alloc::collections::BTreeMap;

use quire_model::Entry;

use crate::codec::{Effect, Steps, To, queue_of};
use crate::id::QueueId;
use crate::job::{Job, TransitionResult};
use crate::{Cause, JobId, JobState, Jobs};

/// The message for an entry that does not decode.
const UNREADABLE: &str = "this program can't read the entry";

impl Jobs {
    /// See [`Model::check_applicable`](quire_model::Model::check_applicable).
    pub(crate) fn applicable(&self, entry: &Entry<'_>) -> Result<(), &'static str> {
        let effect = Effect::of(entry).map_err(|_| UNREADABLE)?;
        match &effect {
            Effect::Steps(steps) => self.steps_applicable(steps, entry),
            Effect::Enqueued(enqueued) => self.has_queue(enqueued.queue),
            Effect::Extended { jobs } => jobs.iter().try_for_each(|(id, _)| self.is_live(*id).map(|_| ())),
            Effect::Noted { job, .. } => self.is_live(*job).map(|_| ()),
            Effect::Edited(edited) => {
                if self.is_live(edited.job)?.queue != edited.from {
                    return Err("the move of its job is lost");
                }
                self.has_queue(edited.final_facts.queue)
            }
            Effect::Revived(revived) => {
                if self.jobs.get(&revived.job).is_some() {
                    return Err("the end of its job is lost");
                }
                self.has_queue(revived.was_in).and_then(|()| self.has_queue(revived.final_facts.queue))
            }
            Effect::QueueCreated { queue, name } => {
                let is_new = queue.0 >= self.queues_created && !self.queue_ids.contains_key(*name);
                is_new.then_some(()).ok_or("a queue of this name or number exists")
            }
            Effect::QueueSet { queue, .. } | Effect::QueueCleared { queue } | Effect::QueueDestroyed { queue } => {
                self.has_queue(*queue)
            }
            Effect::BulkAdvanced(advanced) => {
                let bulk = self.bulks.get(advanced.bulk).filter(|bulk| !bulk.progress.done);
                bulk.map(|_| ()).ok_or("its bulk change is unknown")
            }
            Effect::MovedOut { .. } | Effect::KeyHeld { .. } | Effect::BulkBegun(_) => Ok(()),
        }
    }

    fn steps_applicable(&self, steps: &Steps<'_>, entry: &Entry<'_>) -> Result<(), &'static str> {
        let number = queue_of(entry.tags).ok_or(UNREADABLE)?;
        // An entry may have several steps of a job.
        let mut changed: BTreeMap<JobId, Option<Job>> = BTreeMap::new();
        for step in steps.iter() {
            let step = step.map_err(|_| UNREADABLE)?;
            let job = changed.get(&step.job).copied().unwrap_or_else(|| self.known(step.job));
            let Some(job) = job else {
                let state = if let [state] = step.detail { JobState::from_number(*state) } else { None };
                if matches!(step.to, To::Deleted(_)) && steps.cause == Cause::Deleted && state.is_some() {
                    continue;
                }
                return Err("its job is unknown");
            };
            if job.queue != number || job.last() != step.before || !self.queues.contains_key(&number) {
                return Err("a step of its job before is lost");
            }
            let after = job.stepped(steps.cause, &step.to, step.attempt, entry.place);
            let after = after.ok_or("a step of its job before is lost")?;
            changed.insert(step.job, if let TransitionResult::Live(job) = after { Some(job) } else { None });
        }
        Ok(())
    }

    fn is_live(&self, id: JobId) -> Result<&Job, &'static str> {
        self.jobs.get(&id).ok_or("its job is unknown")
    }

    fn has_queue(&self, queue: QueueId) -> Result<(), &'static str> {
        self.queues.contains_key(&queue).then_some(()).ok_or("its queue is unknown")
    }
}
