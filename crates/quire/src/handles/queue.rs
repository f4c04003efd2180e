//! A queue, by name.

use std::time::Duration;

use crate::database::Database;
use crate::decide::Commands;
use crate::error::{Error, ErrorKind, Result};
use crate::handles::only;
use crate::jobs::{Command, FetchedJob, JobId, JobState, JobView, LeaseToken, NewJob, QueueStats, Reply, Retry};

/// A queue. See [`Database::queue`].
#[derive(Debug, Clone, Copy)]
pub struct Queue<'a> {
    database: &'a Database,
    name: &'a str,
    lease: Duration,
}

impl<'a> Queue<'a> {
    pub(crate) fn new(database: &'a Database, name: &'a str) -> Self {
        Queue { database, name, lease: Duration::from_secs(30) }
    }

    /// Sets how long fetched jobs are leased. Default: 30 seconds.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Enqueues a job, and waits until it is durable.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] and the errors of [`Database::commit`].
    pub fn enqueue(&self, job: NewJob<'_>) -> Result<JobId> {
        match self.commit(Command::Enqueue { queue: self.name, job })? {
            Reply::Enqueued { job, .. } => Ok(job),
            other => unreachable!("an enqueue is answered by the job, not by {other:?}"),
        }
    }

    /// Leases at most `count` jobs to a worker, and waits until the leases are durable. None is an answer, too.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] and the errors of [`Database::commit`].
    pub fn fetch(&self, worker: &str, count: u32) -> Result<Vec<FetchedJob>> {
        let lease_micros = u64::try_from(self.lease.as_micros()).unwrap_or(u64::MAX);
        match self.commit(Command::Fetch { queues: &[self.name], count, lease_micros, worker })? {
            Reply::Fetched(jobs) => Ok(jobs),
            other => unreachable!("a fetch is answered by jobs, not by {other:?}"),
        }
    }

    /// Completes a job, and waits until that is durable.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] for a stale lease, and the errors of [`Database::commit`].
    pub fn ack(&self, job: JobId, token: LeaseToken, result: &[u8]) -> Result<()> {
        self.commit(Command::Ack { job, token, result }).map(|_| ())
    }

    /// Ends an attempt with an error, and waits until that is durable.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] for a stale lease, and the errors of [`Database::commit`].
    pub fn fail(&self, job: JobId, token: LeaseToken, error: &str, retry: Retry) -> Result<()> {
        self.commit(Command::Fail { job, token, error, retry }).map(|_| ())
    }

    /// Extends a lease from now on, and waits until that is durable.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] for a stale lease, and the errors of [`Database::commit`].
    pub fn heartbeat(&self, job: JobId, token: LeaseToken) -> Result<()> {
        let lease_micros = u64::try_from(self.lease.as_micros()).unwrap_or(u64::MAX);
        self.commit(Command::Heartbeat { job, token, lease_micros }).map(|_| ())
    }

    /// How many jobs are in each state; `None` when the queue is not there.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`].
    pub fn stats(&self) -> Result<Option<QueueStats>> {
        self.database.read(|view| view.jobs.queue_stats(self.name))?.wait()
    }

    /// A job, live or finished; `None` when there is no such job.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`], [`ErrorKind::Io`] and [`ErrorKind::Failed`].
    pub fn job(&self, id: JobId) -> Result<Option<JobView>> {
        Ok(self.database.read(|view| view.jobs.job(view.history, id))?.wait()??)
    }

    /// The ids of jobs in a state, in order, from behind `after` on, and where the next page goes on.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`], [`ErrorKind::Io`] and [`ErrorKind::Failed`].
    pub fn list(&self, state: JobState, after: Option<JobId>, count_max: usize) -> Result<crate::jobs::Page> {
        Ok(self.database.read(|view| view.jobs.list(view.history, self.name, state, after, count_max))?.wait()??)
    }

    fn commit(&self, command: Command<'_>) -> Result<Reply> {
        let ticket = self.database.decide(Commands { jobs: &[command], ..Commands::default() })?;
        only(ticket.wait()?.map(|(_, replies)| replies.jobs))
    }
}

impl From<crate::jobs::ParseIdError> for Error {
    fn from(error: crate::jobs::ParseIdError) -> Self {
        Error::new(ErrorKind::Invalid, error.to_string())
    }
}
