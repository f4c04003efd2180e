//! The asynchronous form of a worker, for the runtime `tokio`. Commits and fetches run on the
//! runtime's blocking threads.

use std::future::Future;
use std::sync::Arc;

use tokio::task::{JoinError, JoinSet, spawn, spawn_blocking};
use tokio::time::{sleep, timeout};

use crate::handles::worker::{HandlerResult, WorkCounts, WorkSummary, Worker};
use crate::jobs::FetchedJob;
use crate::{Error, ErrorKind, Result};

impl Worker {
    /// Works until the worker is stopped, like [`Worker::run`], with an asynchronous handler.
    /// [`Worker::concurrency`] sets the number of handlers that run at a time. A panic of the
    /// handler fails the attempt.
    ///
    /// ```
    /// use quire::events::NewEvent;
    /// use quire::{Commit, Database, Durability, NewJob};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// let db = Database::builder(directory.path()).durability(Durability::Os).open()?;
    /// db.queue("mails").enqueue(NewJob::new("17"))?;
    /// let worker = db.queue("mails").worker("mailer-1");
    /// let stop = worker.stopper();
    /// let summary = worker
    ///     .run_async(move |job| {
    ///         stop.stop(); // after this job
    ///         async move {
    ///             let order = String::from_utf8(job.payload)?;
    ///             let sent = NewEvent::new("MailSent").tag(format!("order:{order}"));
    ///             Ok(Commit::new().append("orders", [sent]))
    ///         }
    ///     })
    ///     .await?;
    /// assert_eq!(summary.completed, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`Database::commit`](crate::Database::commit); all handlers finish first.
    pub async fn run_async<R, F, H>(self, handler: F) -> Result<WorkSummary>
    where
        R: HandlerResult + Send + 'static,
        F: Fn(FetchedJob) -> H + Send + Sync + 'static,
        H: Future<Output = R> + Send + 'static,
    {
        let (worker, handler) = (Arc::new(self), Arc::new(handler));
        let counts = Arc::new(WorkCounts::default());
        let mut loops = JoinSet::new();
        for _ in 0..worker.concurrency {
            loops.spawn(work(Arc::clone(&worker), Arc::clone(&handler), Arc::clone(&counts)));
        }
        let mut worked = Ok(());
        while let Some(joined) = loops.join_next().await {
            let one = joined.map_err(ended).and_then(|worked| worked);
            if one.is_err() {
                worker.stop.stop();
            }
            worked = worked.and(one);
        }
        worked.map(|()| counts.summary())
    }
}

/// Fetches jobs one by one, and runs the handler on each.
async fn work<R, F, H>(worker: Arc<Worker>, handler: Arc<F>, counts: Arc<WorkCounts>) -> Result<()>
where
    R: HandlerResult + Send + 'static,
    F: Fn(FetchedJob) -> H + Send + Sync + 'static,
    H: Future<Output = R> + Send + 'static,
{
    while !worker.stop.is_requested() {
        let fetching = Arc::clone(&worker);
        let fetched = spawn_blocking(move || fetching.queue.fetch(&fetching.name, 1)).await.map_err(ended)??.pop();
        let Some(job) = fetched else {
            let database = worker.queue.database();
            if let Some(rest) = database.fetch_rest(&[worker.queue.name()])? {
                tokio::select! {
                    () = worker.stop.requested() => {}
                    () = sleep(rest.at_most) => {}
                    arrived = database.publication_after(rest.seen) => arrived?,
                }
            }
            continue;
        };
        let mut running = spawn(handler(job.clone()));
        let returned = loop {
            match timeout(worker.queue.lease_time() / 3, &mut running).await {
                Ok(returned) => break returned,
                Err(_) => heartbeat(&worker, &job).await?,
            }
        };
        let outcome = match returned {
            Ok(returned) => returned.into_outcome(),
            Err(error) => Err(format!("panicked: {error}").into()),
        };
        let (finishing, counting) = (Arc::clone(&worker), Arc::clone(&counts));
        spawn_blocking(move || finishing.finish(&job, outcome, &counting)).await.map_err(ended)??;
    }
    Ok(())
}

/// Extends the lease of a running job. A lost lease is reported when the job ends.
async fn heartbeat(worker: &Arc<Worker>, job: &FetchedJob) -> Result<()> {
    let (extending, job, token) = (Arc::clone(worker), job.job, job.token);
    match spawn_blocking(move || extending.queue.heartbeat(job, token)).await.map_err(ended)? {
        Err(error) if error.kind() != ErrorKind::Refused => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Returns the error for a task of the worker that the runtime ended.
fn ended(error: JoinError) -> Error {
    Error::new(ErrorKind::Handler, format!("a task of the worker ended: {error}"))
}
