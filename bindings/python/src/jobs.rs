//! Queues and their jobs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList};
use quire::jobs::{Command, FetchedJob, JobId, JobState, LeaseToken, Order, Reply};
use quire::{Outcome, Part};
use quire_client::Client;
use quire_client::request::{Ack, Heartbeat, PartRequest, Snooze};

use crate::errors::CallError;
use crate::home::{Home, Shared};
use crate::pieces::{BorrowValues, JobPieces, RetryIn, served_fail};
use crate::pool::{CALLS, WAITS};
use crate::served::jobs::TASK_WAIT;
use crate::values::{self, duration};
use crate::worker::Worker;
use crate::{asyncio, served, wait};

/// A job that a worker holds.
#[pyclass(frozen, module = "quire")]
pub(crate) struct Job {
    job: JobId,
    token: LeaseToken,
    #[pyo3(get)]
    queue: String,
    #[pyo3(get)]
    kind: String,
    #[pyo3(get)]
    group: String,
    #[pyo3(get)]
    attempt: u16,
    #[pyo3(get)]
    attempts_max: u16,
    #[pyo3(get)]
    deadline: f64,
    #[pyo3(get)]
    payload: Py<PyBytes>,
}

#[pymethods]
impl Job {
    #[getter(id)]
    fn id_text(&self) -> String {
        self.job.to_string()
    }

    #[getter(token)]
    fn token_text(&self) -> String {
        self.token.to_string()
    }

    fn text(&self, py: Python<'_>) -> PyResult<String> {
        values::text(self.payload.bind(py))
    }

    fn json(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        values::json(self.payload.bind(py))
    }

    fn __repr__(&self) -> String {
        format!("Job(id={:?}, queue={:?}, attempt={})", self.job.to_string(), self.queue, self.attempt)
    }
}

impl Job {
    pub(crate) fn new(py: Python<'_>, fetched: &FetchedJob) -> PyResult<Py<Job>> {
        let job = Job {
            job: fetched.job,
            token: fetched.token,
            queue: fetched.queue.to_string(),
            kind: fetched.kind.clone(),
            group: fetched.group.clone(),
            attempt: fetched.attempt,
            attempts_max: fetched.attempts_max,
            deadline: values::seconds(fetched.deadline),
            payload: PyBytes::new(py, &fetched.payload).unbind(),
        };
        Py::new(py, job)
    }

    /// The job and the token of its lease.
    pub(crate) fn lease(&self) -> (JobId, LeaseToken) {
        (self.job, self.token)
    }
}

/// A queue of jobs.
#[pyclass(frozen, module = "quire")]
pub(crate) struct Queue {
    home: Home,
    #[pyo3(get)]
    name: String,
}

impl Queue {
    pub(crate) fn new(home: Home, name: String) -> Self {
        Queue { home, name }
    }

    /// Changes a leased job.
    fn change(
        &self,
        py: Python<'_>,
        embedded: impl FnOnce(quire::Queue) -> quire::Result<()> + Send,
        served: impl FnOnce() -> PartRequest<'static>,
    ) -> PyResult<()> {
        match &self.home {
            Home::Embedded(database) => database.call(py, |database| embedded(database.queue(&self.name))),
            Home::Served(client) => {
                let part = served();
                client.call(py, move |client| served::commit_part(client, part).map(drop))
            }
        }
    }

    /// The same for a task.
    fn change_async(
        &self,
        py: Python<'_>,
        command: Command<'_>,
        served: impl FnOnce() -> PartRequest<'static>,
    ) -> PyResult<Py<PyAny>> {
        match &self.home {
            Home::Embedded(database) => submit(py, database, command, |py, _| Ok(py.None())),
            Home::Served(client) => {
                let (client, part) = (client.get()?, served());
                let call = move || served::commit_part(&client, part);
                asyncio::spawn(py, CALLS.run(call), |py, _| Ok(py.None()))
            }
        }
    }

    /// Fetches jobs of a server for a task. The server waits up to `wait` for the first one.
    fn fetch_served(
        &self,
        py: Python<'_>,
        client: &Shared<Client>,
        worker: &str,
        count: u32,
        lease: Duration,
        wait: Duration,
    ) -> PyResult<Py<PyAny>> {
        let left = LeftCall::default();
        let call = fetch_call(client.get()?, self.name.clone(), worker.to_owned(), count, lease, &left);
        let pool = if wait.is_zero() { &CALLS } else { &WAITS };
        let answer = pool.run(move || call(wait));
        let fetched = async move {
            let fetched = answer.await;
            left.is_answered.store(true, Ordering::Release);
            fetched
        };
        asyncio::spawn(py, fetched, |py, jobs| Ok(list(py, &jobs)?.into_any()))
    }
}

/// Whether the caller of a fetch has left before its answer.
#[derive(Default)]
struct LeftCall {
    is_answered: AtomicBool,
    has_left: Arc<AtomicBool>,
}

impl Drop for LeftCall {
    fn drop(&mut self) {
        let is_answered = self.is_answered.load(Ordering::Acquire);
        self.has_left.store(!is_answered, Ordering::Release);
    }
}

/// The call that fetches jobs. It returns the jobs to their queue when the caller has left.
fn fetch_call(
    client: Client,
    queue: String,
    worker: String,
    count: u32,
    lease: Duration,
    left: &LeftCall,
) -> impl Fn(Duration) -> Result<Vec<FetchedJob>, CallError> + Clone + Send + 'static + use<> {
    let has_left = Arc::clone(&left.has_left);
    move |wait| {
        let jobs = served::jobs::fetch(&client, &queue, &worker, count, lease, wait)?;
        if has_left.load(Ordering::Acquire) {
            for job in &jobs {
                // Without an answer, the lease ends by itself.
                let _ = served::commit_part(&client, Snooze::new(job.job, job.token, 0));
            }
        }
        Ok(jobs)
    }
}

/// Commits one command, and completes a future of asyncio with its reply.
fn submit(
    py: Python<'_>,
    database: &Shared<quire::Database>,
    command: Command<'_>,
    convert: impl FnOnce(Python<'_>, Reply) -> PyResult<Py<PyAny>> + Send + 'static,
) -> PyResult<Py<PyAny>> {
    let commit = quire::Commit::new().part(Part::Jobs(command));
    let ticket = database.call(py, |database| database.submit(&commit))?;
    let replied = async {
        let mut committed = ticket.await.and_then(Outcome::committed)?;
        Ok::<_, quire::Error>(committed.replies.pop())
    };
    asyncio::spawn(py, replied, |py, reply| match reply {
        Some(quire::Reply::Jobs(reply)) => convert(py, reply),
        _ => Ok(py.None()),
    })
}

fn list(py: Python<'_>, jobs: &[FetchedJob]) -> PyResult<Py<PyList>> {
    let jobs = jobs.iter().map(|job| Job::new(py, job)).collect::<PyResult<Vec<_>>>()?;
    Ok(PyList::new(py, jobs)?.unbind())
}

#[pymethods]
impl Queue {
    #[pyo3(signature = (payload=None, **options))]
    fn enqueue(
        &self,
        py: Python<'_>,
        payload: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<String> {
        let job = JobPieces::of(payload, options)?;
        match &self.home {
            Home::Embedded(database) => database.call(py, |database| {
                Ok(database.queue(&self.name).enqueue(job.embedded::<BorrowValues>())?.to_string())
            }),
            Home::Served(client) => {
                let queue = self.name.clone();
                client.call(py, move |client| {
                    served::commit_part(client, job.served(&queue)?).map(served::jobs::enqueued)
                })
            }
        }
    }

    /// Fetches jobs. With `wait`, waits up to that time for the first one.
    #[pyo3(signature = (worker, count=1, *, lease=30.0, wait=0.0))]
    fn fetch(&self, py: Python<'_>, worker: &str, count: u32, lease: f64, wait: Option<f64>) -> PyResult<Py<PyList>> {
        let lease = duration("lease", lease)?;
        let timeout = wait.map(|wait| duration("wait", wait)).transpose()?;
        let found = match &self.home {
            Home::Embedded(database) => {
                let database = database.get()?;
                let step = |at_most: Duration| {
                    let jobs = database.queue(&self.name).lease(lease).fetch(worker, count)?;
                    if !jobs.is_empty() {
                        return Ok(Some(jobs));
                    }
                    if let Some(rest) = database.fetch_rest(&[&self.name])?
                        && !at_most.is_zero()
                    {
                        database.wait_after(rest.seen, rest.at_most.min(at_most))?;
                    }
                    Ok(None)
                };
                wait::until(py, &database, timeout, step)?
            }
            Home::Served(client) => {
                let left = LeftCall::default();
                let call = fetch_call(client.get()?, self.name.clone(), worker.to_owned(), count, lease, &left);
                let found = wait::until_answered(py, timeout, |at_most| {
                    let call = call.clone();
                    move || Ok(Some(call(at_most)?).filter(|jobs| !jobs.is_empty()))
                })?;
                left.is_answered.store(true, Ordering::Release);
                found
            }
        };
        list(py, &found.unwrap_or_default())
    }

    #[pyo3(signature = (worker, count=1, *, lease=30.0))]
    fn fetch_async(&self, py: Python<'_>, worker: &str, count: u32, lease: f64) -> PyResult<Py<PyAny>> {
        let lease = duration("lease", lease)?;
        let database = match &self.home {
            Home::Embedded(database) => database,
            Home::Served(client) => return self.fetch_served(py, client, worker, count, lease, Duration::ZERO),
        };
        let (queues, lease_micros) = (&[self.name.as_str()], micros(lease));
        let command = Command::Fetch { queues, order: Order::Strict, count, lease_micros, worker };
        submit(py, database, command, |py, reply| match reply {
            Reply::Fetched(jobs) => Ok(list(py, &jobs)?.into_any()),
            _ => Ok(PyList::empty(py).into_any().unbind()),
        })
    }

    /// The same for one job. A server waits a second for it.
    fn _fetch_next(&self, py: Python<'_>, worker: &str, lease: f64) -> PyResult<Py<PyAny>> {
        match &self.home {
            Home::Embedded(_) => self.fetch_async(py, worker, 1, lease),
            Home::Served(client) => self.fetch_served(py, client, worker, 1, duration("lease", lease)?, TASK_WAIT),
        }
    }

    /// The position that a fetch saw, and for how long it is useless to fetch again without a new
    /// commit; `None` when a fetch may return a job, or when a server waits.
    fn _rest(&self, py: Python<'_>) -> PyResult<Option<(u64, f64)>> {
        let Home::Embedded(database) = &self.home else { return Ok(None) };
        let rest = database.call(py, |database| database.fetch_rest(&[&self.name]))?;
        Ok(rest.map(|rest| (rest.seen.get(), rest.at_most.as_secs_f64())))
    }

    /// A future of asyncio that the first commit after `position` completes.
    fn _published_after(&self, py: Python<'_>, position: u64) -> PyResult<Py<PyAny>> {
        let Home::Embedded(database) = &self.home else {
            return Err(crate::errors::unserved("no call of a server waits for any commit"));
        };
        let seen = quire::Position::new(position);
        let publication = database.call(py, |database| Ok(database.publication_after(seen)))?;
        asyncio::spawn(py, publication, |py, ()| Ok(py.None()))
    }

    #[pyo3(signature = (job, result=None))]
    fn ack(&self, py: Python<'_>, job: &Job, result: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let ((job, token), result) = (job.lease(), values::owned(result)?);
        let served = || Ack::new(job, token).result(&result).into();
        self.change(py, |queue| queue.ack(job, token, &*result), served)
    }

    #[pyo3(signature = (job, result=None))]
    fn ack_async(&self, py: Python<'_>, job: &Job, result: Option<&Bound<'_, PyAny>>) -> PyResult<Py<PyAny>> {
        let ((job, token), result) = (job.lease(), values::owned(result)?);
        let served = || Ack::new(job, token).result(&result).into();
        self.change_async(py, Command::Ack { job, token, result: &result }, served)
    }

    #[pyo3(signature = (job, error, *, retry_in=None, retry=true))]
    fn fail(&self, py: Python<'_>, job: &Job, error: &str, retry_in: Option<f64>, retry: bool) -> PyResult<()> {
        let (lease, retry) = (job.lease(), RetryIn::of(retry_in, retry)?);
        let served = || served_fail(lease, error, retry).into();
        self.change(py, |queue| queue.fail(lease.0, lease.1, error, retry), served)
    }

    #[pyo3(signature = (job, *, lease=30.0))]
    fn heartbeat(&self, py: Python<'_>, job: &Job, lease: f64) -> PyResult<()> {
        let ((job, token), lease) = (job.lease(), duration("lease", lease)?);
        let served = || Heartbeat::new(job, token, served::millis(lease)).into();
        self.change(py, |queue| queue.lease(lease).heartbeat(job, token), served)
    }

    #[pyo3(signature = (job, *, lease=30.0))]
    fn heartbeat_async(&self, py: Python<'_>, job: &Job, lease: f64) -> PyResult<Py<PyAny>> {
        let ((job, token), lease) = (job.lease(), duration("lease", lease)?);
        let lease_micros = Some(micros(lease));
        let command = Command::Heartbeat { job, token, lease_micros, progress: None, checkpoint: None };
        self.change_async(py, command, || Heartbeat::new(job, token, served::millis(lease)).into())
    }

    fn snooze(&self, py: Python<'_>, job: &Job, seconds: f64) -> PyResult<()> {
        let ((job, token), wait) = (job.lease(), duration("seconds", seconds)?);
        let served = || Snooze::new(job, token, served::millis(wait)).into();
        self.change(py, |queue| queue.snooze(job, token, wait), served)
    }

    /// The number of jobs in each state; `None` for an unknown queue.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let found = match &self.home {
            Home::Embedded(database) => database.call(py, |database| {
                let stats = database.queue(&self.name).stats()?;
                Ok(stats.map(|stats| JobState::ALL.map(|state| (state.name(), stats.of(state))).into()))
            })?,
            Home::Served(client) => {
                let queue = self.name.clone();
                client.call(py, move |client| served::jobs::stats(client, &queue))?
            }
        };
        let Some(found): Option<Vec<(&str, u64)>> = found else { return Ok(None) };
        let counts = PyDict::new(py);
        for (state, count) in found {
            counts.set_item(state, count)?;
        }
        Ok(Some(counts))
    }

    #[pyo3(signature = (name, *, concurrency=1, lease=30.0, on_error=None))]
    fn worker(&self, name: &str, concurrency: usize, lease: f64, on_error: Option<Py<PyAny>>) -> PyResult<Worker> {
        let lease = duration("lease", lease)?;
        match &self.home {
            Home::Embedded(database) => {
                let queue = database.get()?.queue(&self.name).lease(lease);
                Ok(Worker::embedded(queue.worker(name).concurrency(concurrency), on_error))
            }
            Home::Served(client) => {
                let worker = client.get()?.worker(&*self.name, name).concurrency(concurrency).lease(lease);
                Ok(Worker::served(worker, on_error))
            }
        }
    }

    /// The jobs of the queue, each held by heartbeats until the next one is taken.
    #[pyo3(signature = (worker, *, lease=30.0))]
    fn jobs(slf: &Bound<'_, Self>, worker: &str, lease: f64) -> PyResult<Py<PyAny>> {
        static JOBS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let jobs = JOBS.import(slf.py(), "quire._asyncio", "jobs")?;
        jobs.call1((slf, worker, lease)).map(Bound::unbind)
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
