//! A worker: threads that fetch jobs of a queue, run a handler on each, and commit its outcome.
//!
//! An idle thread sleeps until a commit or the clock can bring a job. A separate thread extends the
//! leases of running jobs, so a handler can take any length of time. When the process dies, its
//! leases expire and other workers retry the jobs.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::commit::Commit;
use crate::handler_error::HandlerError;
use crate::handles::Queue;
use crate::jobs::{FetchedJob, JobId, LeaseToken};
use crate::outcome::Outcome;
use crate::stopper::Stopper;
use crate::time::{DueTime, RetryTime};
use crate::{Error, ErrorKind, Result};

/// Works the jobs of a queue. See [`Queue::worker`].
///
/// ```
/// use quire::{Commit, Database, Durability, JobOutcome, NewJob};
/// use quire::events::NewEvent;
///
/// # let directory = tempfile::tempdir()?;
/// let db = Database::builder(directory.path()).durability(Durability::Os).open()?;
/// db.queue("mails").enqueue(NewJob::new("17"))?;
///
/// let worker = db.queue("mails").worker("mailer-1");
/// let stop = worker.stopper();
/// let summary = worker.run(|job| {
///     stop.stop(); // after this job
///     let order: u32 = std::str::from_utf8(&job.payload)?.parse()?;
///     // The event and the acknowledgement are one commit: both happen, or neither.
///     let sent = NewEvent::new("MailSent").tag(format!("order:{order}"));
///     Ok(Commit::new().append("orders", [sent]))
/// })?;
/// assert_eq!(summary.completed, 1);
/// assert_eq!(db.events("orders").head()?.get(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Worker {
    pub(super) queue: Queue,
    pub(super) name: Arc<str>,
    pub(super) concurrency: usize,
    pub(super) stop: Stopper,
    on_error: Option<OnJobError>,
}

type OnJobError = Arc<dyn Fn(&FetchedJob, &Error) + Send + Sync>;

/// The outcome of a job, as its handler returns it.
///
/// `()` converts to an acknowledgement, and a [`Commit`] to a commit with an acknowledgement.
///
/// ```
/// use std::time::Duration;
///
/// use quire::jobs::Retry;
/// use quire::{JobOutcome, NewJob};
///
/// # let directory = tempfile::tempdir()?;
/// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
/// for payload in ["17", "later", "none"] {
///     db.queue("mails").enqueue(NewJob::new(payload))?;
/// }
/// let worker = db.queue("mails").worker("mailer-1");
/// let (stop, left) = (worker.stopper(), std::sync::atomic::AtomicUsize::new(3));
/// let summary = worker.run(|job| {
///     if left.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) == 1 {
///         stop.stop();
///     }
///     match std::str::from_utf8(&job.payload) {
///         Ok("later") => JobOutcome::snooze(Duration::from_secs(60)),
///         Ok(order) if order.parse::<u32>().is_ok() => JobOutcome::ack_with(format!("sent {order}")),
///         _ => JobOutcome::fail(format!("job {} has no order", job.job), Retry::Never),
///     }
/// })?;
/// assert_eq!((summary.completed, summary.snoozed, summary.failed), (1, 1, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub enum JobOutcome {
    /// Completes the job with a result, which may be empty.
    Ack(Vec<u8>),
    /// Applies a commit and completes the job, both in one commit. When the commit is refused, the
    /// attempt has failed.
    Commit(Commit<'static>),
    /// Ends the attempt with an error.
    Fail(String, RetryTime),
    /// Returns the job to its queue until a time. The attempt does not count.
    Snooze(DueTime),
}

impl JobOutcome {
    /// Completes the job with an empty result.
    pub fn ack() -> Self {
        JobOutcome::Ack(Vec::new())
    }

    /// Completes the job with a result.
    pub fn ack_with(result: impl Into<Vec<u8>>) -> Self {
        JobOutcome::Ack(result.into())
    }

    /// Ends the attempt with an error. `retry` is a [`Retry`](crate::jobs::Retry), a point in time,
    /// or a duration from the end of the attempt.
    pub fn fail(error: impl Into<String>, retry: impl Into<RetryTime>) -> Self {
        JobOutcome::Fail(error.into(), retry.into())
    }

    /// Returns the job to its queue until a point in time, or for a duration from the end of the
    /// handler. The attempt does not count.
    pub fn snooze(until: impl Into<DueTime>) -> Self {
        JobOutcome::Snooze(until.into())
    }
}

impl From<()> for JobOutcome {
    fn from((): ()) -> Self {
        JobOutcome::ack()
    }
}

impl From<Commit<'static>> for JobOutcome {
    fn from(commit: Commit<'static>) -> Self {
        JobOutcome::Commit(commit)
    }
}

/// The return value of a job's handler. It is a [`JobOutcome`], a value that converts to one, or a
/// [`Result`](std::result::Result) of either with a [`HandlerError`]. An error fails the attempt,
/// which is retried after the job's backoff.
///
/// A handler that uses `?` ends with `Ok(commit)`: its errors convert to [`HandlerError`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the return value of a job's handler",
    note = "return a `Commit<'static>`, a `JobOutcome`, `()`, or a `Result` of one of them with `quire::HandlerError`",
    note = "in a handler, `Ok(charge(job)?)` converts the error of a function `charge`"
)]
pub trait HandlerResult {
    /// Returns the outcome.
    ///
    /// # Errors
    /// The handler's error.
    fn into_outcome(self) -> std::result::Result<JobOutcome, HandlerError>;
}

impl HandlerResult for JobOutcome {
    fn into_outcome(self) -> std::result::Result<JobOutcome, HandlerError> {
        Ok(self)
    }
}

impl HandlerResult for Commit<'static> {
    fn into_outcome(self) -> std::result::Result<JobOutcome, HandlerError> {
        Ok(self.into())
    }
}

impl HandlerResult for () {
    fn into_outcome(self) -> std::result::Result<JobOutcome, HandlerError> {
        Ok(self.into())
    }
}

// No other error type implements the trait, so the compiler infers it in a handler that uses `?`.
impl<T: Into<JobOutcome>> HandlerResult for std::result::Result<T, HandlerError> {
    fn into_outcome(self) -> std::result::Result<JobOutcome, HandlerError> {
        self.map(Into::into)
    }
}

/// The jobs that a worker finished, by outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkSummary {
    /// Jobs completed, alone or with a commit.
    pub completed: u64,
    /// Attempts that failed: by the handler's error, by a panic, or because the handler's commit
    /// was refused.
    pub failed: u64,
    /// Jobs returned to their queue for later.
    pub snoozed: u64,
    /// Outcomes that were refused because the lease was lost. Another worker has these jobs.
    pub refused: u64,
}

/// The counts of a [`WorkSummary`] while the worker runs.
#[derive(Debug, Default)]
pub(super) struct WorkCounts {
    completed: AtomicU64,
    failed: AtomicU64,
    snoozed: AtomicU64,
    refused: AtomicU64,
}

impl WorkCounts {
    pub(super) fn summary(&self) -> WorkSummary {
        WorkSummary {
            completed: self.completed.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            snoozed: self.snoozed.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }
}

/// The leases of running jobs, which are extended.
#[derive(Debug, Default)]
struct RunningLeases {
    table: Mutex<LeaseTable>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct LeaseTable {
    leases: BTreeMap<JobId, LeaseToken>,
    is_over: bool,
}

impl Worker {
    pub(super) fn new(queue: Queue, name: &str) -> Self {
        Worker { queue, name: name.into(), concurrency: 1, stop: Stopper::default(), on_error: None }
    }

    /// Sets the number of jobs that run at a time, each on its own thread. Default: 1.
    #[must_use]
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency.max(1);
        self
    }

    /// Sets a function that is called for each error of a job.
    ///
    /// The error is one of three:
    /// * [`ErrorKind::Handler`]: the handler returned an error or panicked. The attempt failed.
    /// * A refusal ([`Error::refusal`]) of the handler's commit. The attempt failed.
    /// * A refusal of the acknowledgement: the lease was lost, so another worker has the job.
    ///   Nothing was committed.
    #[must_use]
    pub fn on_error(mut self, report: impl Fn(&FetchedJob, &Error) + Send + Sync + 'static) -> Self {
        self.on_error = Some(Arc::new(report));
        self
    }

    /// Returns the handle that stops the worker.
    pub fn stopper(&self) -> Stopper {
        self.stop.clone()
    }

    /// Works until the worker is stopped, and returns the number of jobs by outcome. A panic of the
    /// handler fails the attempt.
    ///
    /// # Errors
    /// The errors of [`Database::commit`](crate::Database::commit); all threads end then.
    pub fn run<R: HandlerResult>(self, handler: impl Fn(&FetchedJob) -> R + Sync) -> Result<WorkSummary> {
        let (leases, counts) = (RunningLeases::default(), WorkCounts::default());
        std::thread::scope(|scope| {
            let keeper = scope.spawn(|| self.keep_leases(&leases));
            let work = || {
                let worked = self.work(&leases, &counts, &handler);
                if worked.is_err() {
                    self.stop.stop();
                }
                worked
            };
            let threads: Vec<_> = (0..self.concurrency).map(|_| scope.spawn(work)).collect();
            let joined = threads.into_iter().map(|thread| thread.join().expect("a worker's thread does not panic"));
            let worked = joined.fold(Ok(()), Result::and);
            leases.end();
            worked.and(keeper.join().expect("the keeper of leases does not panic"))
        })?;
        Ok(counts.summary())
    }

    fn work<R: HandlerResult>(
        &self,
        leases: &RunningLeases,
        counts: &WorkCounts,
        handler: &(impl Fn(&FetchedJob) -> R + Sync),
    ) -> Result<()> {
        let database = self.queue.database();
        while !self.stop.is_requested() {
            match self.queue.fetch(&self.name, 1)?.pop() {
                Some(job) => {
                    leases.hold(&job);
                    let returned = catch_unwind(AssertUnwindSafe(|| handler(&job).into_outcome()));
                    leases.release(job.job);
                    let outcome = returned.unwrap_or_else(|panic| {
                        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
                        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
                        Err(format!("panicked: {}", text.unwrap_or_default()).into())
                    });
                    self.finish(&job, outcome, counts)?;
                }
                None => {
                    if let Some(rest) = database.fetch_rest(&[self.queue.name()])? {
                        database.wait_after(rest.seen, rest.at_most)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Commits the outcome of a job, and waits until it is durable.
    pub(super) fn finish(
        &self,
        job: &FetchedJob,
        outcome: std::result::Result<JobOutcome, HandlerError>,
        counts: &WorkCounts,
    ) -> Result<()> {
        let failed = |error: &str, retry: RetryTime| {
            counts.failed.fetch_add(1, Ordering::Relaxed);
            self.queue.fail(job.job, job.token, error, retry)
        };
        let finished = match outcome {
            Ok(JobOutcome::Ack(result)) => {
                self.queue.ack(job.job, job.token, &result).inspect(|()| counts.note_completed())
            }
            Ok(JobOutcome::Commit(commit)) => {
                let ack_part = commit.len();
                let commit = commit.ack(job.job, job.token, "");
                match self.queue.database().commit(&commit)? {
                    Outcome::Committed(_) => {
                        counts.note_completed();
                        Ok(())
                    }
                    Outcome::Refused(refused) if refused.part == ack_part && !refused.is_of_key() => {
                        Err(refused.into())
                    }
                    Outcome::Refused(refused) => {
                        let text = refused.to_string();
                        self.report(job, &refused.into());
                        failed(&text, RetryTime::Backoff)
                    }
                }
            }
            Ok(JobOutcome::Fail(error, retry)) => failed(&error, retry),
            Ok(JobOutcome::Snooze(until)) => {
                let snoozed = self.queue.snooze(job.job, job.token, until);
                snoozed.inspect(|()| counts.note_snoozed())
            }
            Err(error) => {
                let error = error.into_text();
                self.report(job, &Error::new(ErrorKind::Handler, error.as_str()));
                failed(&error, RetryTime::Backoff)
            }
        };
        finished.or_else(|error| {
            if error.kind() != ErrorKind::Refused {
                return Err(error);
            }
            counts.refused.fetch_add(1, Ordering::Relaxed);
            self.report(job, &error);
            Ok(())
        })
    }

    fn report(&self, job: &FetchedJob, error: &Error) {
        if let Some(report) = &self.on_error {
            report(job, error);
        }
    }

    /// Extends the leases of running jobs, each third of a lease, until the worker ends.
    fn keep_leases(&self, leases: &RunningLeases) -> Result<()> {
        while let Some(running) = leases.after(self.queue.lease_time() / 3) {
            for (job, token) in running {
                match self.queue.heartbeat(job, token) {
                    Err(error) if error.kind() == ErrorKind::Refused => leases.release(job),
                    Err(error) => {
                        self.stop.stop();
                        return Err(error);
                    }
                    Ok(()) => {}
                }
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("queue", &self.queue)
            .field("name", &self.name)
            .field("concurrency", &self.concurrency)
            .field("stop", &self.stop)
            .finish_non_exhaustive()
    }
}

impl WorkCounts {
    fn note_completed(&self) {
        self.completed.fetch_add(1, Ordering::Relaxed);
    }

    fn note_snoozed(&self) {
        self.snoozed.fetch_add(1, Ordering::Relaxed);
    }
}

impl RunningLeases {
    fn hold(&self, job: &FetchedJob) {
        self.lock().leases.insert(job.job, job.token);
    }

    fn release(&self, job: JobId) {
        self.lock().leases.remove(&job);
    }

    fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    /// Waits for `time`, and returns the leases of the running jobs. Returns `None` when the worker
    /// ends.
    fn after(&self, time: Duration) -> Option<Vec<(JobId, LeaseToken)>> {
        let table = self.changed.wait_timeout_while(self.lock(), time, |table| !table.is_over);
        let (table, _) = table.unwrap_or_else(PoisonError::into_inner);
        (!table.is_over).then(|| table.leases.iter().map(|(job, token)| (*job, *token)).collect())
    }

    fn lock(&self) -> MutexGuard<'_, LeaseTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
