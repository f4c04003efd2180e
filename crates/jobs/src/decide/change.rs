//! Changes of a job by somebody who does not hold it.

use alloc::string::String;
use alloc::sync::Arc;

use super::{Decision, Stop};
use crate::codec::{Cause, Edited, Effect, Epitaph, Revived, To};
use crate::draft::{GROUP_UNKNOWN, Next};
use crate::job::{Extra, Job};
use crate::transition::Standing;
use crate::view::Ended;
use crate::{Change, JobId, JobState, Limit, Priority, Refusal};

impl Decision<'_, '_> {
    /// Changes a job, and says in which state it is then; `None` when it is deleted.
    pub(super) fn change(&mut self, id: JobId, change: &Change<'_>) -> Result<Option<JobState>, Stop> {
        check(change)?;
        if !self.draft.has_changed(id) {
            self.settle([id]);
        }
        match self.draft.job(id) {
            Some(Standing::Live(job)) => self.change_live(id, job, change)?,
            // What time ended may be changed as if somebody had noticed before.
            Some(Standing::Finished(state)) => match self.draft.over(id) {
                Some((place, epitaph, attempt)) => {
                    self.change_finished(id, &Ended { state, epitaph, place, attempt }, change)?;
                }
                None => return Err(Refusal::WrongState { job: id, state }.into()),
            },
            Some(Standing::Deleted) => return Err(Refusal::UnknownJob { job: id }.into()),
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
            Change::Cancel { reason } => (Cause::Cancelled, To::Cancelled(self.draft.epitaph(id, &job)), reason),
            Change::Delete => (Cause::Deleted, To::Deleted(self.draft.epitaph(id, &job)), ""),
            Change::Hold { reason } if waits => (Cause::Held, To::Held, reason),
            Change::Release if job.state == Held => (Cause::Released, To::Pending, ""),
            Change::Reschedule { run_at } if waits => {
                let to = if run_at > self.now { To::Scheduled { at: run_at } } else { To::Pending };
                (Cause::Rescheduled, to, "")
            }
            Change::Move { queue } => return self.edit(id, job, Some(queue), job.priority, job.attempts_max, None),
            Change::Priority(priority) => return self.edit(id, job, None, priority, job.attempts_max, None),
            Change::AttemptsMax(attempts) => return self.edit(id, job, None, job.priority, attempts, None),
            Change::Payload(payload) if job.state != Active => {
                return self.edit(id, job, None, job.priority, job.attempts_max, Some(payload));
            }
            Change::Hold { .. } | Change::Release | Change::Reschedule { .. } => return wrong(),
            Change::Retry { .. } | Change::Payload(_) => return wrong(),
        };
        self.draft.step(id, &job, Next { shared: reason, ..Next::new(cause, to, job.attempt) });
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
        let queue = match queue {
            None => job.queue,
            Some(name) => {
                let known = self.draft.queue(name);
                if known.is_some_and(|queue| queue != job.queue && self.draft.settings(queue).draining) {
                    return Err(Refusal::QueueDraining { queue: String::from(name) });
                }
                if let Some(queue) = known.filter(|queue| *queue != job.queue) {
                    self.check_room(queue, name, self.draft.settings(queue).jobs_max, 0)?;
                }
                self.queue_for(name)?
            }
        };
        let content = self.draft.epitaph(id, &job).content;
        let epitaph = Epitaph { queue, priority, attempts_max, content };
        let edited = Edited { job: id, before: job.last(), epitaph, from: job.queue, group: &group, payload };
        if queue != job.queue {
            self.draft.push(&Effect::MovedOut { job: id, to: queue }, Some(job.queue));
        }
        let place = self.draft.push(&Effect::Edited(edited), Some(queue));
        let mut after = job;
        (after.queue, after.priority, after.attempts_max) = (queue, priority, attempts_max);
        after.set_last_unless_active(place);
        if payload.is_some() {
            let extra = self.draft.extra(id, &job).cloned().unwrap_or_default();
            self.draft.set_extra(id, Extra { content: Some(place), ..extra });
            after.extra = true;
        }
        self.draft.set_moved(id, &job, after, group);
        Ok(())
    }

    fn change_finished(&mut self, id: JobId, ended: &Ended, change: &Change<'_>) -> Result<(), Stop> {
        let Ended { state, epitaph, place, attempt } = *ended;
        match *change {
            Change::Delete => self.draft.delete_finished(id, epitaph, place, attempt, state),
            // Of other finished jobs the log may be giving up the payload this moment.
            Change::Retry { payload } if state == JobState::Dead => {
                let name = self.draft.stored_queue(epitaph.queue).map(|queue| Arc::clone(&queue.name));
                let name = name.expect("a queue with dead jobs is there");
                // One that was destroyed has another of its name.
                if let Some(queue) = self.draft.queue(&name) {
                    self.check_room(queue, &name, self.draft.settings(queue).jobs_max, 0)?;
                }
                let entry = self.history.entry(id.place())?;
                let group = match entry.map(|entry| Effect::read(&entry)).transpose()? {
                    Some(Effect::Enqueued(enqueued)) => String::from(enqueued.group),
                    _ => return Err(Refusal::UnknownJob { job: id }.into()),
                };
                let (queue, was_in) = (self.queue_for(&name)?, epitaph.queue);
                let epitaph = Epitaph { queue, ..epitaph };
                let revived = Revived { job: id, before: place, epitaph, from: state, was_in, group: &group, payload };
                let at = self.draft.push(&Effect::Revived(revived), Some(queue));
                let mut job = Job::enqueued(id, queue, GROUP_UNKNOWN, epitaph.priority, epitaph.attempts_max);
                job.set_last(at);
                let content = if payload.is_some() { at } else { epitaph.content };
                let content = (content != id.place()).then_some(content);
                job.extra = content.is_some();
                self.draft.set_revived(id, job, group, Extra { content, ..Extra::default() });
            }
            _ => return Err(Refusal::WrongState { job: id, state }.into()),
        }
        Ok(())
    }
}

/// Checks every size and count of a change.
pub(super) fn check(change: &Change<'_>) -> Result<(), Refusal> {
    match change {
        Change::Cancel { reason } | Change::Hold { reason } => Limit::ReasonBytes.check(reason.len() as u64),
        Change::Move { queue } => crate::name::check_queue_name(queue),
        Change::AttemptsMax(attempts) => Limit::AttemptsMax.check(u64::from(*attempts)),
        _ => Ok(()),
    }
}
