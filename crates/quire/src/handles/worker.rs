//! A worker of this process: threads that fetch jobs of a queue, hand them to a function, and report what became of them.
//!
//! A thread that finds nothing sleeps until a commit or a time may have brought a job. Leases are extended while their jobs are worked
//! on, by a thread of its own, so a handler may take as long as it needs; one whose process dies loses its lease.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::Timestamp;
use crate::handles::Queue;
use crate::jobs::{FetchedJob, JobId, LeaseToken, Retry};
use crate::{ErrorKind, Result};

/// How a worker is to work. See [`Queue::worker`].
#[derive(Debug, Clone)]
pub struct Worker<'a> {
    queue: Queue<'a>,
    name: &'a str,
    concurrency: usize,
    stop: Stop,
}

/// What became of a job, as its handler says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// It is completed, with this result.
    Ack(Vec<u8>),
    /// The attempt failed, with this error.
    Fail(String, Retry),
    /// It is for later; the attempt does not count.
    Snooze(Timestamp),
}

/// Stops a worker from elsewhere: what it has fetched is finished, and nothing more is fetched.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks the worker to stop. It notices within a second, or with the next commit.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_asked(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The leases that are to be extended.
#[derive(Debug, Default)]
struct Leases {
    held: Mutex<Held>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Held {
    leases: BTreeMap<JobId, LeaseToken>,
    over: bool,
}

impl<'a> Worker<'a> {
    pub(super) fn new(queue: Queue<'a>, name: &'a str) -> Self {
        Worker { queue, name, concurrency: 1, stop: Stop::default() }
    }

    /// Sets how many jobs are worked on at a time, each by a thread. Default: 1.
    #[must_use]
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency.max(1);
        self
    }

    /// What stops the worker.
    pub fn stopper(&self) -> Stop {
        self.stop.clone()
    }

    /// Works until it is stopped. A handler that panics has failed its attempt, which is tried again after its backoff. Of a job whose lease was
    /// lost or that was cancelled meanwhile, what the handler says is dropped.
    ///
    /// # Errors
    /// The errors of [`Database::commit`](crate::Database::commit); all threads end then.
    pub fn run(self, handler: impl Fn(&FetchedJob) -> Done + Sync) -> Result<()> {
        let leases = Leases::default();
        std::thread::scope(|scope| {
            let keeper = scope.spawn(|| self.keep_leases(&leases));
            let work = || {
                let worked = self.work(&leases, &handler);
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
        })
    }

    fn work(&self, leases: &Leases, handler: &(impl Fn(&FetchedJob) -> Done + Sync)) -> Result<()> {
        let database = self.queue.database();
        while !self.stop.is_asked() {
            match self.queue.fetch(self.name, 1)?.pop() {
                Some(job) => self.work_on(&job, leases, handler)?,
                None => {
                    if let Some(rest) = database.fetch_rest(&[self.queue.name()])? {
                        database.wait_after(rest.seen, rest.at_most)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn work_on(
        &self,
        job: &FetchedJob,
        leases: &Leases,
        handler: &(impl Fn(&FetchedJob) -> Done + Sync),
    ) -> Result<()> {
        leases.hold(job);
        let done = catch_unwind(AssertUnwindSafe(|| handler(job)));
        leases.drop_lease(job.job);
        let done = done.unwrap_or_else(|panic| {
            let said = panic.downcast_ref::<&str>().map(ToString::to_string);
            let said = said.or_else(|| panic.downcast_ref::<String>().cloned());
            Done::Fail(format!("panicked: {}", said.unwrap_or_default()), Retry::Backoff)
        });
        let told = match done {
            Done::Ack(result) => self.queue.ack(job.job, job.token, &result),
            Done::Fail(error, retry) => self.queue.fail(job.job, job.token, &error, retry),
            Done::Snooze(until) => self.queue.snooze(job.job, job.token, until),
        };
        told.or_else(|error| if error.kind() == ErrorKind::Refused { Ok(()) } else { Err(error) })
    }

    /// Extends the leases that are held, each third of a lease, until there is nothing left to do.
    fn keep_leases(&self, leases: &Leases) -> Result<()> {
        while let Some(held) = leases.after(self.queue.lease_time() / 3) {
            for (job, token) in held {
                match self.queue.heartbeat(job, token) {
                    Err(error) if error.kind() == ErrorKind::Refused => leases.drop_lease(job),
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

impl Leases {
    fn hold(&self, job: &FetchedJob) {
        self.lock().leases.insert(job.job, job.token);
    }

    fn drop_lease(&self, job: JobId) {
        self.lock().leases.remove(&job);
    }

    fn end(&self) {
        self.lock().over = true;
        self.changed.notify_all();
    }

    /// Those that are held after this time; `None` at the end.
    fn after(&self, time: Duration) -> Option<Vec<(JobId, LeaseToken)>> {
        let held = self.changed.wait_timeout_while(self.lock(), time, |held| !held.over);
        let (held, _) = held.unwrap_or_else(PoisonError::into_inner);
        (!held.over).then(|| held.leases.iter().map(|(job, token)| (*job, *token)).collect())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
