//! Workers: a handler of Python for the jobs of a queue.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use quire::{HandlerError, JobOutcome, Stopper, WorkSummary};
use quire_client::reply::FetchedReply;
use quire_client::{RemoteOutcome, RemoteWorker};

use crate::commit::{Commit, CommitParts};
use crate::errors::{self, CallError};
use crate::held::Held;
use crate::jobs::Job;
use crate::pieces::RetryIn;
use crate::served;
use crate::values::{self, duration};
use crate::wait::SIGNAL_LOOK;

/// The outcome of a job that failed.
#[pyclass(frozen, module = "quire")]
pub(crate) struct Fail {
    error: String,
    retry: RetryIn,
}

#[pymethods]
impl Fail {
    #[new]
    #[pyo3(signature = (error, *, retry_in=None, retry=true))]
    fn new(error: String, retry_in: Option<f64>, retry: bool) -> PyResult<Self> {
        Ok(Fail { error, retry: RetryIn::of(retry_in, retry)? })
    }
}

/// The outcome of a job that is to run later.
#[pyclass(frozen, module = "quire")]
pub(crate) struct Snooze(std::time::Duration);

#[pymethods]
impl Snooze {
    #[new]
    fn new(seconds: f64) -> PyResult<Self> {
        duration("seconds", seconds).map(Snooze)
    }
}

/// A worker of a queue. It runs once.
#[pyclass(frozen, module = "quire")]
pub(crate) struct Worker {
    worker: Held<Mutex<Option<AnyWorker>>>,
    stopper: Stopper,
    on_error: Option<Py<PyAny>>,
}

/// A worker of either home.
enum AnyWorker {
    Embedded(quire::Worker),
    Served(RemoteWorker),
}

impl Worker {
    pub(crate) fn embedded(worker: quire::Worker, on_error: Option<Py<PyAny>>) -> Self {
        let stopper = worker.stopper();
        Worker { worker: Held::new(Mutex::new(Some(AnyWorker::Embedded(worker)))), stopper, on_error }
    }

    pub(crate) fn served(worker: RemoteWorker, on_error: Option<Py<PyAny>>) -> Self {
        let stopper = worker.stopper();
        Worker { worker: Held::new(Mutex::new(Some(AnyWorker::Served(worker)))), stopper, on_error }
    }
}

impl AnyWorker {
    /// Reports the error of each job to a function of Python.
    fn on_error(self, py: Python<'_>, report: Option<&Py<PyAny>>) -> Self {
        let report = report.map(|report| report.clone_ref(py));
        match (self, report) {
            (AnyWorker::Embedded(worker), None) => AnyWorker::Embedded(worker),
            (AnyWorker::Embedded(worker), Some(report)) => AnyWorker::Embedded(worker.on_error(move |job, error| {
                Python::attach(|py| tell(py, &report, Job::new(py, job), errors::of_database(py, error)));
            })),
            (AnyWorker::Served(worker), report) => AnyWorker::Served(worker.on_error(move |job, error| {
                Python::attach(|py| match (job, &report) {
                    (Some(job), Some(report)) => tell(py, report, served_job(py, job), errors::of_client(py, error)),
                    (Some(_), None) => {}
                    // The server does not answer, and the worker tries again.
                    (None, _) => warn(py, &error.to_string()),
                });
            })),
        }
    }

    fn run(self, handler: &Py<PyAny>) -> Result<WorkSummary, CallError> {
        match self {
            AnyWorker::Embedded(worker) => {
                Ok(worker.run(|job| Python::attach(|py| handle(py, handler, Job::new(py, job), embedded_outcome)))?)
            }
            AnyWorker::Served(worker) => {
                Ok(worker.run(|job| Python::attach(|py| handle(py, handler, served_job(py, job), served_outcome)))?)
            }
        }
    }
}

fn served_job(py: Python<'_>, job: &FetchedReply<'_>) -> PyResult<Py<Job>> {
    Job::new(py, &errors::result(py, served::jobs::fetched(job))?)
}

/// Calls the function for errors of jobs.
fn tell(py: Python<'_>, report: &Py<PyAny>, job: PyResult<Py<Job>>, error: PyErr) {
    let told = job.and_then(|job| report.call1(py, (job, error.into_value(py))));
    if let Err(error) = told {
        error.write_unraisable(py, Some(report.bind(py)));
    }
}

/// Logs a warning with the logger `quire`.
fn warn(py: Python<'_>, message: &str) {
    let logged = py
        .import("logging")
        .and_then(|logging| logging.call_method1("getLogger", ("quire",)))
        .and_then(|logger| logger.call_method1("warning", ("%s", message)));
    if let Err(error) = logged {
        error.write_unraisable(py, None);
    }
}

#[pymethods]
impl Worker {
    /// Works until the worker is stopped, in threads of the database. Ctrl-C stops it after the
    /// running handlers.
    fn run<'py>(&self, py: Python<'py>, handler: Py<PyAny>) -> PyResult<Bound<'py, PyDict>> {
        let worker = self.worker.get()?.lock().unwrap_or_else(PoisonError::into_inner).take();
        let worker = worker.ok_or_else(|| PyRuntimeError::new_err("a worker runs once: make another one"))?;
        let worker = worker.on_error(py, self.on_error.as_ref());
        let (sender, mut ended) = channel();
        let run = move || {
            let done = worker.run(&handler);
            // The handler is an object of Python.
            Python::attach(|_| drop(handler));
            let _ = sender.send(done);
        };
        let thread = std::thread::Builder::new().name("quire-worker".to_owned()).spawn(run)?;
        let mut interrupted = Ok(());
        let done = loop {
            let ended = &mut ended;
            match py.detach(move || ended.recv_timeout(SIGNAL_LOOK)) {
                Ok(done) => break Some(done),
                Err(RecvTimeoutError::Disconnected) => break None,
                Err(RecvTimeoutError::Timeout) if interrupted.is_ok() => {
                    interrupted = py.check_signals();
                    if interrupted.is_err() {
                        self.stopper.stop();
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        };
        py.detach(|| thread.join()).map_err(|_| PyRuntimeError::new_err("the thread of the worker panicked"))?;
        interrupted?;
        let done = done.ok_or_else(|| PyRuntimeError::new_err("the thread of the worker ended"))?;
        let WorkSummary { completed, failed, snoozed, refused } = errors::result(py, done)?;
        let summary = PyDict::new(py);
        for (name, count) in [("completed", completed), ("failed", failed), ("snoozed", snoozed), ("refused", refused)]
        {
            summary.set_item(name, count)?;
        }
        Ok(summary)
    }

    /// Stops the worker, from its handler or another thread.
    fn stop(&self) {
        self.stopper.stop();
    }
}

/// What a handler returned.
enum HandlerReturn<'a> {
    Commit(&'a CommitParts),
    Fail(&'a Fail),
    Snooze(&'a Snooze),
    Result(Vec<u8>),
}

/// Calls the handler, and converts what it returns.
fn handle<T>(
    py: Python<'_>,
    handler: &Py<PyAny>,
    job: PyResult<Py<Job>>,
    outcome: impl FnOnce(HandlerReturn<'_>) -> Result<T, CallError>,
) -> Result<T, HandlerError> {
    let made = job.and_then(|job| {
        let returned = handler.call1(py, (job,))?;
        let returned = returned.bind(py);
        let made = if let Ok(commit) = returned.cast::<Commit>() {
            outcome(HandlerReturn::Commit(&commit.get().lock()))
        } else if let Ok(fail) = returned.cast::<Fail>() {
            outcome(HandlerReturn::Fail(fail.get()))
        } else if let Ok(snooze) = returned.cast::<Snooze>() {
            outcome(HandlerReturn::Snooze(snooze.get()))
        } else {
            outcome(HandlerReturn::Result(values::owned(Some(returned))?))
        };
        errors::result(py, made)
    });
    made.map_err(HandlerError::from)
}

fn embedded_outcome(returned: HandlerReturn<'_>) -> Result<JobOutcome, CallError> {
    Ok(match returned {
        HandlerReturn::Commit(parts) => JobOutcome::Commit(parts.embedded_copy()),
        HandlerReturn::Fail(fail) => JobOutcome::Fail(fail.error.clone(), fail.retry.into()),
        HandlerReturn::Snooze(snooze) => JobOutcome::snooze(snooze.0),
        HandlerReturn::Result(result) => JobOutcome::Ack(result),
    })
}

fn served_outcome(returned: HandlerReturn<'_>) -> Result<RemoteOutcome, CallError> {
    Ok(match returned {
        HandlerReturn::Commit(CommitParts { key: Some(_), .. }) => {
            let message = "the commit of a handler needs no idempotency_key: its job is acknowledged once";
            return Err(CallError::Invalid(message.to_owned()));
        }
        HandlerReturn::Commit(parts) => RemoteOutcome::Commit(parts.served()?),
        HandlerReturn::Fail(fail) => match fail.retry {
            RetryIn::Backoff => RemoteOutcome::Fail(fail.error.clone()),
            RetryIn::Never => RemoteOutcome::FailForGood(fail.error.clone()),
            RetryIn::After(wait) => RemoteOutcome::FailFor(fail.error.clone(), wait),
        },
        HandlerReturn::Snooze(snooze) => RemoteOutcome::Snooze(snooze.0),
        HandlerReturn::Result(result) => RemoteOutcome::Ack(result),
    })
}
