//! Queues and their jobs.

use std::time::Duration;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList};
use quire::jobs::{Backoff, Clash, Command, FetchedJob, JobId, LeaseToken, Order, Priority, Reply};
use quire::{NewJob, Outcome, Part, RetryTime, UniqueKey};

use crate::asyncio;
use crate::query::strings;
use crate::shared::Shared;
use crate::values::{self, duration};
use crate::wait;
use crate::worker::Worker;

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

    pub(crate) fn id(&self) -> JobId {
        self.job
    }

    pub(crate) fn token(&self) -> LeaseToken {
        self.token
    }
}

/// Returns the job of the keywords of an enqueue.
pub(crate) fn new_job(
    payload: Option<&Bound<'_, PyAny>>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<NewJob<'static>> {
    let mut job = NewJob::new(values::owned(payload)?);
    for (name, value) in options.into_iter().flat_map(|options| options.iter()) {
        if value.is_none() {
            continue;
        }
        let name: String = name.extract()?;
        let seconds = || duration(&name, value.extract()?);
        job = match name.as_str() {
            "kind" => job.kind(value.extract::<String>()?),
            "group" => job.group(value.extract::<String>()?),
            "tags" => strings("tags", Some(&value))?.into_iter().fold(job, NewJob::tag),
            "unique" => job.unique(UniqueKey::new(values::owned(Some(&value))?).clash(Clash::Keep)),
            "priority" => job.priority(Priority::new(value.extract()?)),
            "run_in" => job.run_at(seconds()?),
            "expires_in" => job.expires_at(seconds()?),
            "timeout" => job.timeout(seconds()?),
            "backoff" => job.backoff(Backoff::fixed(seconds()?)),
            "attempts_max" => job.attempts_max(value.extract()?),
            "retention" => job.retention(seconds()?),
            other => return Err(PyTypeError::new_err(format!("enqueue got an unexpected keyword argument {other:?}"))),
        };
    }
    Ok(job)
}

/// Returns when a failed job is tried again.
pub(crate) fn retry_time(retry_in: Option<f64>, retry: bool) -> PyResult<RetryTime> {
    Ok(match retry_in {
        _ if !retry => RetryTime::Never,
        Some(seconds) => duration("retry_in", seconds)?.into(),
        None => RetryTime::Backoff,
    })
}

/// A queue of jobs.
#[pyclass(frozen, module = "quire")]
pub(crate) struct Queue {
    database: Shared,
    #[pyo3(get)]
    name: String,
}

impl Queue {
    pub(crate) fn new(database: Shared, name: String) -> Self {
        Queue { database, name }
    }

    fn call<T: Send>(&self, py: Python<'_>, call: impl FnOnce(quire::Queue) -> quire::Result<T> + Send) -> PyResult<T> {
        self.database.call(py, |database| call(database.queue(&self.name)))
    }

    /// Commits one command, and completes a future of asyncio with its reply.
    fn submit(
        &self,
        py: Python<'_>,
        command: Command<'_>,
        convert: impl FnOnce(Python<'_>, Reply) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Py<PyAny>> {
        let commit = quire::Commit::new().part(Part::Jobs(command));
        let ticket = self.database.call(py, |database| database.submit(&commit))?;
        let replied = async {
            let mut committed = ticket.await.and_then(Outcome::committed)?;
            Ok(committed.replies.pop())
        };
        asyncio::spawn(py, replied, |py, reply| match reply {
            Some(quire::Reply::Jobs(reply)) => convert(py, reply),
            _ => Ok(py.None()),
        })
    }
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
        let job = new_job(payload, options)?;
        self.call(py, |queue| Ok(queue.enqueue(job)?.to_string()))
    }

    /// Fetches jobs. With `wait`, waits up to that time for the first one.
    #[pyo3(signature = (worker, count=1, *, lease=30.0, wait=0.0))]
    fn fetch(&self, py: Python<'_>, worker: &str, count: u32, lease: f64, wait: Option<f64>) -> PyResult<Py<PyList>> {
        let lease = duration("lease", lease)?;
        let timeout = wait.map(|wait| duration("wait", wait)).transpose()?;
        let database = self.database.get()?;
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
        let jobs = wait::until(py, &database, timeout, step)?.unwrap_or_default();
        list(py, &jobs)
    }

    #[pyo3(signature = (worker, count=1, *, lease=30.0))]
    fn fetch_async(&self, py: Python<'_>, worker: &str, count: u32, lease: f64) -> PyResult<Py<PyAny>> {
        let lease_micros = micros(duration("lease", lease)?);
        let queues = &[self.name.as_str()];
        self.submit(py, Command::Fetch { queues, order: Order::Strict, count, lease_micros, worker }, |py, reply| {
            match reply {
                Reply::Fetched(jobs) => Ok(list(py, &jobs)?.into_any()),
                _ => Ok(PyList::empty(py).into_any().unbind()),
            }
        })
    }

    /// The position that a fetch saw, and for how long it is useless to fetch again without a new
    /// commit; `None` when a fetch may return a job.
    fn _rest(&self, py: Python<'_>) -> PyResult<Option<(u64, f64)>> {
        let rest = self.database.call(py, |database| database.fetch_rest(&[&self.name]))?;
        Ok(rest.map(|rest| (rest.seen.get(), rest.at_most.as_secs_f64())))
    }

    /// A future of asyncio that the first commit after `position` completes.
    fn _published_after(&self, py: Python<'_>, position: u64) -> PyResult<Py<PyAny>> {
        let seen = quire::Position::new(position);
        let publication = self.database.call(py, |database| Ok(database.publication_after(seen)))?;
        asyncio::spawn(py, publication, |py, ()| Ok(py.None()))
    }

    #[pyo3(signature = (job, result=None))]
    fn ack(&self, py: Python<'_>, job: &Job, result: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let result = values::owned(result)?;
        self.call(py, |queue| queue.ack(job.job, job.token, result))
    }

    #[pyo3(signature = (job, result=None))]
    fn ack_async(&self, py: Python<'_>, job: &Job, result: Option<&Bound<'_, PyAny>>) -> PyResult<Py<PyAny>> {
        let result = values::owned(result)?;
        let command = Command::Ack { job: job.job, token: job.token, result: &result };
        self.submit(py, command, |py, _| Ok(py.None()))
    }

    #[pyo3(signature = (job, error, *, retry_in=None, retry=true))]
    fn fail(&self, py: Python<'_>, job: &Job, error: &str, retry_in: Option<f64>, retry: bool) -> PyResult<()> {
        let retry = retry_time(retry_in, retry)?;
        self.call(py, |queue| queue.fail(job.job, job.token, error, retry))
    }

    #[pyo3(signature = (job, *, lease=30.0))]
    fn heartbeat(&self, py: Python<'_>, job: &Job, lease: f64) -> PyResult<()> {
        let lease = duration("lease", lease)?;
        self.call(py, |queue| queue.lease(lease).heartbeat(job.job, job.token))
    }

    #[pyo3(signature = (job, *, lease=30.0))]
    fn heartbeat_async(&self, py: Python<'_>, job: &Job, lease: f64) -> PyResult<Py<PyAny>> {
        let lease_micros = Some(micros(duration("lease", lease)?));
        let (job, token) = (job.job, job.token);
        let command = Command::Heartbeat { job, token, lease_micros, progress: None, checkpoint: None };
        self.submit(py, command, |py, _| Ok(py.None()))
    }

    fn snooze(&self, py: Python<'_>, job: &Job, seconds: f64) -> PyResult<()> {
        let until = duration("seconds", seconds)?;
        self.call(py, |queue| queue.snooze(job.job, job.token, until))
    }

    /// The number of jobs in each state; `None` for an unknown queue.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(stats) = self.call(py, |queue| queue.stats())? else { return Ok(None) };
        let counts = PyDict::new(py);
        for (state, count) in [
            ("scheduled", stats.scheduled),
            ("pending", stats.pending),
            ("active", stats.active),
            ("retrying", stats.retrying),
            ("held", stats.held),
            ("completed", stats.completed),
            ("cancelled", stats.cancelled),
            ("dead", stats.dead),
        ] {
            counts.set_item(state, count)?;
        }
        Ok(Some(counts))
    }

    #[pyo3(signature = (name, *, concurrency=1, lease=30.0, on_error=None))]
    fn worker(&self, name: &str, concurrency: usize, lease: f64, on_error: Option<Py<PyAny>>) -> PyResult<Worker> {
        let lease = duration("lease", lease)?;
        let queue = self.database.get()?.queue(&self.name).lease(lease);
        Ok(Worker::new(queue.worker(name).concurrency(concurrency), on_error))
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
