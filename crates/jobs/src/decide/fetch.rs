//! Leasing jobs that may run to a worker.
//!
//! A job with a damaged payload is put on hold, with the reason, so that it does not block others.
//! If the system cannot read a payload for now, the fetch is refused and the job stays in place.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use quire_model::{ReadError, ReadErrorKind};

use super::draft::NextStep;
use super::{Decision, Stop};
use crate::backoff::draw;
use crate::codec::{JobEntry, To, unreadable};
use crate::id::QueueId;
use crate::job::{Job, RareFields};
use crate::name::{check_printable, check_queue_name};
use crate::read::{noted_at, payload_at};
use crate::refusal::FETCH_QUEUES_MAX;
use crate::{Cause, FetchedJob, JobId, JobLimit, JobState, Order, Refusal};

/// A fetch ends with the job whose payload and checkpoint reach this many bytes, so that the reply
/// fits into memory.
const FETCHED_BYTES: usize = 16 << 20;

impl Decision<'_, '_> {
    pub(super) fn fetch(
        &mut self,
        names: &[&str],
        order: Order<'_>,
        count: u32,
        lease_micros: u64,
        worker: &str,
    ) -> Result<Vec<FetchedJob>, Stop> {
        JobLimit::FetchQueues.check(names.len() as u64)?;
        JobLimit::FetchCount.check(u64::from(count))?;
        JobLimit::LeaseMicros.check(lease_micros)?;
        JobLimit::WorkerBytes.check(worker.len() as u64)?;
        check_printable([("worker", worker)])?;
        let weight = |number: usize| match order {
            Order::Strict => 1,
            Order::Weighted(weights) => weights.get(number).copied().unwrap_or(0),
        };
        if let Order::Weighted(weights) = order
            && (weights.len() != names.len() || weights.contains(&0))
        {
            return Err(Refusal::InvalidWeights.into());
        }

        let mut room = [(QueueId(0), 0); FETCH_QUEUES_MAX];
        let mut there = 0;
        for (number, name) in names.iter().enumerate() {
            match self.draft.queue(name) {
                Some(queue) => {
                    room[there] = (queue, weight(number));
                    there += 1;
                }
                // An existing queue has a valid name.
                None => check_queue_name(name)?,
            }
        }
        let queues = &mut room[..there];
        queues.iter().for_each(|(queue, _)| self.sweep(*queue));
        let mut fetched: Vec<FetchedJob> = Vec::new();
        let mut unreadable = Vec::new();
        let (mut tries, mut bytes) = (0, 0);
        // No two fetches share a token.
        self.draft.flush();
        while fetched.len() < count as usize
            && bytes < FETCHED_BYTES
            && let Some(next) = self.next_queue(queues, order, tries)
        {
            tries += 1;
            let queue = queues[next].0;
            match self.draft.take_pending(queue) {
                // The queue has no more jobs.
                None => queues[next].1 = 0,
                Some((id, job)) => {
                    if fetched.is_empty() {
                        let pending = self.state.queue(queue).counts[JobState::Pending as usize];
                        fetched.reserve(pending.clamp(1, u64::from(count)) as usize);
                    }
                    match self.lease(id, &job, lease_micros, worker, &mut fetched) {
                        Ok(()) => {
                            let job = fetched.last().expect("it was leased");
                            bytes += job.payload.len() + job.checkpoint.as_ref().map_or(0, Vec::len);
                        }
                        Err(error) if error.kind == ReadErrorKind::Damaged => {
                            unreadable.push((id, job, error.to_string()));
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
            }
        }
        self.draft.flush();
        for (id, job, reason) in unreadable {
            let held = NextStep::new(Cause::Unreadable, To::Held, job.attempt);
            self.draft.step(id, &job, NextStep { detail: reason.as_bytes(), ..held });
        }
        Ok(fetched)
    }

    /// The queue to fetch from next.
    fn next_queue(&self, queues: &[(QueueId, u32)], order: Order<'_>, tries: u64) -> Option<usize> {
        let Order::Weighted(_) = order else { return queues.iter().position(|(_, weight)| *weight > 0) };
        let all: u64 = queues.iter().map(|(_, weight)| u64::from(*weight)).sum();
        let drawn = draw(self.at.position.get(), tries).checked_rem(all)?;
        let mut before = 0;
        queues.iter().position(|(_, weight)| {
            before += u64::from(*weight);
            drawn < before
        })
    }

    /// Leases a job, which is then among those that are fetched.
    ///
    /// # Errors
    /// The error that made its payload unreadable. Nothing was changed.
    fn lease(
        &mut self,
        id: JobId,
        job: &Job,
        lease_micros: u64,
        worker: &str,
        fetched: &mut Vec<FetchedJob>,
    ) -> Result<(), ReadError> {
        let extra = self.draft.extra(id, job);
        let entry = self.history.entry(id.place())?;
        let entry =
            entry.ok_or_else(|| ReadError::damaged(Some(id.place()), "the enqueue entry of the job is missing"))?;
        let enqueued = JobEntry::of(&entry).map_err(|error| unreadable(entry.place, &error))?;
        let enqueued = enqueued
            .ok_or_else(|| ReadError::damaged(Some(id.place()), "the entry is not the enqueue entry of a job"))?;
        let payload = match extra.and_then(|extra| extra.content) {
            None => enqueued.payload.to_vec(),
            Some(place) => payload_at(self.history, place)?,
        };
        let checkpoint = match extra.and_then(|extra| extra.checkpoint) {
            None => None,
            Some(place) => noted_at(self.history, place)?.1,
        };
        let attempt = job.attempt.checked_add(1).expect("attempts are at most attempts_max");
        let run_until = enqueued.timeout_micros.map(|micros| self.now.plus_micros(micros));
        let lease_until = self.now.plus_micros(lease_micros);
        let deadline = run_until.map_or(lease_until, |until| until.min(lease_until));
        if run_until.is_some() {
            let extra = RareFields { run_until, ..extra.cloned().unwrap_or_default() };
            self.draft.set_extra(id, extra);
        }
        let token = self.draft.next_token(job.queue, worker);
        let leased = NextStep::new(Cause::Leased, To::Active { deadline, run_until }, attempt);
        self.draft.step(id, job, NextStep { shared: worker, ..leased });
        fetched.push(FetchedJob {
            job: id,
            token,
            queue: Arc::clone(&self.state.queue(job.queue).name),
            kind: String::from(enqueued.kind),
            group: self.draft.group_name(id, job),
            attempt,
            attempts_max: job.attempts_max,
            priority: job.priority,
            payload,
            checkpoint,
            deadline,
            run_until,
        });
        Ok(())
    }
}
