//! Entries into the state. Cheap and total: everything was decided.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use quire_model::Timestamp;

use crate::codec::{Effect, FinalFacts, JobEdit, JobEntry, JobRevival, Step, Steps, To, queue_of};
use crate::id::QueueId;
use crate::job::{Holder, Job, KeyEnd, Keys, RareFields, TransitionResult, key_end, key_in, key_of};
use crate::queue::Queue;
use crate::{Cause, JobId, JobState, Jobs};

/// Applies an entry.
///
/// # Panics
/// When the entry is not of this model, or contradicts the state: a broken invariant.
pub(crate) fn apply(state: &mut Jobs, entry: &quire_model::Entry<'_>) {
    let effect = Effect::of(entry).unwrap_or_else(|error| panic!("entry {} of the jobs model: {error}", entry.place));
    state.keys.pass(entry.time);
    state.kept.pass(entry.time);
    match &effect {
        Effect::Steps(steps) => state.steps(steps, entry),
        Effect::Enqueued(enqueued) => state.enqueued(enqueued, entry),
        Effect::Extended { jobs } => {
            for (id, deadline) in jobs {
                let mut after = state.live(*id);
                after.set_until(*deadline);
                state.replace(*id, after, entry.time, |_| ());
            }
        }
        Effect::Noted { job, progress, checkpoint } => {
            let after = state.live(*job);
            state.replace(*job, after, entry.time, |extra| {
                extra.progress = progress.map(|_| entry.place).or(extra.progress);
                extra.checkpoint = checkpoint.map(|_| entry.place).or(extra.checkpoint);
            });
        }
        Effect::Edited(edited) => state.edited(edited, entry),
        Effect::Revived(revived) => state.revived(revived, entry),
        Effect::QueueCreated { queue, name } => {
            // A salvaged log may lack the creation of a queue before this one.
            assert!(queue.0 >= state.queues_created, "queues are numbered in the order of creation");
            state.queues_created = queue.0 + 1;
            state.add_queue(*queue, Queue::new(name));
        }
        Effect::QueueSet { queue: number, settings } => {
            let queue = state.queue_mut(*number);
            let due = queue.begin_change(entry.time);
            queue.set(*settings);
            state.end_change(*number, due);
        }
        Effect::QueueCleared { queue } => state.clear(*queue, entry, false),
        Effect::QueueDestroyed { queue } => {
            state.clear(*queue, entry, true);
            let destroyed = state.queue_mut(*queue);
            destroyed.destroyed_at = Some(entry.time);
            let name = Arc::clone(&destroyed.name);
            state.queue_ids.remove(&name);
            state.dotted.remove(&name);
            state.settle_queue(*queue);
        }
        Effect::KeyHeld { job, scope, until, key } => {
            state.keys.take(key_in(*scope, key), Holder { job: *job, until: KeyEnd::At(*until) });
        }
        // The edit entry that follows has all facts of the job.
        Effect::MovedOut { .. } => {}
        Effect::BulkBegun(_) => state.bulks.begin(entry.place),
        Effect::BulkAdvanced(advanced) => state.bulks.advance(advanced),
    }
}

impl Jobs {
    fn live(&self, id: JobId) -> Job {
        *self.jobs.get(&id).unwrap_or_else(|| panic!("an entry is about job {id}, which is not live"))
    }

    fn enqueued(&mut self, enqueued: &JobEntry<'_>, entry: &quire_model::Entry<'_>) {
        let id = JobId::new(entry.place);
        let retention_micros = enqueued.retention_micros;
        let has_extra = enqueued.expires_at.is_some() || enqueued.unique.is_some() || retention_micros.is_some();
        if has_extra {
            let key = enqueued.unique.map(|unique| (key_of(&unique, enqueued.queue), unique.hold));
            if let Some((key, hold)) = &key {
                self.keys.take(key.clone(), Holder { job: id, until: key_end(*hold, entry.time) });
            }
            let key = key.map(|(key, _)| key.into());
            self.extras.insert(
                id,
                RareFields { expires_at: enqueued.expires_at, key, retention_micros, ..RareFields::default() },
            );
        }
        let queue = self.queues.get_mut(&enqueued.queue).expect("the queue of an enqueued job exists");
        let due = queue.begin_change(entry.time);
        let group = queue.groups.intern(enqueued.group);
        let mut job = Job::enqueued(id, enqueued.queue, group, enqueued.priority, enqueued.attempts_max);
        if let Some(run_at) = enqueued.run_at.filter(|run_at| *run_at > entry.time) {
            job.state = JobState::Scheduled;
            job.set_until(run_at);
        }
        job.extra = has_extra;
        queue.insert(id, &job, enqueued.expires_at);
        queue.end_change(enqueued.queue, due, &mut self.timers, &mut self.queue_memory);
        self.jobs.insert(id, job);
    }

    /// Applies steps of jobs of one queue. The queue may be deleted already when the steps delete
    /// finished jobs.
    fn steps(&mut self, steps: &Steps<'_>, entry: &quire_model::Entry<'_>) {
        let number = queue_of(entry.tags).expect("steps have the tag of their queue");
        let due = self.queues.get_mut(&number).map(|queue| queue.begin_change(entry.time));
        for step in steps.iter() {
            let step = step.unwrap_or_else(|error| panic!("entry {} of the jobs model: {error}", entry.place));
            self.step(number, steps.cause, &step, entry);
        }
        due.into_iter().for_each(|due| self.end_change(number, due));
        self.settle_queue(number);
    }

    fn step(&mut self, number: QueueId, cause: Cause, step: &Step<'_>, entry: &quire_model::Entry<'_>) {
        let id = step.job;
        if !self.untold.is_empty() {
            self.end_detached(id);
        }
        let queue = self.queues.get_mut(&number);
        let Some(slot) = self.jobs.get_mut(&id) else {
            finished_deleted(queue, cause, step);
            self.kept.remove(id);
            return self.keys.free_timed(id);
        };
        let queue = queue.expect("a live job's queue exists");
        let before = *slot;
        let standing = before.after(cause, &step.to, step.attempt, entry.place);
        let extra = if before.extra { self.extras.get(&id) } else { None };
        let expires_at = extra.and_then(|extra| extra.expires_at);
        let own_retention = extra.and_then(|extra| extra.retention_micros);
        match standing {
            TransitionResult::Live(after) => {
                match cause {
                    Cause::Leased => queue.start(id, &before, &after, expires_at),
                    _ => queue.shift(id, &before, &after, expires_at),
                }
                let run_until = if let To::Active { run_until, .. } = step.to { run_until } else { None };
                *slot = after;
                if before.extra || run_until.is_some() {
                    slot.extra = settle_extra(&mut self.extras, &mut self.keys, id, &step.to, run_until);
                }
            }
            TransitionResult::Finished(state) => {
                queue.remove(id, &before, expires_at);
                queue.counts[state as usize] += 1;
                if state == JobState::Dead {
                    queue.dead.insert(id);
                } else if let Some(micros) = own_retention.or(queue.settings.retention_micros) {
                    self.kept.keep(id, entry.time.plus_micros(micros));
                }
                self.jobs.remove(&id);
                self.forget(id, &before, state == JobState::Cancelled);
            }
            TransitionResult::Deleted => {
                queue.remove(id, &before, expires_at);
                self.jobs.remove(&id);
                self.forget(id, &before, true);
            }
        }
    }

    /// Removes the [`RareFields`] of a job that is no longer in the table. A cancelled or deleted
    /// job frees its key, even one that is held for a time.
    fn forget(&mut self, id: JobId, job: &Job, called_off: bool) {
        if !job.extra {
            return;
        }
        if let Some(RareFields { key: Some(key), .. }) = self.extras.remove(&id)
            && (called_off || self.keys.timed(id).is_none())
        {
            self.keys.free(&key, id);
        }
    }

    /// Puts another job under an id, and changes the rest of it.
    fn replace(&mut self, id: JobId, mut after: Job, now: Timestamp, change: impl FnOnce(&mut RareFields)) {
        let before = self.live(id);
        let extra = self.extras.entry(id).or_default();
        change(extra);
        after.extra = extra.is_some();
        let expires_at = extra.expires_at;
        if !after.extra {
            self.extras.remove(&id);
        }
        self.jobs.insert(id, after);
        let queue = self.queue_mut(before.queue);
        let due = queue.begin_change(now);
        if before.queue == after.queue {
            queue.shift(id, &before, &after, expires_at);
        } else {
            queue.remove(id, &before, expires_at);
            let queue = self.queue_mut(after.queue);
            let due = queue.begin_change(now);
            queue.insert(id, &after, expires_at);
            self.end_change(after.queue, due);
        }
        self.end_change(before.queue, due);
    }

    fn edited(&mut self, edited: &JobEdit<'_>, entry: &quire_model::Entry<'_>) {
        let mut after = self.live(edited.job);
        let FinalFacts { queue: number, priority, attempts_max, .. } = edited.final_facts;
        let queue = self.queue_mut(number);
        let due = queue.begin_change(entry.time);
        after.group = queue.groups.intern(edited.group);
        self.end_change(number, due);
        after.set_last_unless_active(entry.place);
        (after.queue, after.priority, after.attempts_max) = (number, priority, attempts_max);
        let content = edited.payload.map(|_| entry.place);
        let key = self.extra(edited.job, &after).and_then(|extra| extra.key.clone());
        let key = match key.as_deref() {
            Some(of_queue) if of_queue.queue.is_some() && edited.from != number => {
                self.keys.take_along(of_queue, edited.job, number).map(Box::new)
            }
            _ => key,
        };
        self.replace(edited.job, after, entry.time, |extra| {
            (extra.content, extra.key) = (content.or(extra.content), key);
        });
    }

    fn revived(&mut self, revived: &JobRevival<'_>, entry: &quire_model::Entry<'_>) {
        let JobRevival { job: id, final_facts, from, was_in, .. } = *revived;
        let before = self.queues.get_mut(&was_in).expect("a dead job's queue exists");
        let memory = before.memory();
        before.uncount(id, from);
        self.queue_memory = self.queue_memory - memory + before.memory();
        self.settle_queue(was_in);
        let queue = self.queue_mut(final_facts.queue);
        let due = queue.begin_change(entry.time);
        let group = queue.groups.intern(revived.group);
        let mut job = Job::enqueued(id, final_facts.queue, group, final_facts.priority, final_facts.attempts_max);
        job.set_last(entry.place);
        let content = if revived.payload.is_some() { entry.place } else { final_facts.content };
        let content = Some(content).filter(|content| *content != id.place());
        let key = match &revived.unique {
            Some(unique) => {
                let key = key_of(unique, final_facts.queue);
                self.keys.take(key.clone(), Holder { job: id, until: key_end(unique.hold, entry.time) });
                Some(key)
            }
            None => self.keys.timed(id).cloned(),
        };
        let FinalFacts { progress, checkpoint, .. } = final_facts;
        let (key, retention_micros) = (key.map(Box::new), revived.retention_micros);
        let extra = RareFields { content, progress, checkpoint, key, retention_micros, ..RareFields::default() };
        job.extra = extra.is_some();
        let queue = self.queue_mut(final_facts.queue);
        queue.insert(id, &job, None);
        self.jobs.insert(id, job);
        if job.extra {
            self.extras.insert(id, extra);
        }
        self.end_change(final_facts.queue, due);
    }

    /// Cancels the jobs of a queue that are not active; of a destroyed queue, all jobs. The step of
    /// each follows later.
    fn clear(&mut self, queue: QueueId, entry: &quire_model::Entry<'_>, is_destroyed: bool) {
        let due = self.queue_mut(queue).begin_change(entry.time);
        if self.queue_mut(queue).detach(entry.time, entry.place, is_destroyed) {
            self.untold.insert(queue);
        }
        self.end_change(queue, due);
    }

    /// Gives a job that a clear took its cancelled record. Does nothing to other jobs.
    fn end_detached(&mut self, id: JobId) {
        let Some((job, at)) = self.jobs.get(&id).and_then(|job| Some((*job, self.detached_at(job)?))) else { return };
        let mut cleared = job.cleared(at);
        if let Some(extra) = self.extras.get_mut(&id) {
            let key = extra.cancel();
            cleared.extra = extra.is_some();
            if !cleared.extra {
                self.extras.remove(&id);
            }
            key.into_iter().for_each(|key| self.keys.free(&key, id));
        }
        self.queue_mut(job.queue).end_detached(id, &job);
        self.jobs.insert(id, cleared);
    }
}

/// Updates the rare fields of a job that stays live; returns whether any remain.
fn settle_extra(
    extras: &mut BTreeMap<JobId, RareFields>,
    keys: &mut Keys,
    id: JobId,
    to: &To,
    run_until: Option<Timestamp>,
) -> bool {
    let extra = extras.entry(id).or_default();
    extra.run_until = run_until;
    if let (To::Active { .. }, Some(key)) = (to, &extra.key)
        && keys.holder(key).is_some_and(|holder| holder.until == KeyEnd::Started)
    {
        keys.free(key, id);
    }
    let is_some = extra.is_some();
    if !is_some {
        extras.remove(&id);
    }
    is_some
}

/// A job that was finished before is deleted.
fn finished_deleted(queue: Option<&mut Queue>, cause: Cause, step: &Step<'_>) {
    let (To::Deleted(_), Cause::Deleted, [state]) = (step.to, cause, step.detail) else {
        panic!("{cause:?} of job {}, which is not live", step.job)
    };
    let state = JobState::from_number(*state).expect("the state of a finished job");
    queue.into_iter().for_each(|queue| queue.uncount(step.job, state));
}
