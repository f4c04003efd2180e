//! A worker that runs: a thread that fetches jobs, and threads that run a handler on each and
//! commit its outcome.
//!
//! ```text
//! fetch, at most as many as threads are idle ─▶ handler ─▶ commit of the outcome ─▶ idle
//!   │ one key until it has an answer                          │ one key for all attempts
//!   └─ another thread extends the leases of running jobs      └─ until it has an answer
//! ```
//!
//! A lost answer to a fetch is asked for again by its key, so its jobs are not left without a
//! worker. While the server is away, the worker waits for it, with pauses that double.
//!
//! No panic leaves a thread that others wait for: one of the handler fails its job, and another
//! one ends the worker with an error.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use quire::{HandlerError, WorkSummary};
use quire_api::reply::{FetchReply, FetchedReply};
use quire_api::request::{Ack, CommitRequest, Fail, FetchRequest, Snooze};

use crate::leases::{HeldLeases, LeaseHold};
use crate::pause::pause_unless;
use crate::{Call, Client, ClientError, FailureKind, RemoteOutcome, RemoteWorker};

/// How long a fetch waits for a job, and so how long a stop may take.
const FETCH_WAIT: Duration = Duration::from_secs(1);

/// What a worker runs on each job.
type JobHandler<'h> = dyn Fn(&FetchedReply<'static>) -> Result<RemoteOutcome, HandlerError> + Sync + 'h;

/// A worker that runs.
struct RunningWorker<'w> {
    worker: &'w RemoteWorker,
    handler: &'w JobHandler<'w>,
    leases: &'w HeldLeases,
    counts: OutcomeCounts,
    /// The panic of the function that errors are reported to.
    failure: Mutex<Option<ClientError>>,
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
struct HeldJob<'l> {
    fetched: FetchedReply<'static>,
    lease: LeaseHold<'l>,
}

/// A fetch without an answer. Each attempt has the same key and the same number of jobs, so a lost
/// answer is found again.
#[derive(Debug)]
struct OpenFetch {
    count: u32,
    key: String,
    begin: Instant,
}

/// Works until the worker is stopped.
pub(crate) fn run(worker: &RemoteWorker, handler: &JobHandler<'_>) -> Result<WorkSummary, ClientError> {
    let leases = HeldLeases::new(worker.lease_ms);
    let (counts, failure) = (OutcomeCounts::default(), Mutex::default());
    let running = RunningWorker { worker, handler, leases: &leases, counts, failure };
    running.run()?;
    Ok(running.counts.summary())
}

impl<'w> RunningWorker<'w> {
    fn run(&self) -> Result<(), ClientError> {
        // An idle thread sends a token, and gets a job.
        let (idle, idle_threads) = mpsc::channel();
        let (jobs, fetched_jobs) = mpsc::channel::<HeldJob<'w>>();
        let fetched_jobs = &Mutex::new(fetched_jobs);
        std::thread::scope(|scope| {
            let end = self.leases.end_on_drop();
            scope.spawn(|| self.leases.extend(&self.worker.client));
            let threads: Vec<_> = (0..self.worker.concurrency)
                .map(|_| {
                    let idle = idle.clone();
                    scope.spawn(move || self.work_all(&idle, fetched_jobs))
                })
                .collect();
            drop(idle);
            let fetched = self.fetch_all(&idle_threads, &jobs);
            drop((idle_threads, jobs));
            let ended = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| Err(panicked(&*panic))));
            let worked = ended.fold(fetched, Result::and);
            drop(end);
            worked.and(self.failure.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err))
        })
    }

    /// Works jobs until the fetching thread has ended.
    fn work_all(
        &self,
        idle: &mpsc::Sender<()>,
        fetched_jobs: &Mutex<mpsc::Receiver<HeldJob<'w>>>,
    ) -> Result<(), ClientError> {
        let mut worked = Ok(());
        // The fetching thread has ended when it takes no tokens or sends no jobs.
        while worked.is_ok() && idle.send(()).is_ok() {
            let next = fetched_jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(job) = next else { break };
            let returned = catch_unwind(AssertUnwindSafe(|| self.work(&job)));
            worked = returned.unwrap_or_else(|panic| Err(panicked(&*panic)));
        }
        worked.inspect_err(|_| self.worker.stop.stop())
    }

    /// Fetches jobs for idle threads until the worker is stopped.
    #[expect(clippy::disallowed_methods, reason = "leases and pauses are real time")]
    fn fetch_all(&self, idle: &mpsc::Receiver<()>, jobs: &mpsc::Sender<HeldJob<'w>>) -> Result<(), ClientError> {
        let RemoteWorker { client, stop, .. } = self.worker;
        let (mut count, mut open, mut pauses) = (0, None, client.pauses());
        while !stop.is_requested() {
            if count == 0 {
                // A stop is noticed also while all threads work.
                match idle.recv_timeout(FETCH_WAIT) {
                    Ok(()) => count = 1,
                    Err(mpsc::RecvTimeoutError::Timeout) => continue,
                    Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
                }
            }
            count += u32::try_from(idle.try_iter().count()).unwrap_or(u32::MAX);
            let begin = Instant::now();
            let fetch = open.take().unwrap_or_else(|| OpenFetch { count, key: client.new_key(), begin });
            let fetched = match self.fetch(&fetch) {
                Ok(fetched) => fetched,
                // The client has repeated the fetch for its `timeout`.
                Err(error) if error.is_passing() => {
                    self.report(None, &error);
                    self.pause(pauses.after(Some(&error)));
                    open = Some(fetch);
                    continue;
                }
                Err(error) => {
                    stop.stop();
                    return Err(error);
                }
            };
            if fetched.is_empty() {
                // A server that does not wait is not asked again at once.
                match begin.elapsed() < FETCH_WAIT / 2 {
                    true => self.pause(pauses.next()),
                    false => pauses = client.pauses(),
                }
                continue;
            }
            pauses = client.pauses();
            let held = fetched.into_iter().map(|job| HeldJob::of(client, job, self.leases));
            let held: Vec<_> = held.collect::<Result<_, _>>().inspect_err(|_| stop.stop())?;
            if fetch.begin.elapsed() > self.leases.half() {
                // A late answer may bring jobs that another worker has by now.
                self.leases.extend_now(client);
            }
            for job in held.into_iter().filter(|job| job.lease.is_held()) {
                count = count.saturating_sub(1);
                if jobs.send(job).is_err() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn fetch(&self, fetch: &OpenFetch) -> Result<Vec<FetchedReply<'static>>, ClientError> {
        let RemoteWorker { client, queue, name, lease_ms, .. } = self.worker;
        let wait_ms = u64::try_from(FETCH_WAIT.as_millis()).expect("few");
        let worker = Some(name.as_str().into());
        let request = FetchRequest { count: fetch.count, lease_ms: *lease_ms, worker, wait_ms };
        let call = Call::post(&["queues", queue, "fetch"]).json(&request)?;
        let reply: FetchReply<'static> = client.read(call.wait(FETCH_WAIT).idempotency_key(&*fetch.key))?;
        Ok(reply.jobs)
    }

    /// Runs the handler on a job, and commits the outcome.
    fn work(&self, job: &HeldJob<'_>) -> Result<(), ClientError> {
        let returned = catch_unwind(AssertUnwindSafe(|| (self.handler)(&job.fetched)));
        let outcome = returned.unwrap_or_else(|panic| Err(panicked(&*panic).into()));
        let outcome = outcome.unwrap_or_else(|error: HandlerError| {
            self.report(Some(job), &ClientError::new(FailureKind::Handler, error.text()));
            RemoteOutcome::Fail(error.text().to_owned())
        });
        let finished = self.finish_as(job, outcome);
        job.lease.release();
        finished.or_else(|error| {
            self.report(Some(job), &error);
            // The outcomes of other jobs need the same permission.
            if error.is_refusal() && !error.is_of_access() {
                self.counts.refused.fetch_add(1, Ordering::Relaxed);
                return Ok(());
            }
            // A worker that stops while the server is away leaves the job to its lease.
            if error.is_passing() { Ok(()) } else { Err(error) }
        })
    }

    /// Commits the outcome of a job.
    fn finish_as(&self, job: &HeldJob<'_>, outcome: RemoteOutcome) -> Result<(), ClientError> {
        let (id, token, counts) = (job.lease.job, job.lease.token, &self.counts);
        match outcome {
            RemoteOutcome::Ack(result) => {
                let ack = Ack::new(id, token).result(result);
                self.finish(CommitRequest::of(ack), &counts.completed)
            }
            RemoteOutcome::Commit(commit) => {
                let ack_part = commit.parts.len() as u64;
                let finished = self.finish(commit.and(Ack::new(id, token)), &counts.completed);
                match finished {
                    Err(error) if error.is_of_other_part(ack_part) => {
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
                let fail = Fail::new(id, token, error).retry_delay_ms(delay_ms);
                self.finish(CommitRequest::of(fail), &counts.failed)
            }
            RemoteOutcome::FailForGood(error) => {
                let fail = Fail::new(id, token, error).never_retry();
                self.finish(CommitRequest::of(fail), &counts.failed)
            }
            RemoteOutcome::Snooze(delay) => {
                let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
                self.finish(CommitRequest::of(Snooze::new(id, token, delay_ms)), &counts.snoozed)
            }
        }
    }

    /// Commits an outcome, all attempts with one key, until the server answers or the worker is
    /// stopped.
    fn finish(&self, commit: CommitRequest<'_>, count: &AtomicU64) -> Result<(), ClientError> {
        let (key, mut pauses) = (self.worker.client.new_key(), self.worker.client.pauses());
        loop {
            match self.worker.client.commit_with_key(&commit, &key) {
                Ok(_) => {
                    count.fetch_add(1, Ordering::Relaxed);
                    return Ok(());
                }
                Err(error) if error.is_passing() && !self.worker.stop.is_requested() => {
                    self.report(None, &error);
                    self.pause(pauses.after(Some(&error)));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits, at most until the worker is stopped.
    fn pause(&self, pause: Duration) {
        pause_unless(pause, || self.worker.stop.is_requested());
    }

    /// Reports an error. A panic of the function that gets it ends the worker.
    fn report(&self, job: Option<&HeldJob<'_>>, error: &ClientError) {
        let Some(report) = &self.worker.on_error else { return };
        let reported = catch_unwind(AssertUnwindSafe(|| report(job.map(|job| &job.fetched), error)));
        if let Err(panic) = reported {
            let failure = ClientError::new(FailureKind::Handler, format!("on_error {}", panicked(&*panic)));
            self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
            self.worker.stop.stop();
        }
    }
}

/// The error of a panic.
fn panicked(panic: &(dyn Any + Send)) -> ClientError {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    ClientError::new(FailureKind::Handler, format!("panicked: {}", text.unwrap_or_default()))
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

impl<'l> HeldJob<'l> {
    fn of(client: &Client, fetched: FetchedReply<'static>, leases: &'l HeldLeases) -> Result<Self, ClientError> {
        let foreign = || ClientError::foreign(client.address(), "the id or the token of a fetched job");
        let id = fetched.job.parse().map_err(|_| foreign())?;
        let token = fetched.token.parse().map_err(|_| foreign())?;
        Ok(HeldJob { fetched, lease: leases.hold(id, token) })
    }
}
