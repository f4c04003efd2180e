//! The naive model: a list of jobs that is looked through for every question.
//!
//! It takes time in eagerly, at the beginning of every commit; the real model does when something asks. It gives the
//! answers in full, but for ids and tokens, which it takes from the real answer.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use quire_jobs::{Command, FetchedJob, JobId, JobState, LeaseToken, NewJob, QueueStats, Refusal, Reply, Retry};
use quire_model::{Place, Timestamp};

#[derive(Debug, Clone)]
struct Job {
    id: JobId,
    queue: &'static str,
    spec: NewJob<'static>,
    attempt: u16,
    state: JobState,
    /// When `state` ends by itself.
    until: Timestamp,
    token: Option<LeaseToken>,
    /// Enqueued or failed by the commit under way.
    fresh: bool,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Naive {
    now: Timestamp,
    jobs: Vec<Job>,
    /// Every lease ever granted.
    pub(crate) leases: Vec<(JobId, LeaseToken)>,
}

impl Naive {
    pub(crate) fn begin_commit(&mut self, now: Timestamp) {
        self.now = now;
        for job in &mut self.jobs {
            job.fresh = false;
            let over = job.until <= now;
            match job.state {
                JobState::Scheduled | JobState::Retrying if over => job.state = JobState::Pending,
                JobState::Active if over && job.attempt < job.spec.attempts_max => job.state = JobState::Pending,
                JobState::Active if over => job.state = JobState::Dead,
                _ => {}
            }
        }
    }

    /// The answer to a command. `real` is the real answer, when the commit was not refused.
    pub(crate) fn answer(&mut self, command: &Command<'static>, real: Option<&Reply>) -> Result<Reply, Refusal> {
        let now = self.now;
        match *command {
            Command::Enqueue { queue, job } => Ok(self.enqueue(queue, job, real)),
            Command::Fetch { queues, count, lease_micros, .. } => {
                Ok(self.fetch(queues, count, now.plus_micros(lease_micros), real))
            }
            Command::Ack { job, token, .. } => self.ack(job, token).map(|()| Reply::Acked),
            Command::AckMany { items } => {
                Ok(Reply::AckedMany(items.iter().map(|item| self.ack(item.job, item.token)).collect()))
            }
            Command::Fail { job, token, retry, .. } => {
                let job = self.held(job, token)?;
                let wait = job.spec.backoff.base_micros << (job.attempt - 1);
                let retry_at = match retry {
                    Retry::Never => None,
                    _ if job.attempt == job.spec.attempts_max => None,
                    Retry::At(time) => Some(time.max(now)),
                    Retry::Backoff => Some(now.plus_micros(wait.min(job.spec.backoff.max_micros))),
                };
                job.state = if retry_at.is_some() { JobState::Retrying } else { JobState::Dead };
                job.until = retry_at.unwrap_or(now);
                job.fresh = true;
                Ok(Reply::Failed { retry_at })
            }
            Command::Heartbeat { job, token, lease_micros } => {
                let deadline = now.plus_micros(lease_micros);
                self.held(job, token)?.until = deadline;
                Ok(Reply::Extended { deadline })
            }
            // How many jobs there were still to take in is the real one's own affair.
            Command::Tick => match real {
                Some(Reply::Ticked { jobs, .. }) => Ok(Reply::Ticked { jobs: *jobs, more: false }),
                _ => Ok(Reply::Ticked { jobs: 0, more: false }),
            },
        }
    }

    fn enqueue(&mut self, queue: &'static str, spec: NewJob<'static>, real: Option<&Reply>) -> Reply {
        let id = match real {
            Some(Reply::Enqueued { job, .. }) => *job,
            _ => JobId::new(Place::END),
        };
        let until = spec.run_at.unwrap_or(self.now);
        let state = if until > self.now { JobState::Scheduled } else { JobState::Pending };
        self.jobs.push(Job { id, queue, spec, attempt: 0, state, until, token: None, fresh: true });
        Reply::Enqueued { job: id, state }
    }

    fn fetch(&mut self, queues: &[&str], count: u32, deadline: Timestamp, real: Option<&Reply>) -> Reply {
        let real: &[FetchedJob] = if let Some(Reply::Fetched(jobs)) = real { jobs } else { &[] };
        let rank = |job: &Job| queues.iter().position(|queue| *queue == job.queue);
        let fetchable = |job: &&mut Job| job.state == JobState::Pending && !job.fresh && rank(job).is_some();
        let mut jobs: Vec<&mut Job> = self.jobs.iter_mut().filter(fetchable).collect();
        jobs.sort_by_key(|job| (rank(job), Reverse(job.spec.priority), job.id));
        jobs.truncate(count as usize);
        let mut fetched = Vec::new();
        for (number, job) in jobs.into_iter().enumerate() {
            let token = real.get(number).map_or(LeaseToken::new(Place::END), |job| job.token);
            job.state = JobState::Active;
            job.attempt += 1;
            job.until = deadline;
            job.token = Some(token);
            self.leases.push((job.id, token));
            fetched.push(FetchedJob {
                job: job.id,
                token,
                queue: job.queue.into(),
                kind: job.spec.kind.into(),
                attempt: job.attempt,
                priority: job.spec.priority,
                payload: job.spec.payload.into(),
                deadline,
            });
        }
        Reply::Fetched(fetched)
    }

    fn held(&mut self, id: JobId, token: LeaseToken) -> Result<&mut Job, Refusal> {
        let job = self.jobs.iter_mut().find(|job| job.id == id).ok_or(Refusal::UnknownJob { job: id })?;
        let held = job.state == JobState::Active && job.token == Some(token);
        if held { Ok(job) } else { Err(Refusal::StaleLease { job: id, state: job.state }) }
    }

    fn ack(&mut self, id: JobId, token: LeaseToken) -> Result<(), Refusal> {
        self.held(id, token)?.state = JobState::Completed;
        Ok(())
    }

    pub(crate) fn ids(&self, queue: &str, state: JobState) -> Vec<JobId> {
        self.jobs.iter().filter(|job| job.queue == queue && job.state == state).map(|job| job.id).collect()
    }

    pub(crate) fn stats(&self, queue: &str) -> QueueStats {
        let count = |state| self.ids(queue, state).len() as u64;
        QueueStats {
            scheduled: count(JobState::Scheduled),
            pending: count(JobState::Pending),
            active: count(JobState::Active),
            retrying: count(JobState::Retrying),
            completed: count(JobState::Completed),
            dead: count(JobState::Dead),
        }
    }

    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        let timed = |job: &&Job| matches!(job.state, JobState::Scheduled | JobState::Retrying | JobState::Active);
        self.jobs.iter().filter(timed).map(|job| job.until).min()
    }

    /// That no two leases ever had the same token, and no token went to two jobs.
    pub(crate) fn assert_tokens_unique(&self) {
        let tokens: BTreeSet<LeaseToken> = self.leases.iter().map(|(_, token)| *token).collect();
        assert_eq!(tokens.len(), self.leases.len(), "each lease has a token of its own");
    }
}
