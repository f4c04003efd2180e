//! Leasing jobs that may run to a worker.
//!
//! A job whose payload is damaged is held, with the reason, so that it stands in nobody's way. One that the system would not
//! read now refuses the fetch, and stays where it is.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use quire_model::{ReadError, ReadErrorKind};

use super::{Decision, Stop};
use crate::backoff::draw;
use crate::codec::{Cause, Effect, Enqueued, To};
use crate::job::{Extra, Job};
use crate::name::check_queue_name;
use crate::queue::QueueId;
use crate::{FetchedJob, JobId, Limit, Order, Refusal};

impl Decision<'_> {
    pub(super) fn fetch(
        &mut self,
        names: &[&str],
        order: Order<'_>,
        count: u32,
        lease_micros: u64,
        worker: &str,
    ) -> Result<Vec<FetchedJob>, Stop> {
        Limit::FetchQueues.check(names.len() as u64)?;
        Limit::FetchCount.check(u64::from(count))?;
        Limit::LeaseMicros.check(lease_micros)?;
        Limit::WorkerBytes.check(worker.len() as u64)?;
        names.iter().try_for_each(|name| check_queue_name(name))?;
        let weight = |number: usize| match order {
            Order::Strict => 1,
            Order::Weighted(weights) => weights.get(number).copied().unwrap_or(0),
        };
        if let Order::Weighted(weights) = order
            && (weights.len() != names.len() || weights.contains(&0))
        {
            return Err(Refusal::InvalidWeights.into());
        }

        let queues =
            names.iter().enumerate().filter_map(|(number, name)| Some((self.draft.queue(name)?, weight(number))));
        let mut queues: Vec<(QueueId, u32)> = queues.collect();
        queues.iter().for_each(|(queue, _)| self.sweep(*queue));
        let mut fetched: Vec<FetchedJob> = Vec::new();
        let mut unreadable = Vec::new();
        let mut tries = 0;
        // No two fetches share a token.
        self.draft.flush();
        while fetched.len() < count as usize
            && let Some(next) = self.next_queue(&queues, order, tries)
        {
            tries += 1;
            let queue = queues[next].0;
            match self.draft.take_pending(queue) {
                None => drop(queues.remove(next)),
                Some(id) => match self.lease(id, queue, lease_micros, worker) {
                    Ok(job) => fetched.push(job),
                    Err(error) if error.kind == ReadErrorKind::Damaged => unreadable.push((id, error.to_string())),
                    Err(error) => return Err(error.into()),
                },
            }
        }
        self.draft.flush();
        for (id, reason) in unreadable {
            self.draft.step(id, Cause::Unreadable, To::Held, self.live(id).attempt, reason.as_bytes(), "");
        }
        Ok(fetched)
    }

    /// The queue to look at next.
    fn next_queue(&self, queues: &[(QueueId, u32)], order: Order<'_>, tries: u64) -> Option<usize> {
        let Order::Weighted(_) = order else { return (!queues.is_empty()).then_some(0) };
        let all: u64 = queues.iter().map(|(_, weight)| u64::from(*weight)).sum();
        let drawn = draw(self.at.position.get(), tries).checked_rem(all)?;
        let mut before = 0;
        queues.iter().position(|(_, weight)| {
            before += u64::from(*weight);
            drawn < before
        })
    }

    fn live(&self, id: JobId) -> Job {
        self.draft.job(id).and_then(|standing| standing.live()).expect("a job that is handed out is live")
    }

    /// Leases a job.
    ///
    /// # Errors
    /// Why its payload can't be read; then nothing was done.
    fn lease(&mut self, id: JobId, queue: QueueId, lease_micros: u64, worker: &str) -> Result<FetchedJob, ReadError> {
        let job = self.live(id);
        let mut extra = self.draft.extra(id, &job);
        let (entry, group) = (self.history.entry(id.place()), self.draft.group_name(id, &job));
        let entry = entry?.ok_or_else(|| ReadError::damaged(Some(id.place()), "it is gone"))?;
        let Effect::Enqueued(enqueued) = Effect::read(&entry)? else {
            return Err(ReadError::damaged(Some(id.place()), "it is not that of a job"));
        };
        let payload = self.payload(&enqueued, &extra)?;
        let checkpoint = self.checkpoint(&extra)?;
        let attempt = job.attempt.checked_add(1).expect("attempts are at most attempts_max");
        let run_until = enqueued.timeout_micros.map(|micros| self.now.plus_micros(micros));
        let lease_until = self.now.plus_micros(lease_micros);
        let deadline = run_until.map_or(lease_until, |until| until.min(lease_until));
        let token = self.draft.next_token(queue, worker);
        self.draft.step(id, Cause::Leased, To::Active { deadline, run_until }, attempt, b"", worker);
        if run_until.is_some() {
            extra.run_until = run_until;
            self.draft.set_extra(id, extra);
        }
        Ok(FetchedJob {
            job: id,
            token,
            queue: self.draft.queue_name(job.queue),
            kind: String::from(enqueued.kind),
            group,
            attempt,
            attempts_max: job.attempts_max,
            priority: job.priority,
            payload,
            checkpoint,
            deadline,
            run_until,
        })
    }

    fn payload(&self, enqueued: &Enqueued<'_>, extra: &Extra) -> Result<Vec<u8>, ReadError> {
        let Some(place) = extra.content else { return Ok(enqueued.payload.to_vec()) };
        crate::view::payload_at(self.history, place)
    }

    fn checkpoint(&self, extra: &Extra) -> Result<Option<Vec<u8>>, ReadError> {
        let Some(place) = extra.checkpoint else { return Ok(None) };
        Ok(crate::view::noted_at(self.history, place)?.1)
    }
}
