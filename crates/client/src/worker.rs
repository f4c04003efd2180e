//! A worker of a queue: a thread that fetches jobs, and threads that run a handler on each and
//! commit its outcome.
//!
//! ```text
//! fetch, at most as many as threads are idle ─▶ handler ─▶ commit of the outcome ─▶ idle
//!   │ each with its idempotency key                           │ one key for all attempts
//!   └─ another thread extends the leases of running jobs      └─ until it has an answer
//! ```
//!
//! A lost answer to a fetch is asked for again by its key, so its jobs are not left without a
//! worker. While the server is away, the worker waits for it.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use quire::jobs::{JobId, LeaseToken};
use quire::{HandlerError, Stopper, WorkSummary};
use quire_api::reply::{FetchReply, FetchedReply};
use quire_api::request::{Ack, CommitRequest, Fail, FetchRequest, Snooze, lease_ms_default};
use serde_json::Value;

use crate::leases::HeldLeases;
use crate::{Call, Client, ClientError, FailureKind};

/// How long a fetch waits for a job, and so how long a stop may take.
const FETCH_WAIT: Duration = Duration::from_secs(1);

/// Works the jobs of a queue of a server; see [`Client::worker`].
///
/// ```no_run
/// use quire_client::Client;
/// use quire_client::request::{AppendPart, CommitRequest, NewEventRequest};
///
/// let client = Client::builder("http://127.0.0.1:7070").build()?;
/// let worker = client.worker("mails", "mailer-1").concurrency(4);
/// let stop = worker.stopper();
/// let summary = worker.run(|job| {
///     let order: u32 = job.payload.text()?.parse()?;
///     // The event and the acknowledgement are one commit: both happen, or neither.
///     let sent = NewEventRequest::new("MailSent", "").tag(format!("order:{order}"));
///     Ok(CommitRequest::of(AppendPart::new("orders").event(sent)))
/// })?;
/// println!("{} jobs completed", summary.completed);
/// # drop(stop);
/// # Ok::<(), quire_client::ClientError>(())
/// ```
#[derive(Clone)]
pub struct RemoteWorker {
    client: Client,
    queue: String,
    name: String,
    concurrency: usize,
    lease_ms: u64,
    stop: Stopper,
    on_error: Option<OnWorkError>,
}

type OnWorkError = Arc<dyn Fn(Option<&FetchedReply<'static>>, &ClientError) + Send + Sync>;

/// The outcome of a job, as its handler returns it.
///
/// `()` converts to an acknowledgement, and a [`CommitRequest`] to a commit with an
/// acknowledgement.
#[derive(Debug)]
pub enum RemoteOutcome {
    /// Completes the job with a result, which may be empty.
    Ack(Vec<u8>),
    /// Applies a commit and completes the job, both in one commit. When the commit is refused, the
    /// attempt has failed.
    Commit(CommitRequest<'static>),
    /// Ends the attempt with an error. The backoff of the job decides when the next one starts.
    Fail(String),
    /// Ends the attempt with an error. The next one starts after this time.
    FailFor(String, Duration),
    /// Ends the attempt with an error, and the job: there is no other attempt.
    FailForGood(String),
    /// Returns the job to its queue for this time. The attempt does not count.
    Snooze(Duration),
}

impl From<()> for RemoteOutcome {
    fn from((): ()) -> Self {
        RemoteOutcome::Ack(Vec::new())
    }
}

impl From<CommitRequest<'static>> for RemoteOutcome {
    fn from(commit: CommitRequest<'static>) -> Self {
        RemoteOutcome::Commit(commit)
    }
}

/// The counts of a [`WorkSummary`] while the worker runs.
#[derive(Debug, Default)]
struct OutcomeCounts {
    completed: AtomicU64,
    failed: AtomicU64,
    snoozed: AtomicU64,
    refused: AtomicU64,
}

/// A job, and the proof that this worker has it.
#[derive(Debug)]
struct HeldJob {
    fetched: FetchedReply<'static>,
    id: JobId,
    token: LeaseToken,
}

impl RemoteWorker {
    pub(crate) fn new(client: Client, queue: String, name: String) -> Self {
        let (lease_ms, stop) = (lease_ms_default(), Stopper::default());
        RemoteWorker { client, queue, name, concurrency: 1, lease_ms, stop, on_error: None }
    }

    /// Sets the number of jobs that run at a time, each on its own thread. Default: 1.
    #[must_use]
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency.max(1);
        self
    }

    /// Sets the duration of a lease, 30 seconds by default. The worker extends it each third.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        self
    }

    /// Sets a function that is called for each error, with its job if it has one:
    /// * The handler returned an error or panicked. The attempt failed.
    /// * The server refused the commit of the handler. The attempt failed.
    /// * The server refused the outcome: the lease was lost, so another worker has the job.
    /// * The server did not answer. The worker tries again.
    #[must_use]
    pub fn on_error(
        mut self,
        report: impl Fn(Option<&FetchedReply<'static>>, &ClientError) + Send + Sync + 'static,
    ) -> Self {
        self.on_error = Some(Arc::new(report));
        self
    }

    /// Returns the handle that stops the worker. The worker stops fetching, finishes its jobs, and
    /// ends, within about a second plus the time of its jobs.
    pub fn stopper(&self) -> Stopper {
        self.stop.clone()
    }

    /// Works until the worker is stopped, and returns the number of jobs by outcome. A panic of the
    /// handler fails the attempt.
    ///
    /// # Errors
    /// When the server refuses a fetch, for example because of a missing permission; all threads
    /// end then.
    pub fn run<O: Into<RemoteOutcome>>(
        self,
        handler: impl Fn(&FetchedReply<'static>) -> Result<O, HandlerError> + Sync,
    ) -> Result<WorkSummary, ClientError> {
        let (leases, counts) = (HeldLeases::default(), OutcomeCounts::default());
        // An idle thread sends a token, and gets a job.
        let (idle, idle_threads) = mpsc::channel();
        let (jobs, fetched_jobs) = mpsc::channel::<HeldJob>();
        let fetched_jobs = Mutex::new(fetched_jobs);
        let (fetched_jobs, leases, counts, handler) = (&fetched_jobs, &leases, &counts, &handler);
        let worked = std::thread::scope(|scope| {
            scope.spawn(|| leases.extend(&self.client, self.lease_ms));
            let threads: Vec<_> = (0..self.concurrency)
                .map(|_| {
                    let (idle, worker) = (idle.clone(), &self);
                    scope.spawn(move || {
                        let mut worked = Ok(());
                        // The fetching thread has ended when it takes no tokens or sends no jobs.
                        while worked.is_ok() && idle.send(()).is_ok() {
                            let next = fetched_jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
                            let Ok(job) = next else { break };
                            worked = worker.work(&job, leases, counts, handler);
                            leases.release(job.id);
                        }
                        worked.inspect_err(|_| worker.stop.stop())
                    })
                })
                .collect();
            drop(idle);
            let fetched = self.fetch_all(&idle_threads, &jobs, leases);
            drop((idle_threads, jobs));
            let joined = threads.into_iter().map(|thread| thread.join().expect("a worker's thread does not panic"));
            let worked = joined.fold(fetched, Result::and);
            leases.end();
            worked
        });
        worked.map(|()| counts.summary())
    }

    /// Fetches jobs for idle threads until the worker is stopped.
    fn fetch_all(
        &self,
        idle: &mpsc::Receiver<()>,
        jobs: &mpsc::Sender<HeldJob>,
        leases: &HeldLeases,
    ) -> Result<(), ClientError> {
        let mut count = 0;
        while !self.stop.is_requested() {
            if count == 0 {
                // A stop is noticed also while all threads work.
                match idle.recv_timeout(FETCH_WAIT) {
                    Ok(()) => count = 1,
                    Err(mpsc::RecvTimeoutError::Timeout) => continue,
                    Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
                }
            }
            count += u32::try_from(idle.try_iter().count()).unwrap_or(u32::MAX);
            match self.fetch(count) {
                Ok(fetched) => {
                    for fetched in fetched {
                        let job = HeldJob::of(self.client.address(), fetched)?;
                        leases.hold(job.id, job.token);
                        count = count.saturating_sub(1);
                        if jobs.send(job).is_err() {
                            return Ok(());
                        }
                    }
                }
                // The client has repeated the fetch for its `timeout`, with pauses.
                Err(error) if error.is_passing() => self.report(None, &error),
                Err(error) => {
                    self.stop.stop();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn fetch(&self, count: u32) -> Result<Vec<FetchedReply<'static>>, ClientError> {
        let wait_ms = u64::try_from(FETCH_WAIT.as_millis()).expect("few");
        let worker = Some(self.name.as_str().into());
        let request = FetchRequest { count, lease_ms: self.lease_ms, worker, wait_ms };
        let call = Call::post(&["queues", &self.queue, "fetch"]).json(&request)?;
        let call = call.wait(FETCH_WAIT).idempotency_key(self.client.new_key());
        let reply: FetchReply<'static> = self.client.read(call)?;
        Ok(reply.jobs)
    }

    /// Runs the handler on a job, and commits the outcome.
    fn work<O: Into<RemoteOutcome>>(
        &self,
        job: &HeldJob,
        leases: &HeldLeases,
        counts: &OutcomeCounts,
        handler: &(impl Fn(&FetchedReply<'static>) -> Result<O, HandlerError> + Sync),
    ) -> Result<(), ClientError> {
        let returned = catch_unwind(AssertUnwindSafe(|| handler(&job.fetched)));
        let outcome = returned.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().map(ToString::to_string);
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Err(format!("panicked: {}", text.unwrap_or_default()).into())
        });
        let outcome = outcome.map(Into::into).unwrap_or_else(|error: HandlerError| {
            self.report(Some(job), &ClientError::new(FailureKind::Handler, error.text()));
            RemoteOutcome::Fail(error.text().to_owned())
        });
        let (id, token) = (job.id, job.token);
        let finished = match outcome {
            RemoteOutcome::Ack(result) => {
                let ack = Ack::new(id, token).result(result);
                self.finish(CommitRequest::of(ack), &counts.completed)
            }
            RemoteOutcome::Commit(commit) => {
                let ack_part = commit.parts.len() as u64;
                let finished = self.finish(commit.and(Ack::new(id, token)), &counts.completed);
                let is_of_handler = |error: &ClientError| {
                    error.is_refusal() && error.facts().get("part").and_then(Value::as_u64) != Some(ack_part)
                };
                match finished {
                    Err(error) if is_of_handler(&error) => {
                        self.report(Some(job), &error);
                        let fail = Fail::new(id, token, error.to_string());
                        self.finish(CommitRequest::of(fail), &counts.failed)
                    }
                    finished => finished,
                }
            }
            RemoteOutcome::Fail(error) => self.finish(CommitRequest::of(Fail::new(id, token, error)), &counts.failed),
            RemoteOutcome::FailFor(error, delay) => {
                let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
                self.finish(CommitRequest::of(Fail::new(id, token, error).retry_delay_ms(delay_ms)), &counts.failed)
            }
            RemoteOutcome::FailForGood(error) => {
                let fail = Fail::new(id, token, error).never_retry();
                self.finish(CommitRequest::of(fail), &counts.failed)
            }
            RemoteOutcome::Snooze(delay) => {
                let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
                self.finish(CommitRequest::of(Snooze::new(id, token, delay_ms)), &counts.snoozed)
            }
        };
        leases.release(id);
        finished.or_else(|error| {
            self.report(Some(job), &error);
            if error.is_refusal() {
                counts.refused.fetch_add(1, Ordering::Relaxed);
                return Ok(());
            }
            // A worker that stops while the server is away leaves the job to its lease.
            if error.is_passing() { Ok(()) } else { Err(error) }
        })
    }

    /// Commits an outcome, all attempts with one key, until the server answers or the worker is
    /// stopped.
    fn finish(&self, commit: CommitRequest<'_>, count: &AtomicU64) -> Result<(), ClientError> {
        let key = self.client.new_key();
        loop {
            match self.client.commit_with_key(&commit, &key) {
                Ok(_) => {
                    count.fetch_add(1, Ordering::Relaxed);
                    return Ok(());
                }
                Err(error) if error.is_passing() && !self.stop.is_requested() => self.report(None, &error),
                Err(error) => return Err(error),
            }
        }
    }

    fn report(&self, job: Option<&HeldJob>, error: &ClientError) {
        if let Some(report) = &self.on_error {
            report(job.map(|job| &job.fetched), error);
        }
    }
}

impl fmt::Debug for RemoteWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteWorker")
            .field("client", &self.client)
            .field("queue", &self.queue)
            .field("name", &self.name)
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}

impl OutcomeCounts {
    fn summary(&self) -> WorkSummary {
        WorkSummary {
            completed: self.completed.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            snoozed: self.snoozed.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }
}

impl HeldJob {
    fn of(address: &str, fetched: FetchedReply<'static>) -> Result<Self, ClientError> {
        let foreign = || ClientError::foreign(address, "the id or the token of a fetched job");
        let id = fetched.job.parse().map_err(|_| foreign())?;
        let token = fetched.token.parse().map_err(|_| foreign())?;
        Ok(HeldJob { fetched, id, token })
    }
}
