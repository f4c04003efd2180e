//! Entries into the state. Cheap and total: everything was decided.

use alloc::vec::Vec;

use quire_model::{Entry, Place, Timestamp};

use crate::codec::{Cause, Edited, Effect, Enqueued, Epitaph, Revived, Step, Steps, To, UniqueKey};
use crate::job::{Extra, Job};
use crate::keys::{Holder, Key, KeyEnd};
use crate::queue::{Queue, QueueId};
use crate::state::{JobState, Jobs};
use crate::transition::Standing;
use crate::{JobId, UniqueHold, UniqueScope};

/// Takes in an entry.
///
/// # Panics
/// When the entry is none of this model's, or says what can't be of the state: a broken invariant.
pub(crate) fn apply(state: &mut Jobs, entry: &Entry<'_>) {
    let effect = Effect::of(entry).unwrap_or_else(|error| panic!("entry {} of the jobs model: {error}", entry.place));
    state.keys.pass(entry.time);
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
            assert_eq!(queue.0, state.queues_created, "queues are numbered in the order of creation");
            state.queues_created += 1;
            state.add_queue(*queue, Queue::new(name));
        }
        Effect::QueueSet { queue, settings } => {
            let queue = state.queue_mut(*queue);
            queue.pass(entry.time);
            queue.set(*settings);
        }
        Effect::QueueCleared { queue } => state.clear(*queue, entry.time, |job| job.state != JobState::Active),
        Effect::QueueDestroyed { queue } => {
            state.clear(*queue, entry.time, |_| true);
            let name = state.queues.remove(queue).expect("a queue that is destroyed is there").name;
            state.queue_ids.remove(&name);
        }
        Effect::KeyHeld { job, scope, until, key } => {
            state.keys.take(key_in(*scope, key), Holder { job: *job, until: KeyEnd::At(*until) });
        }
        // The edited entry behind it has it all.
        Effect::MovedOut { .. } => {}
        Effect::BulkBegun(_) => state.bulks.begin(entry.place),
        Effect::BulkAdvanced(advanced) => state.bulks.advance(advanced),
    }
}

/// The key of a job that stands in this queue.
fn key_of(unique: &UniqueKey<'_>, queue: QueueId) -> Key {
    key_in((unique.scope == UniqueScope::Queue).then_some(queue), unique.key)
}

/// A key within a queue, or everywhere.
pub(crate) fn key_in(queue: Option<QueueId>, bytes: &[u8]) -> Key {
    Key { queue, bytes: bytes.into() }
}

/// Until when a job that is enqueued now has its key.
pub(crate) fn key_end(hold: UniqueHold, now: Timestamp) -> KeyEnd {
    match hold {
        UniqueHold::UntilFinished => KeyEnd::Finished,
        UniqueHold::UntilStarted => KeyEnd::Started,
        UniqueHold::For(micros) => KeyEnd::At(now.plus_micros(micros)),
    }
}

impl Jobs {
    fn live(&self, id: JobId) -> Job {
        *self.jobs.get(&id).unwrap_or_else(|| panic!("an entry is about job {id}, which is not live"))
    }

    fn enqueued(&mut self, enqueued: &Enqueued<'_>, entry: &Entry<'_>) {
        let id = JobId::new(entry.place);
        let extra = Extra {
            expires_at: enqueued.expires_at,
            key: enqueued.unique.map(|unique| key_of(&unique, enqueued.queue).into()),
            ..Extra::default()
        };
        if let (Some(unique), Some(key)) = (&enqueued.unique, &extra.key) {
            self.keys.take((**key).clone(), Holder { job: id, until: key_end(unique.hold, entry.time) });
        }
        let queue = self.queue_mut(enqueued.queue);
        let before = queue.next_due();
        queue.pass(entry.time);
        let group = queue.groups.intern(enqueued.group);
        let mut job = Job::enqueued(id, enqueued.queue, group, enqueued.priority, enqueued.attempts_max);
        if let Some(run_at) = enqueued.run_at.filter(|run_at| *run_at > entry.time) {
            job.state = JobState::Scheduled;
            job.set_until(run_at);
        }
        job.extra = extra.is_some();
        queue.insert(id, &job, extra.expires_at);
        self.jobs.insert(id, job);
        if job.extra {
            self.extras.insert(id, extra);
        }
        self.retime(enqueued.queue, before);
    }

    fn steps(&mut self, steps: &Steps<'_>, entry: &Entry<'_>) {
        // The queue of the step before, and when it was due: timers are put right once for a run of steps in one queue.
        let mut timed: Option<(QueueId, Option<Timestamp>)> = None;
        for step in steps.iter() {
            let step = step.unwrap_or_else(|error| panic!("entry {} of the jobs model: {error}", entry.place));
            let Some(job) = self.jobs.get(&step.job).copied() else {
                self.finished_deleted(steps.cause, &step);
                continue;
            };
            if timed.is_none_or(|(queue, _)| queue != job.queue) {
                if let Some((queue, before)) = timed {
                    self.retime(queue, before);
                }
                let queue = self.queue_mut(job.queue);
                timed = Some((job.queue, queue.next_due()));
                queue.pass(entry.time);
            }
            self.step(job, steps.cause, &step, entry.place);
        }
        if let Some((queue, before)) = timed {
            self.retime(queue, before);
        }
    }

    fn step(&mut self, before: Job, cause: Cause, step: &Step<'_>, place: Place) {
        let id = step.job;
        let standing = before.after(cause, &step.to, step.attempt, place);
        let expires_at = self.extra(id, &before).and_then(|extra| extra.expires_at);
        let queue = self.queues.get_mut(&before.queue).expect("a job's queue is there");
        match standing {
            Standing::Live(after) if cause == Cause::Leased => queue.start(id, &before, &after, expires_at),
            Standing::Live(after) => queue.shift(id, &before, &after, expires_at),
            Standing::Finished(state) => {
                queue.remove(id, &before, expires_at);
                queue.counts[state as usize] += 1;
                if state == JobState::Dead {
                    queue.dead.insert(id);
                }
            }
            Standing::Deleted => queue.remove(id, &before, expires_at),
        }
        match standing.live() {
            Some(after) => self.settle(id, after, &step.to),
            None => {
                let called_off = standing != Standing::Finished(JobState::Completed)
                    && standing != Standing::Finished(JobState::Dead);
                self.forget(id, &before, called_off);
            }
        }
    }

    /// Puts a job that stays live into the table, with what the step did to the rest of it.
    fn settle(&mut self, id: JobId, mut after: Job, to: &To) {
        let run_until = if let To::Active { run_until, .. } = to { *run_until } else { None };
        if after.extra || run_until.is_some() {
            let extra = self.extras.entry(id).or_default();
            extra.run_until = run_until;
            if let (To::Active { .. }, Some(key)) = (to, &extra.key)
                && self.keys.holder(key).is_some_and(|holder| holder.until == KeyEnd::Started)
            {
                self.keys.free(key, id);
            }
            after.extra = extra.is_some();
            if !after.extra {
                self.extras.remove(&id);
            }
        }
        self.jobs.insert(id, after);
    }

    /// Takes a job out of the table. Who is called off frees its key, whatever it was held for.
    fn forget(&mut self, id: JobId, job: &Job, called_off: bool) {
        self.jobs.remove(&id);
        if !job.extra {
            return;
        }
        if let Some(Extra { key: Some(key), .. }) = self.extras.remove(&id) {
            let holder = self.keys.holder(&key);
            if called_off || holder.is_some_and(|holder| !matches!(holder.until, KeyEnd::At(_))) {
                self.keys.free(&key, id);
            }
        }
    }

    /// A job that was finished before is deleted.
    fn finished_deleted(&mut self, cause: Cause, step: &Step<'_>) {
        let (To::Deleted(epitaph), Cause::Deleted, [state]) = (step.to, cause, step.detail) else {
            panic!("{cause:?} of job {}, which is not live", step.job)
        };
        let state = JobState::from_number(*state).expect("the state of a finished job");
        self.uncount(epitaph.queue, step.job, state);
    }

    /// A finished job is no longer: its queue may be gone as well.
    fn uncount(&mut self, queue: QueueId, id: JobId, state: JobState) {
        if let Some(queue) = self.queues.get_mut(&queue) {
            queue.dead.remove(&id);
            let count = &mut queue.counts[state as usize];
            *count = count.saturating_sub(1);
        }
    }

    /// Puts another job under an id, and changes the rest of it.
    fn replace(&mut self, id: JobId, mut after: Job, now: Timestamp, change: impl FnOnce(&mut Extra)) {
        let before = self.live(id);
        let extra = self.extras.entry(id).or_default();
        change(extra);
        after.extra = extra.is_some();
        let expires_at = extra.expires_at;
        if !after.extra {
            self.extras.remove(&id);
        }
        self.jobs.insert(id, after);
        let due = self.queue(before.queue).next_due();
        let queue = self.queue_mut(before.queue);
        queue.pass(now);
        if before.queue == after.queue {
            queue.shift(id, &before, &after, expires_at);
        } else {
            queue.remove(id, &before, expires_at);
            let due = self.queue(after.queue).next_due();
            self.queue_mut(after.queue).insert(id, &after, expires_at);
            self.retime(after.queue, due);
        }
        self.retime(before.queue, due);
    }

    fn edited(&mut self, edited: &Edited<'_>, entry: &Entry<'_>) {
        let mut after = self.live(edited.job);
        let Epitaph { queue: number, priority, attempts_max, .. } = edited.epitaph;
        let queue = self.queue_mut(number);
        queue.pass(entry.time);
        after.group = queue.groups.intern(edited.group);
        after.set_last_unless_active(entry.place);
        (after.queue, after.priority, after.attempts_max) = (number, priority, attempts_max);
        let content = edited.payload.map(|_| entry.place);
        self.replace(edited.job, after, entry.time, |extra| extra.content = content.or(extra.content));
    }

    fn revived(&mut self, revived: &Revived<'_>, entry: &Entry<'_>) {
        let Revived { job: id, epitaph, from, .. } = *revived;
        self.uncount(epitaph.queue, id, from);
        let queue = self.queue_mut(epitaph.queue);
        let before = queue.next_due();
        queue.pass(entry.time);
        let group = queue.groups.intern(revived.group);
        let mut job = Job::enqueued(id, epitaph.queue, group, epitaph.priority, epitaph.attempts_max);
        job.set_last(entry.place);
        let content = if revived.payload.is_some() { entry.place } else { epitaph.content };
        job.extra = content != id.place();
        queue.insert(id, &job, None);
        self.jobs.insert(id, job);
        if job.extra {
            self.extras.insert(id, Extra { content: Some(content), ..Extra::default() });
        }
        self.retime(epitaph.queue, before);
    }

    /// Cancels the jobs of a queue that are `wanted`.
    fn clear(&mut self, queue: QueueId, now: Timestamp, wanted: impl Fn(&Job) -> bool) {
        let due = self.queue(queue).next_due();
        self.queue_mut(queue).pass(now);
        let cleared: Vec<JobId> = self.queue(queue).ids().filter(|id| wanted(&self.live(*id))).collect();
        for id in cleared {
            let job = self.live(id);
            let expires_at = self.extra(id, &job).and_then(|extra| extra.expires_at);
            let index = self.queue_mut(queue);
            index.remove(id, &job, expires_at);
            index.counts[JobState::Cancelled as usize] += 1;
            self.forget(id, &job, true);
        }
        self.retime(queue, due);
    }
}
