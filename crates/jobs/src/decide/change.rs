//! Changes of a job by a client that does not hold its lease.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;

use super::draft::NextStep;
use super::draft_queue::GROUP_UNKNOWN;
use super::enqueue::check_time;
use super::{Decision, Stop};
use crate::codec::{Effect, FinalFacts, JobEdit, JobRevival, To};
use crate::id::QueueId;
use crate::job::{Holder, Job, Key, RareFields, TransitionResult, key_end, key_of};
use crate::name::check_queue_name;
use crate::read::{LastStep, enqueued_at};
use crate::{Cause, Change, JobId, JobLimit, JobState, Priority, Refusal, UniqueHold, UniqueScope};

impl Decision<'_, '_> {
    /// Changes a job, and returns its new state; `None` when it was deleted.
    pub(super) fn change(&mut self, id: JobId, change: &Change<'_>) -> Result<Option<JobState>, Stop> {
        check(change)?;
        if !self.draft.has_changed(id) {
            self.settle([id]);
        }
        match self.draft.job(id) {
            Some(TransitionResult::Live(job)) => self.change_live(id, job, change)?,
            // A job that this commit ended may be changed as if an earlier commit had ended it. A
            // job that was cleared with its queue has no step yet.
            Some(TransitionResult::Finished(state)) => match self.draft.over(id) {
                Some((place, final_facts, attempt)) => {
                    self.change_finished(id, &LastStep { state, final_facts, place, attempt }, change)?;
                }
                None => return Err(Refusal::WrongState { job: id, state }.into()),
            },
            Some(TransitionResult::Deleted) => return Err(Refusal::UnknownJob { job: id }.into()),
            None => match self.state.end(self.history, id)? {
                Some(end) => self.change_finished(id, &end.ended, change)?,
                None => return Err(Refusal::UnknownJob { job: id }.into()),
            },
        }
        Ok(self.draft.job(id).and_then(|standing| standing.state()))
    }

    fn change_live(&mut self, id: JobId, job: Job, change: &Change<'_>) -> Result<(), Refusal> {
        use JobState::{Active, Held, Pending, Retrying, Scheduled};
        let waits = matches!(job.state, Scheduled | Pending | Retrying);
        let wrong = || Err(Refusal::WrongState { job: id, state: job.state });
        let (cause, to, reason) = match *change {
            Change::Cancel { reason } => (Cause::Cancelled, To::Cancelled(self.draft.final_facts(id, &job)), reason),
            Change::Delete => (Cause::Deleted, To::Deleted(self.draft.final_facts(id, &job)), ""),
            Change::Hold { reason } if waits => (Cause::Held, To::Held, reason),
            Change::Release if job.state == Held => (Cause::Released, To::Pending, ""),
            Change::Reschedule { run_at } if waits => {
                let to = if run_at > self.now { To::Scheduled { at: run_at } } else { To::Pending };
                (Cause::Rescheduled, to, "")
            }
            Change::Move { queue } => return self.edit(id, job, Some(queue), job.priority, job.attempts_max, None),
            Change::Priority(priority) => return self.edit(id, job, None, priority, job.attempts_max, None),
            Change::AttemptsMax(attempts) if attempts < job.attempts_least() => {
                return Err(Refusal::TooFewAttempts { job: id, least: job.attempts_least() });
            }
            Change::AttemptsMax(attempts) => return self.edit(id, job, None, job.priority, attempts, None),
            Change::Payload(payload) if job.state != Active => {
                return self.edit(id, job, None, job.priority, job.attempts_max, Some(payload));
            }
            Change::Hold { .. } | Change::Release | Change::Reschedule { .. } => return wrong(),
            Change::Retry { .. } | Change::Payload(_) => return wrong(),
        };
        self.draft.step(id, &job, NextStep { shared: reason, ..NextStep::new(cause, to, job.attempt) });
        Ok(())
    }

    fn edit(
        &mut self,
        id: JobId,
        job: Job,
        queue: Option<&str>,
        priority: Priority,
        attempts_max: u16,
        payload: Option<&[u8]>,
    ) -> Result<(), Refusal> {
        let group = self.draft.group_name(id, &job);
        let mut key = None;
        let queue = match queue {
            None => job.queue,
            Some(name) => {
                let known = self.draft.queue(name);
                if known.is_some_and(|queue| queue != job.queue && self.draft.settings(queue).draining) {
                    return Err(Refusal::QueueDraining { queue: String::from(name) });
                }
                if let Some(queue) = known.filter(|queue| *queue != job.queue) {
                    self.check_room(queue, name, self.draft.settings(queue).jobs_max, 0)?;
                    if job.state == JobState::Active {
                        self.check_active(queue, name, &group)?;
                    }
                }
                if known != Some(job.queue) {
                    key = self.key_to_take_along(id, &job, known)?;
                }
                self.queue_for(name)?
            }
        };
        let final_facts = FinalFacts { queue, priority, attempts_max, ..self.draft.final_facts(id, &job) };
        let edited = JobEdit { job: id, before: job.last(), final_facts, from: job.queue, group: &group, payload };
        if queue != job.queue {
            self.draft.push(&Effect::MovedOut { job: id, to: queue }, Some(job.queue));
        }
        let place = self.draft.push(&Effect::Edited(edited), Some(queue));
        let mut after = job;
        (after.queue, after.priority, after.attempts_max) = (queue, priority, attempts_max);
        after.set_last_unless_active(place);
        if payload.is_some() || key.is_some() {
            let mut extra = self.draft.extra(id, &job).cloned().unwrap_or_default();
            extra.content = payload.map(|_| place).or(extra.content);
            if let Some((of_queue, holder)) = key {
                let moved = Key { queue: Some(queue), bytes: of_queue.bytes.clone() };
                self.draft.free_key(of_queue);
                self.draft.take_key(moved.clone(), holder);
                extra.key = Some(Box::new(moved));
            }
            self.draft.set_extra(id, extra);
            after.extra = true;
        }
        self.draft.set_moved(id, &job, after, group);
        Ok(())
    }

    /// The key that a job takes along from its queue to another; `None` when a job of the other
    /// queue has that key.
    fn key_to_take_along(
        &mut self,
        id: JobId,
        job: &Job,
        to: Option<QueueId>,
    ) -> Result<Option<(Key, Holder)>, Refusal> {
        let key = self.draft.extra(id, job).and_then(|extra| extra.key.as_deref());
        let Some(key) = key.filter(|key| key.queue.is_some()).cloned() else { return Ok(None) };
        let Some(holder) = self.draft.key_holder(&key).filter(|holder| holder.job == id) else { return Ok(None) };
        match self.key_holder(UniqueScope::Queue, to, &key.bytes) {
            Some((_, rival)) => Err(Refusal::Duplicate { job: rival.job }),
            None => Ok(Some((key, holder))),
        }
    }

    fn change_finished(&mut self, id: JobId, ended: &LastStep, change: &Change<'_>) -> Result<(), Stop> {
        let LastStep { state, final_facts, place, attempt } = *ended;
        match *change {
            Change::Delete => self.draft.delete_finished(id, final_facts, place, attempt, state),
            // The log may be about to drop the payloads of other finished jobs.
            Change::Retry { payload } if state == JobState::Dead => {
                let name = self.draft.stored_queue(final_facts.queue).map(|queue| Arc::clone(&queue.name));
                let name = name.expect("a queue with dead jobs is there");
                // One that was destroyed has another of its name.
                if let Some(queue) = self.draft.queue(&name) {
                    self.check_room(queue, &name, self.draft.settings(queue).jobs_max, 0)?;
                }
                let Some((_, enqueued)) = enqueued_at(self.history, id)? else {
                    return Err(Refusal::UnknownJob { job: id }.into());
                };
                let (group, retention_micros) = (String::from(enqueued.group), enqueued.retention_micros);
                let mut unique = enqueued.unique;
                let known = self.draft.queue(&name);
                let holder = unique.and_then(|unique| self.key_holder(unique.scope, known, unique.key));
                let own = holder.as_ref().filter(|(_, holder)| holder.job == id).map(|(key, _)| key.clone());
                match unique.map(|unique| unique.hold) {
                    // The time counts from the enqueue, whatever later steps the job has.
                    Some(UniqueHold::For(_)) => unique = None,
                    _ => {
                        if let Some((_, rival)) = holder.filter(|_| own.is_none()) {
                            return Err(Refusal::Duplicate { job: rival.job }.into());
                        }
                    }
                }
                self.draft
                    .claim_job(known, &group, true, unique.map(|unique| unique.key.len()))
                    .map_err(Refusal::from)?;
                let (queue, was_in) = (self.queue_for(&name)?, final_facts.queue);
                let final_facts = FinalFacts { queue, ..final_facts };
                let revived = JobRevival {
                    job: id,
                    before: place,
                    final_facts,
                    from: state,
                    was_in,
                    group: &group,
                    unique,
                    retention_micros,
                    payload,
                };
                let at = self.draft.push(&Effect::Revived(revived), Some(queue));
                let mut job = Job::enqueued(id, queue, GROUP_UNKNOWN, final_facts.priority, final_facts.attempts_max);
                job.set_last(at);
                let content = if payload.is_some() { at } else { final_facts.content };
                let content = (content != id.place()).then_some(content);
                let key = match unique {
                    None => own,
                    Some(unique) => {
                        let key = key_of(&unique, queue);
                        self.draft.take_key(key.clone(), Holder { job: id, until: key_end(unique.hold, self.now) });
                        Some(key)
                    }
                };
                let FinalFacts { progress, checkpoint, .. } = final_facts;
                let key = key.map(Box::new);
                let extra =
                    RareFields { content, progress, checkpoint, key, retention_micros, ..RareFields::default() };
                job.extra = extra.is_some();
                self.draft.set_revived(id, job, group, extra);
            }
            _ => return Err(Refusal::WrongState { job: id, state }.into()),
        }
        Ok(())
    }
}

/// Checks every size and count of a change.
pub(super) fn check(change: &Change<'_>) -> Result<(), Refusal> {
    match change {
        Change::Cancel { reason } | Change::Hold { reason } => JobLimit::ReasonBytes.check(reason.len() as u64),
        Change::Move { queue } => check_queue_name(queue),
        Change::AttemptsMax(attempts) => JobLimit::AttemptsMax.check(u64::from(*attempts)),
        Change::Reschedule { run_at } => check_time(*run_at),
        _ => Ok(()),
    }
}
