//! A queue, by name.

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use quire_model::{Operation, Resource, ResourceKind, micros_of};
use quire_shard::{Commands, EventRef};

use crate::commit::NewJob;
use crate::database::Database;
use crate::handles::commit_one;
use crate::handles::{Event, Worker};
use crate::jobs::{
    Change, Command, Cursor, FetchedJob, Filter, JobId, JobPage, JobState, JobView, LeaseToken, Order, QueueChange,
    QueueStats, Refusal, Reply, States,
};
use crate::reading::PermittedView;
use crate::time::{DueTime, RetryTime};
use crate::{ErrorKind, Result};

/// A queue. See [`Database::queue`].
///
/// ```
/// use std::time::Duration;
///
/// use quire::NewJob;
///
/// # let directory = tempfile::tempdir()?;
/// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
/// let queue = db.queue("mails").lease(Duration::from_secs(60));
/// let order = 17;
/// let id = queue.enqueue(NewJob::new(format!("confirm order {order}")).kind("confirm"))?;
/// let job = queue.fetch(&format!("worker-{}", std::process::id()), 1)?.remove(0);
/// assert_eq!(job.job, id);
/// queue.ack(job.job, job.token, format!("sent order {order}"))?;
/// assert_eq!(queue.stats()?.expect("the queue has had a job").completed, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Queue {
    database: Database,
    name: Arc<str>,
    lease: Duration,
}

impl Queue {
    pub(crate) fn new(database: &Database, name: &str) -> Self {
        Queue { database: database.clone(), name: name.into(), lease: Duration::from_secs(30) }
    }

    /// Sets the lease time of fetched jobs. Default: 30 seconds.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Enqueues a job, and waits until it is durable. When a job with the same key exists and is
    /// kept, returns the id of that job.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use quire::NewJob;
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let order = 17;
    /// let reminder = NewJob::new(format!("remind of order {order}"))
    ///     .unique(format!("remind:{order}"))
    ///     .run_at(Duration::from_secs(24 * 60 * 60)); // in a day
    /// let id = db.queue("mails").enqueue(reminder.clone())?;
    /// assert_eq!(db.queue("mails").enqueue(reminder)?, id, "the key is held");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `ErrorKind::Refused` and the errors of [`Database::commit`].
    pub fn enqueue<'c>(&self, job: impl Into<NewJob<'c>>) -> Result<JobId> {
        let job = job.into();
        let tags = job.tags().listed();
        let job = job.view(self.database.now(), job.tags().slice(tags.as_deref()));
        match self.commit(Command::Enqueue { queue: &self.name, job })? {
            Reply::Enqueued { job, .. } => Ok(job),
            other => unreachable!("an enqueue is answered by the job, not by {other:?}"),
        }
    }

    /// Leases up to `count` jobs to a worker, and waits until the leases are durable. Returns an
    /// empty list when there are no jobs.
    ///
    /// # Errors
    /// `ErrorKind::Refused` and the errors of [`Database::commit`].
    pub fn fetch(&self, worker: &str, count: u32) -> Result<Vec<FetchedJob>> {
        let (queues, lease_micros) = (&[&*self.name], self.lease_micros());
        match self.commit(Command::Fetch { queues, order: Order::Strict, count, lease_micros, worker })? {
            Reply::Fetched(jobs) => Ok(jobs),
            other => unreachable!("a fetch is answered by jobs, not by {other:?}"),
        }
    }

    /// Fetches jobs like [`Queue::fetch`], with the events of a named subscription's jobs. See
    /// [`EventStore::put_subscription`](crate::EventStore::put_subscription).
    ///
    /// # Errors
    /// `ErrorKind::Refused`, `ErrorKind::Damaged`, `ErrorKind::Io`, and the errors of
    /// [`Database::commit`].
    pub fn fetch_events(&self, worker: &str, count: u32) -> Result<Vec<SubscriptionJob>> {
        let with_event = |job: FetchedJob| Ok(SubscriptionJob { event: self.database.event_of(&job)?, job });
        self.fetch(worker, count)?.into_iter().map(with_event).collect()
    }

    /// Completes a job with a result, which may be empty, and waits until the completion is
    /// durable.
    ///
    /// # Errors
    /// `ErrorKind::Refused` for a stale lease, and the errors of [`Database::commit`].
    pub fn ack(&self, job: JobId, token: LeaseToken, result: impl AsRef<[u8]>) -> Result<()> {
        self.commit(Command::Ack { job, token, result: result.as_ref() }).map(|_| ())
    }

    /// Ends an attempt with an error, and waits until the end is durable. `retry` is a
    /// [`Retry`](crate::jobs::Retry), a point in time, or a duration from now.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use quire::NewJob;
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let queue = db.queue("mails");
    /// queue.enqueue(NewJob::new("order 17"))?;
    /// let job = queue.fetch("worker-1", 1)?.remove(0);
    /// let error = format!("the mail server is busy, attempt {}", job.attempt);
    /// queue.fail(job.job, job.token, error, Duration::from_secs(60))?; // tried again in a minute
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `ErrorKind::Refused` for a stale lease, and the errors of [`Database::commit`].
    pub fn fail(
        &self,
        job: JobId,
        token: LeaseToken,
        error: impl AsRef<str>,
        retry: impl Into<RetryTime>,
    ) -> Result<()> {
        let (error, retry) = (error.as_ref(), retry.into().at(self.database.now()));
        self.commit(Command::Fail { job, token, error, retry }).map(|_| ())
    }

    /// Extends a lease, counted from now, and waits until the extension is durable.
    ///
    /// # Errors
    /// `ErrorKind::Refused` for a stale lease, and the errors of [`Database::commit`].
    pub fn heartbeat(&self, job: JobId, token: LeaseToken) -> Result<()> {
        let lease_micros = Some(self.lease_micros());
        self.commit(Command::Heartbeat { job, token, lease_micros, progress: None, checkpoint: None }).map(|_| ())
    }

    /// Returns a job to the queue until a point in time, or for a duration from now. Waits until
    /// the change is durable. The attempt does not count.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use quire::NewJob;
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let queue = db.queue("mails");
    /// queue.enqueue(NewJob::new("order 17"))?;
    /// let job = queue.fetch("worker-1", 1)?.remove(0);
    /// queue.snooze(job.job, job.token, Duration::from_secs(60))?;
    /// assert!(queue.fetch("worker-1", 1)?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `ErrorKind::Refused` for a stale lease, and the errors of [`Database::commit`].
    pub fn snooze(&self, job: JobId, token: LeaseToken, until: impl Into<DueTime>) -> Result<()> {
        let until = until.into().at(self.database.now());
        self.commit(Command::Snooze { job, token, until }).map(|_| ())
    }

    /// Changes a job of any queue, with or without a lease, and waits until the change is durable.
    /// Returns the job's new state; `None` when the job is deleted.
    ///
    /// ```
    /// use quire::NewJob;
    /// use quire::jobs::{Change, JobState};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let queue = db.queue("mails");
    /// let order = 17;
    /// let job = queue.enqueue(NewJob::new(format!("order {order}")))?;
    /// let reason = format!("order {order} was withdrawn");
    /// assert_eq!(queue.change(job, Change::Cancel { reason: &reason })?, Some(JobState::Cancelled));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `ErrorKind::Refused` when the job's state does not allow the change. The errors of
    /// [`Database::commit`].
    pub fn change(&self, job: JobId, change: Change<'_>) -> Result<Option<JobState>> {
        match self.commit(Command::Change { job, change })? {
            Reply::Changed { state } => Ok(state),
            other => unreachable!("a change is answered by a state, not by {other:?}"),
        }
    }

    /// Changes a setting of the queue, and waits until the change is durable.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use quire::jobs::{QueueChange, Rate};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let per_second = 20;
    /// let rate = Rate::token_bucket(per_second, Duration::from_secs(1), per_second);
    /// db.queue("mails").set(QueueChange::Rate(Some(rate)))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `ErrorKind::Refused` and the errors of [`Database::commit`].
    pub fn set(&self, change: QueueChange) -> Result<()> {
        self.commit(Command::SetQueue { queue: &self.name, change }).map(|_| ())
    }

    /// Commits several commands at once, and waits until they are durable. Each command succeeds or
    /// fails by itself.
    ///
    /// # Errors
    /// `ErrorKind::Refused` for more than 1,024 commands. The errors of [`Database::commit`].
    pub fn each(&self, commands: &[Command<'_>]) -> Result<Vec<std::result::Result<Reply, Refusal>>> {
        match self.commit(Command::Each(commands))? {
            Reply::Each(answers) => Ok(answers),
            other => unreachable!("an `Each` has one reply for each command, not {other:?}"),
        }
    }

    /// Returns a builder for a worker of this process on the queue.
    pub fn worker(&self, name: &str) -> Worker {
        Worker::new(self.clone(), name)
    }

    /// Returns the number of jobs in each state. `None` when the queue does not exist.
    ///
    /// # Errors
    /// `ErrorKind::Failed`.
    pub fn stats(&self) -> Result<Option<QueueStats>> {
        let queue = Resource::new(ResourceKind::Queue, &self.name);
        self.database.read_for(queue, Operation::Describe, |view| view.jobs.queue_stats(&self.name))?.wait()
    }

    /// Returns a job, live or finished. `None` when the job does not exist.
    ///
    /// # Errors
    /// `ErrorKind::Damaged`, `ErrorKind::Io` and `ErrorKind::Failed`.
    pub fn job(&self, id: JobId) -> Result<Option<JobView>> {
        let look = |view: &PermittedView<'_>| match view.permits_job(id, Operation::Read)? {
            true => view.jobs.job(view.history, id),
            false => Ok(None),
        };
        Ok(self.database.read_permitted(look)?.wait()??)
    }

    /// Returns the jobs in a state after the cursor `after`, and the cursor of the next page.
    ///
    /// ```
    /// use quire::NewJob;
    /// use quire::jobs::JobState;
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let queue = db.queue("mails");
    /// for order in 1..=3 {
    ///     queue.enqueue(NewJob::new(format!("order {order}")))?;
    /// }
    /// let page = queue.list(JobState::Pending, None, 2)?;
    /// let rest = queue.list(JobState::Pending, page.next, 2)?;
    /// assert_eq!((page.jobs.len(), rest.jobs.len()), (2, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `ErrorKind::Damaged`, `ErrorKind::Io` and `ErrorKind::Failed`.
    pub fn list(&self, state: JobState, after: Option<Cursor>, count_max: usize) -> Result<JobPage> {
        let filter = Filter { queue: Some(&*self.name), states: States::of([state]), ..Filter::default() };
        self.database.search_jobs(&filter, after, count_max)
    }

    pub(super) fn database(&self) -> &Database {
        &self.database
    }

    /// Returns the name of the queue.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn lease_time(&self) -> Duration {
        self.lease
    }

    fn lease_micros(&self) -> u64 {
        micros_of(self.lease)
    }

    fn commit(&self, command: Command<'_>) -> Result<Reply> {
        let commands = Commands { jobs: slice::from_ref(&command), ..Commands::default() };
        commit_one(&self.database, &commands, |replies| &mut replies.jobs)
    }
}

/// A job of a named subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionJob {
    /// The event; `None` when it no longer exists, or when no subscription enqueued the job.
    pub event: Option<Event>,
    /// The job to acknowledge.
    pub job: FetchedJob,
}

impl Database {
    /// Returns the event of a named subscription's job. `None` when the event no longer exists, or
    /// the job has no event. A client that may not read the event store gets `None`, too: a job is
    /// delivered without its event.
    ///
    /// # Errors
    /// `ErrorKind::Damaged`, `ErrorKind::Io`.
    pub fn event_of(&self, job: &FetchedJob) -> Result<Option<Event>> {
        let named = std::str::from_utf8(&job.payload).ok().and_then(|text| text.parse::<EventRef>().ok());
        match named.map_or(Ok(None), |named| self.events(&named.store).event_at(named.position)) {
            Err(error) if error.kind() == ErrorKind::NotPermitted => Ok(None),
            found => found,
        }
    }
}
