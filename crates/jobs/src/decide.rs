//! Commands to effects: who gets which job, whose lease still holds, what time has brought.
//!
//! Pure. Limits are checked here, before anything is pushed for the command; times come from the record.

use alloc::string::String;
use alloc::vec::Vec;

use quire_model::{At, Denied, Effects, History, Place, ReadError, Timestamp};

use crate::codec::{DUE_JOBS_MAX, Effect, Verdict, job_tag};
use crate::draft::Draft;
use crate::history::state_after;
use crate::name::check_queue_name;
use crate::queue::QueueId;
use crate::state::{Job, Jobs, Phase};
use crate::transition::Standing;
use crate::{AckItem, Command, FetchedJob, JobId, LeaseToken, Limit, NewJob, Refusal, Reply, Retry};

/// How many jobs one command takes in at most of what time has brought: of each queue that a fetch names, or of all.
const SWEEP_JOBS_MAX: usize = 1_024;

/// Why a command stops short.
enum Stop {
    Refused(Refusal),
    Unreadable(ReadError),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Stop::Refused(refusal)
    }
}

impl From<ReadError> for Stop {
    fn from(error: ReadError) -> Self {
        Stop::Unreadable(error)
    }
}

pub(crate) fn decide(
    state: &Jobs,
    history: &dyn History,
    at: At,
    commands: &[Command<'_>],
    effects: &mut dyn Effects,
    replies: &mut Vec<Reply>,
) -> Result<(), Denied<Refusal>> {
    let mut decision = Decision { state, history, now: at.time, draft: Draft::new(state, at, effects) };
    for (command, wanted) in commands.iter().enumerate() {
        match decision.command(wanted) {
            Ok(reply) => replies.push(reply),
            Err(Stop::Refused(refusal)) => return Err(Denied::Refused { command, refusal }),
            Err(Stop::Unreadable(error)) => return Err(Denied::Unreadable(error)),
        }
    }
    Ok(())
}

struct Decision<'d> {
    state: &'d Jobs,
    history: &'d dyn History,
    now: Timestamp,
    draft: Draft<'d>,
}

impl Decision<'_> {
    fn command(&mut self, command: &Command<'_>) -> Result<Reply, Stop> {
        match *command {
            Command::Enqueue { queue, job } => Ok(self.enqueue(queue, &job)?),
            Command::Fetch { queues, count, lease_micros, worker } => self.fetch(queues, count, lease_micros, worker),
            Command::Ack { job, token, result } => {
                self.ack(&AckItem { job, token, result })?;
                Ok(Reply::Acked)
            }
            Command::AckMany { items } => self.ack_many(items),
            Command::Fail { job, token, error, retry } => self.fail(job, token, error, retry),
            Command::Heartbeat { job, token, lease_micros } => self.heartbeat(job, token, lease_micros),
            Command::Tick => Ok(self.tick()),
        }
    }

    fn enqueue(&mut self, queue: &str, job: &NewJob<'_>) -> Result<Reply, Refusal> {
        check_queue_name(queue)?;
        Limit::KindBytes.check(job.kind.len() as u64)?;
        Limit::AttemptsMax.check(u64::from(job.attempts_max))?;
        Limit::Tags.check(job.tags.len() as u64)?;
        job.tags.iter().try_for_each(|tag| Limit::TagBytes.check(tag.len() as u64))?;
        let queue = match self.draft.queue(queue) {
            Some(queue) => queue,
            None => {
                Limit::Queues.check(self.draft.queue_count() as u64 + 1)?;
                self.draft.create_queue(queue)
            }
        };
        let (job, state) = self.draft.enqueue(queue, job);
        Ok(Reply::Enqueued { job, state })
    }

    fn fetch(&mut self, queues: &[&str], count: u32, lease_micros: u64, worker: &str) -> Result<Reply, Stop> {
        Limit::FetchQueues.check(queues.len() as u64)?;
        Limit::FetchCount.check(u64::from(count))?;
        Limit::LeaseMicros.check(lease_micros)?;
        Limit::WorkerBytes.check(worker.len() as u64)?;
        queues.iter().try_for_each(|name| check_queue_name(name))?;

        let deadline = self.now.plus_micros(lease_micros);
        let mut fetched = Vec::new();
        for name in queues {
            let Some(queue) = self.draft.queue(name) else { continue };
            if fetched.len() < count as usize {
                self.sweep(queue);
            }
            while fetched.len() < count as usize
                && let Some(job) = self.draft.take_pending(queue)
            {
                fetched.push(self.lease(job, name, deadline, worker)?);
            }
        }
        Ok(Reply::Fetched(fetched))
    }

    fn lease(&mut self, id: JobId, queue: &str, deadline: Timestamp, worker: &str) -> Result<FetchedJob, Stop> {
        let Some(Standing::Live(job)) = self.draft.job(id) else { panic!("job {id} is pending but not live") };
        let gone = || ReadError::damaged(Some(id.place()), "a live job's entry is gone");
        let entry = self.history.entry(id.place())?.ok_or_else(gone)?;
        let Effect::Enqueued(enqueued) = Effect::read(&entry)? else { return Err(Stop::Unreadable(gone())) };
        let attempt = job.attempt.checked_add(1).expect("attempts are at most attempts_max");
        let token = LeaseToken::new(self.draft.push(&Effect::Leased { job: id, attempt, deadline, worker }).place);
        Ok(FetchedJob {
            job: id,
            token,
            queue: String::from(queue),
            kind: String::from(enqueued.kind),
            attempt,
            priority: job.priority,
            payload: enqueued.payload.to_vec(),
            deadline,
        })
    }

    fn ack(&mut self, item: &AckItem<'_>) -> Result<(), Stop> {
        let job = self.held(item.job, item.token)?;
        self.draft.push(&Effect::Completed { job: item.job, attempt: job.attempt, result: item.result });
        Ok(())
    }

    fn ack_many(&mut self, items: &[AckItem<'_>]) -> Result<Reply, Stop> {
        Limit::AckItems.check(items.len() as u64)?;
        let mut outcomes = Vec::with_capacity(items.len());
        for item in items {
            outcomes.push(match self.ack(item) {
                Ok(()) => Ok(()),
                Err(Stop::Refused(refusal)) => Err(refusal),
                Err(unreadable) => return Err(unreadable),
            });
        }
        Ok(Reply::AckedMany(outcomes))
    }

    fn fail(&mut self, id: JobId, token: LeaseToken, error: &str, retry: Retry) -> Result<Reply, Stop> {
        let job = self.held(id, token)?;
        let retry_at = match retry {
            Retry::Never => None,
            _ if !job.attempts_left() => None,
            Retry::At(time) => Some(time.max(self.now)),
            Retry::Backoff => Some(self.now.plus_micros(job.backoff.delay_micros(job.attempt))),
        };
        let verdict = retry_at.map_or(Verdict::Dead, |due| Verdict::Retrying { due });
        self.draft.push(&Effect::Failed { job: id, attempt: job.attempt, verdict, error });
        Ok(Reply::Failed { retry_at })
    }

    fn heartbeat(&mut self, id: JobId, token: LeaseToken, lease_micros: u64) -> Result<Reply, Stop> {
        Limit::LeaseMicros.check(lease_micros)?;
        self.held(id, token)?;
        let deadline = self.now.plus_micros(lease_micros);
        self.draft.push(&Effect::Extended { job: id, deadline });
        Ok(Reply::Extended { deadline })
    }

    /// The job, when this lease holds it still.
    fn held(&mut self, id: JobId, token: LeaseToken) -> Result<Job, Stop> {
        // A lease that this commit granted or extended can't have run out.
        if !self.draft.has_changed(id) {
            self.settle([id]);
        }
        let state = match self.draft.job(id) {
            Some(Standing::Live(job)) if matches!(job.phase, Phase::Active { token: held, .. } if held == token) => {
                return Ok(job);
            }
            Some(standing) => standing.state(),
            // Neither live nor of this commit: its last entry tells how it ended.
            None => match self.history.previous(&[job_tag(id).tag()], Place::END)? {
                Some(last) => state_after(&last)?,
                None => return Err(Refusal::UnknownJob { job: id }.into()),
            },
        };
        Err(Refusal::StaleLease { job: id, state }.into())
    }

    fn tick(&mut self) -> Reply {
        let state = self.state;
        let due_queues = state.timers.iter().take_while(|(time, _)| *time <= self.now).map(|(_, queue)| *queue);
        let due = due_queues.flat_map(|queue| state.queue(queue).due(self.now));
        let mut due: Vec<JobId> = due.filter(|id| !self.draft.has_changed(*id)).take(SWEEP_JOBS_MAX + 1).collect();
        let more = due.len() > SWEEP_JOBS_MAX;
        due.truncate(SWEEP_JOBS_MAX);
        let jobs = due.len();
        self.settle(due);
        Reply::Ticked { jobs, more }
    }

    /// Takes in what time has brought to a queue.
    fn sweep(&mut self, queue: QueueId) {
        let Some(queue) = self.state.queues.get(queue.index()) else { return };
        let due = queue.due(self.now).filter(|id| !self.draft.has_changed(*id));
        let due: Vec<JobId> = due.take(SWEEP_JOBS_MAX).collect();
        self.settle(due);
    }

    /// Takes in what time has brought to these jobs, if anything.
    fn settle(&mut self, ids: impl IntoIterator<Item = JobId>) {
        let mut may_run = Vec::new();
        for id in ids {
            let Some(Standing::Live(job)) = self.draft.job(id) else { continue };
            match job.phase {
                Phase::Active { deadline, .. } if deadline <= self.now => {
                    let verdict = if job.attempts_left() { Verdict::Pending } else { Verdict::Dead };
                    self.draft.push(&Effect::LeaseExpired { job: id, attempt: job.attempt, verdict });
                }
                Phase::Scheduled { run_at: due } | Phase::Retrying { due } if due <= self.now => may_run.push(id),
                _ => {}
            }
        }
        for jobs in may_run.chunks(DUE_JOBS_MAX) {
            self.draft.push(&Effect::Due { jobs: jobs.to_vec() });
        }
    }
}
