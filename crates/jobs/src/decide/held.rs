//! The commands of the holder of a lease: ack, fail, snooze, heartbeat. One check refuses every
//! other client.

use alloc::vec;

use quire_model::Timestamp;

use super::draft::NextStep;
use super::enqueue::check_time;
use super::{Decision, Stop};
use crate::backoff::{draw, jittered};
use crate::codec::{Effect, To};
use crate::job::{Job, TransitionResult};
use crate::{Backoff, Cause, JobId, JobLimit, LeaseToken, Refusal, Reply, Retry};

impl Decision<'_, '_> {
    pub(super) fn ack(&mut self, id: JobId, token: LeaseToken, result: &[u8]) -> Result<Reply, Stop> {
        let job = self.held(id, token)?;
        let to = To::Completed(self.draft.final_facts(id, &job));
        self.draft.step(id, &job, NextStep { detail: result, ..NextStep::new(Cause::Completed, to, job.attempt) });
        Ok(Reply::Acked)
    }

    pub(super) fn fail(&mut self, id: JobId, token: LeaseToken, error: &str, retry: Retry) -> Result<Reply, Stop> {
        if let Retry::At(time) = retry {
            check_time(time)?;
        }
        let job = self.held(id, token)?;
        let retry_at = match retry {
            Retry::Never => None,
            _ if !job.attempts_left() => None,
            Retry::At(time) => Some(time.max(self.now)),
            Retry::Backoff => Some(self.now.plus_micros(self.wait_micros(id, job.attempt)?)),
        };
        let to = match retry_at {
            Some(at) => To::Retrying { at },
            None => To::Dead(self.draft.final_facts(id, &job)),
        };
        self.draft.step(
            id,
            &job,
            NextStep { detail: error.as_bytes(), ..NextStep::new(Cause::Failed, to, job.attempt) },
        );
        Ok(Reply::Failed { retry_at })
    }

    /// Returns the wait of a job after this attempt. A job whose entry is unreadable waits for the
    /// default time, so a failure is never refused because of it.
    pub(super) fn wait_micros(&self, id: JobId, attempt: u16) -> Result<u64, Stop> {
        let entry = match self.history.entry(id.place()) {
            Err(error) if error.is_of_request() => return Err(error.into()),
            read => read.ok().flatten(),
        };
        Ok(match entry.and_then(|entry| Effect::read(&entry).ok()) {
            Some(Effect::Enqueued(job)) => {
                let drawn = draw(self.at.position.get(), id.place().position.get() ^ u64::from(id.place().index) << 40);
                jittered(job.backoff.delay_micros(attempt), job.jitter_percent, drawn)
            }
            _ => Backoff::<[u64; 0]>::default().delay_micros(attempt),
        })
    }

    pub(super) fn snooze(&mut self, id: JobId, token: LeaseToken, until: Timestamp) -> Result<Reply, Stop> {
        check_time(until)?;
        let job = self.held(id, token)?;
        let until = until.max(self.now);
        let to = if until > self.now { To::Scheduled { at: until } } else { To::Pending };
        self.draft.step(id, &job, NextStep::new(Cause::Snoozed, to, job.attempt.saturating_sub(1)));
        Ok(Reply::Snoozed { until })
    }

    pub(super) fn heartbeat(
        &mut self,
        id: JobId,
        token: LeaseToken,
        lease_micros: Option<u64>,
        progress: Option<&[u8]>,
        checkpoint: Option<&[u8]>,
    ) -> Result<Reply, Stop> {
        lease_micros.iter().try_for_each(|micros| JobLimit::LeaseMicros.check(*micros))?;
        progress.iter().try_for_each(|bytes| JobLimit::ProgressBytes.check(bytes.len() as u64))?;
        checkpoint.iter().try_for_each(|bytes| JobLimit::CheckpointBytes.check(bytes.len() as u64))?;
        let mut job = self.held(id, token)?;
        let mut extra = self.draft.extra(id, &job).cloned().unwrap_or_default();
        if let Some(micros) = lease_micros {
            let deadline = self.now.plus_micros(micros);
            let deadline = extra.run_until.map_or(deadline, |until| until.min(deadline));
            self.draft.push(&Effect::Extended { jobs: vec![(id, deadline)] }, None);
            let before = job;
            job.set_until(deadline);
            self.draft.set(id, &before, TransitionResult::Live(job), false);
        }
        if progress.is_some() || checkpoint.is_some() {
            let told = progress.map(|_| job.queue);
            let place = self.draft.push(&Effect::Noted { job: id, progress, checkpoint }, told);
            extra.progress = progress.map(|_| place).or(extra.progress);
            extra.checkpoint = checkpoint.map(|_| place).or(extra.checkpoint);
            self.draft.set_extra(id, extra);
            self.draft.set(id, &job, TransitionResult::Live(job), false);
        }
        Ok(Reply::Extended { deadline: job.until() })
    }

    /// The job, when this lease holds it still.
    fn held(&mut self, id: JobId, token: LeaseToken) -> Result<Job, Stop> {
        if let Some(job) = self.draft.live(id)
            && job.is_held_by(token)
            // A lease that this commit granted or extended can't have run out.
            && (job.until() > self.now || self.draft.has_changed(id))
        {
            return Ok(*job);
        }
        if !self.draft.has_changed(id) {
            self.settle([id]);
        }
        let state = match self.draft.job(id) {
            Some(standing) => standing.state(),
            // Neither live nor of this commit: its end is in the log.
            None => self.state.end(self.history, id)?.map(|end| end.ended.state),
        };
        match state {
            Some(state) => Err(Refusal::StaleLease { job: id, state }.into()),
            None => Err(Refusal::UnknownJob { job: id }.into()),
        }
    }
}
