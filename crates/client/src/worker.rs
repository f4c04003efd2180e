//! A worker of a queue: its settings, and the outcomes of its jobs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use quire::{HandlerError, Stopper, WorkSummary};
use quire_api::reply::FetchedReply;
use quire_api::request::{CommitRequest, lease_ms_default};

use crate::work::run;
use crate::{Client, ClientError};

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
    pub(crate) client: Client,
    pub(crate) queue: String,
    pub(crate) name: String,
    pub(crate) concurrency: usize,
    pub(crate) lease_ms: u64,
    pub(crate) stop: Stopper,
    pub(crate) on_error: Option<OnWorkError>,
}

pub(crate) type OnWorkError = Arc<dyn Fn(Option<&FetchedReply<'static>>, &ClientError) + Send + Sync>;

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

impl Client {
    /// A worker of a queue: it runs a handler on each job, and commits its outcome.
    pub fn worker(&self, queue: impl Into<String>, name: impl Into<String>) -> RemoteWorker {
        RemoteWorker::new(self.clone(), queue.into(), name.into())
    }
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
    ///
    /// If the function panics, the worker finishes its jobs and ends with an error.
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
    /// When the server refuses a fetch or an outcome, for example because of a missing permission,
    /// and when the function of [`RemoteWorker::on_error`] panics. All threads end then, after
    /// their jobs.
    pub fn run<O: Into<RemoteOutcome>>(
        self,
        handler: impl Fn(&FetchedReply<'static>) -> Result<O, HandlerError> + Sync,
    ) -> Result<WorkSummary, ClientError> {
        run(&self, &|job: &FetchedReply<'static>| handler(job).map(Into::into))
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
