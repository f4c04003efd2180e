//! The effects of time: expired leases, expired jobs, and jobs that may run now. Also the ends of
//! jobs that were cancelled with their queue, which the queue's own entry did not hold.

use alloc::vec::Vec;

use quire_model::Timestamp;

use super::draft::NextStep;
use super::{Decision, Stop};
use crate::codec::To;
use crate::id::QueueId;
use crate::job::Job;
use crate::{Cause, JobId, JobState, Reply};

/// The maximum number of due jobs that one command changes: per queue of a fetch, or in all queues
/// of a tick.
const SWEEP_JOBS_MAX: usize = 1_024;

impl Decision<'_, '_> {
    pub(super) fn tick(&mut self) -> Result<Reply, Stop> {
        let state = self.state;
        let due_queues = state.timers.keys().take_while(|(time, _)| *time <= self.now).map(|(_, queue)| *queue);
        let due = due_queues.flat_map(|queue| state.queue(queue).due(self.now));
        let mut due: Vec<JobId> = due.filter(|id| !self.draft.has_changed(*id)).take(SWEEP_JOBS_MAX + 1).collect();
        let more = due.len() > SWEEP_JOBS_MAX;
        due.truncate(SWEEP_JOBS_MAX);
        let jobs = due.len();
        self.settle(due);
        let (told, more_untold) = self.tell_cleared(SWEEP_JOBS_MAX - jobs);
        let (changed, more_bulk) = self.advance_bulk()?;
        Ok(Reply::Ticked { jobs: jobs + told + changed, more: more || more_untold || more_bulk })
    }

    /// Logs the steps of at most `count_max` jobs that were cancelled with their queue. Returns
    /// their number, and whether there are more.
    fn tell_cleared(&mut self, count_max: usize) -> (usize, bool) {
        let state = self.state;
        let untold = state.untold.iter().map(|queue| state.queue(*queue));
        let untold = untold.flat_map(|queue| queue.untold().map(move |id| (queue, id)));
        let mut told = 0;
        for (queue, id) in untold {
            if told == count_max {
                return (told, true);
            }
            if !self.draft.has_changed(id) {
                let job = &state.known(id).expect("an unreported job exists");
                let to = To::Cancelled(self.draft.final_facts(id, job));
                let at = job.until().as_micros().to_le_bytes();
                let shared = queue.why_cleared(job);
                let next = NextStep { detail: &at, shared, ..NextStep::new(Cause::Cancelled, to, job.attempt) };
                self.draft.step(id, job, next);
                told += 1;
            }
        }
        (told, false)
    }

    /// Applies the passage of time to a queue.
    pub(super) fn sweep(&mut self, queue: QueueId) {
        let Some(queue) = self.state.queues.get(&queue) else { return };
        if queue.next_due().is_none_or(|due| due > self.now) {
            return;
        }
        let due = queue.due(self.now).filter(|id| !self.draft.has_changed(*id));
        let due: Vec<JobId> = due.take(SWEEP_JOBS_MAX).collect();
        self.settle(due);
    }

    /// Applies the passage of time to these jobs.
    pub(super) fn settle(&mut self, ids: impl IntoIterator<Item = JobId>) {
        for id in ids {
            // A job whose lease ran out may have expired since.
            while let Some((job, cause, to)) = self.due_step(id) {
                self.draft.step(id, &job, NextStep::new(cause, to, job.attempt));
            }
        }
    }

    /// Returns the step of a job that is due, if any.
    fn due_step(&self, id: JobId) -> Option<(Job, Cause, To)> {
        let job = *self.draft.live(id)?;
        let extra = self.draft.extra(id, &job);
        let (run_until, expires_at) = extra.map_or((None, None), |extra| (extra.run_until, extra.expires_at));
        let is_over = |time: Option<Timestamp>| time.is_some_and(|time| time <= self.now);
        let dead = || To::Dead(self.draft.final_facts(id, &job));
        let (cause, to) = match job.state {
            JobState::Active if job.until() <= self.now => {
                let cause = if is_over(run_until) { Cause::TimedOut } else { Cause::LeaseExpired };
                (cause, if job.attempts_left() { self.after_loss(id, &job)? } else { dead() })
            }
            JobState::Active => return None,
            _ if is_over(expires_at) => (Cause::Expired, dead()),
            JobState::Scheduled | JobState::Retrying if job.until() <= self.now => (Cause::Due, To::Pending),
            _ => return None,
        };
        Some((job, cause, to))
    }

    /// The next state of a job whose lease expired. The first time, it becomes pending at once: the
    /// lease was its wait. When another lease of the job expires, it waits its backoff, counted
    /// from the end of the lease.
    ///
    /// `None` when the steps of the request are used up: a later command takes this step.
    fn after_loss(&self, id: JobId, job: &Job) -> Option<To> {
        if !job.lost {
            return Some(To::Pending);
        }
        let wait_micros = self.wait_micros(id, job.attempt).ok()?;
        let at = job.until().plus_micros(wait_micros);
        Some(if at > self.now { To::Retrying { at } } else { To::Pending })
    }
}
