//! Adding a job, unless another has its key.

use alloc::boxed::Box;
use alloc::string::String;

use quire_model::Timestamp;

use super::draft::NextStep;
use super::{Answers, Decision, Stop};
use crate::codec::{Effect, To};
use crate::id::QueueId;
use crate::job::{Holder, Key, KeyEnd, TransitionResult, key_end, key_in};
use crate::name::{check_printable, check_queue_name};
use crate::{Backoff, Cause, Clash, JobLimit, JobSpec, JobState, Refusal, Reply, UniqueHold, UniqueScope};

/// Checks when something is to happen to a job.
pub(super) fn check_time(time: Timestamp) -> Result<(), Refusal> {
    JobLimit::TimeMicros.check(time.as_micros())
}

/// Checks every size and count of a job.
fn check(job: &JobSpec<'_>) -> Result<(), Refusal> {
    JobLimit::KindBytes.check(job.kind.len() as u64)?;
    JobLimit::GroupBytes.check(job.group.len() as u64)?;
    JobLimit::AttemptsMax.check(u64::from(job.attempts_max))?;
    [job.run_at, job.expires_at].into_iter().flatten().try_for_each(check_time)?;
    JobLimit::JitterPercent.check(u64::from(job.jitter_percent))?;
    job.timeout_micros.iter().try_for_each(|micros| JobLimit::TimeoutMicros.check(*micros))?;
    let wait = |micros: u64| JobLimit::BackoffMicros.check(micros);
    match job.backoff {
        Backoff::None => {}
        Backoff::Fixed { micros } => wait(micros)?,
        Backoff::Linear { base_micros, max_micros } | Backoff::Exponential { base_micros, max_micros } => {
            [base_micros, max_micros].into_iter().try_for_each(wait)?;
        }
        Backoff::List(waits) => {
            JobLimit::BackoffWaits.check(waits.len() as u64)?;
            waits.iter().copied().try_for_each(wait)?;
        }
    }
    if let Some(unique) = job.unique {
        JobLimit::KeyBytes.check(unique.key.len() as u64)?;
        if let UniqueHold::For(micros) = unique.hold {
            JobLimit::KeyMicros.check(micros)?;
        }
    }
    job.retention_micros.iter().try_for_each(|micros| JobLimit::RetentionMicros.check(*micros))?;
    JobLimit::Tags.check(job.tags.len() as u64)?;
    job.tags.iter().try_for_each(|tag| JobLimit::TagBytes.check(tag.len() as u64))?;
    let names = [("kind", job.kind), ("group", job.group)].into_iter().chain(job.tags.iter().map(|tag| ("tag", *tag)));
    check_printable(names)
}

impl Decision<'_, '_> {
    pub(super) fn enqueue(&mut self, name: &str, job: &JobSpec<'_>, answers: &mut Answers<'_>) -> Result<(), Stop> {
        check(job)?;
        let known = self.draft.queue(name);
        let settings = known.map(|queue| self.draft.settings(queue));
        if settings.is_some_and(|settings| settings.draining) {
            return Err(Refusal::QueueDraining { queue: String::from(name) }.into());
        }
        if known.is_none() {
            // A refusal changes nothing and creates no queue.
            check_queue_name(name)?;
        }
        if let Some(unique) = job.unique
            && let Some((key, holder)) = self.key_holder(unique.scope, known, unique.key)
            && let Some(reply) = self.clash(name, unique.clash, key, holder, job)?
        {
            answers.push(reply);
            return Ok(());
        }
        let queue = match known {
            Some(queue) => {
                self.check_room(queue, name, settings.and_then(|settings| settings.jobs_max), 0)?;
                queue
            }
            None => self.queue_for(name)?,
        };
        let is_rare = job.expires_at.is_some() || job.retention_micros.is_some();
        self.draft
            .claim_job(known, job.group, is_rare, job.unique.map(|unique| unique.key.len()))
            .map_err(Refusal::from)?;
        let (id, state) = self.draft.enqueue(queue, job);
        if let Some(unique) = job.unique {
            let scope = (unique.scope == UniqueScope::Queue).then_some(queue);
            let until = key_end(unique.hold, self.now);
            let key = key_in(scope, unique.key);
            self.draft.take_key(key.clone(), Holder { job: id, until });
            let extra = self.draft.own_extra(id);
            extra.key = Some(Box::new(key));
        }
        answers.push(Reply::Enqueued { job: id, state, duplicate: false });
        Ok(())
    }

    /// The job that holds a key in a queue now, after the changes that time brought.
    pub(super) fn key_holder(
        &mut self,
        scope: UniqueScope,
        queue: Option<QueueId>,
        bytes: &[u8],
    ) -> Option<(Key, Holder)> {
        let key = match scope {
            UniqueScope::Everywhere => key_in(None, bytes),
            // An unknown queue has no keys.
            UniqueScope::Queue => key_in(Some(queue?), bytes),
        };
        // Time may have ended the job that has it.
        let taker = self.draft.key_taker(&key).map(|holder| holder.job);
        self.settle(taker.filter(|job| !self.draft.has_changed(*job)));
        let holder = self.draft.key_holder(&key)?;
        Some((key, holder))
    }

    /// Resolves the conflict of a job with another job of the same key; returns `None` when the job
    /// is enqueued nevertheless.
    fn clash(
        &mut self,
        name: &str,
        clash: Clash,
        key: Key,
        holder: Holder,
        job: &JobSpec<'_>,
    ) -> Result<Option<Reply>, Stop> {
        let standing = self.draft.job(holder.job);
        let state = match standing.and_then(|standing| standing.state()) {
            Some(state) => state,
            // A key that is held for a time outlives its job; only the log has the end of that job.
            None => match self.state.end(self.history, holder.job)? {
                Some(end) => end.ended.state,
                None => return Ok(None),
            },
        };
        let live = standing.as_ref().and_then(TransitionResult::live);
        let duplicate = Reply::Enqueued { job: holder.job, state, duplicate: true };
        match (clash, live) {
            (Clash::Reject, _) => Err(Refusal::Duplicate { job: holder.job }.into()),
            (Clash::Keep, _) => Ok(Some(duplicate)),
            (Clash::Replace, None) => Ok(None),
            (Clash::Replace, Some(held)) if held.state == JobState::Active => Ok(Some(duplicate)),
            (Clash::Replace, Some(held)) => {
                // Checked before any change: a refusal keeps the existing job.
                if let Some(queue) = self.draft.queue(name) {
                    self.check_room(queue, name, self.draft.settings(queue).jobs_max, u64::from(queue == held.queue))?;
                }
                let to = To::Cancelled(self.draft.final_facts(holder.job, held));
                self.draft.step(holder.job, held, NextStep::new(Cause::Replaced, to, held.attempt));
                Ok(None)
            }
            (Clash::Extend, live) => {
                if let (KeyEnd::At(_), Some(UniqueHold::For(micros))) =
                    (holder.until, job.unique.map(|unique| unique.hold))
                {
                    let until = self.now.plus_micros(micros);
                    let effect = Effect::KeyHeld { job: holder.job, scope: key.queue, until, key: &key.bytes };
                    self.draft.push(&effect, None);
                    self.draft.take_key(key, Holder { job: holder.job, until: KeyEnd::At(until) });
                }
                if let Some(held) = live.filter(|held| held.state == JobState::Scheduled) {
                    let at = job.run_at.unwrap_or(self.now);
                    let to = if at > self.now { To::Scheduled { at } } else { To::Pending };
                    self.draft.step(holder.job, held, NextStep::new(Cause::Rescheduled, to, held.attempt));
                }
                let state = self.draft.job(holder.job).as_ref().and_then(TransitionResult::state).unwrap_or(state);
                Ok(Some(Reply::Enqueued { job: holder.job, state, duplicate: true }))
            }
        }
    }
}
