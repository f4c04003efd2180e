//! Workers: a handler of Python for the jobs of a queue.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use quire::jobs::FetchedJob;
use quire::{HandlerError, JobOutcome, RetryTime, Stopper, WorkSummary};

use crate::commit::Commit;
use crate::errors;
use crate::held::Held;
use crate::jobs::{Job, retry_time};
use crate::values::{self, duration};
use crate::wait::SIGNAL_LOOK;

/// The outcome of a job that failed.
#[pyclass(frozen, module = "quire")]
pub(crate) struct Fail {
    error: String,
    retry: RetryTime,
}

#[pymethods]
impl Fail {
    #[new]
    #[pyo3(signature = (error, *, retry_in=None, retry=true))]
    fn new(error: String, retry_in: Option<f64>, retry: bool) -> PyResult<Self> {
        Ok(Fail { error, retry: retry_time(retry_in, retry)? })
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
    worker: Held<Mutex<Option<quire::Worker>>>,
    stopper: Stopper,
    on_error: Option<Py<PyAny>>,
}

impl Worker {
    pub(crate) fn new(worker: quire::Worker, on_error: Option<Py<PyAny>>) -> Self {
        let stopper = worker.stopper();
        Worker { worker: Held::new(Mutex::new(Some(worker))), stopper, on_error }
    }
}

#[pymethods]
impl Worker {
    /// Works until the worker is stopped, in threads of the database. Ctrl-C stops it after the
    /// running handlers.
    fn run<'py>(&self, py: Python<'py>, handler: Py<PyAny>) -> PyResult<Bound<'py, PyDict>> {
        let worker = self.worker.get()?.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut worker = worker.ok_or_else(|| PyRuntimeError::new_err("a worker runs once: make another one"))?;
        if let Some(report) = &self.on_error {
            let report = report.clone_ref(py);
            worker = worker.on_error(move |job, error| {
                Python::attach(|py| {
                    let told = Job::new(py, job)
                        .and_then(|job| report.call1(py, (job, errors::exception(py, error).into_value(py))));
                    if let Err(error) = told {
                        error.write_unraisable(py, Some(report.bind(py)));
                    }
                });
            });
        }
        let (sender, mut ended) = channel();
        let run = move || {
            let done = worker.run(|job| Python::attach(|py| handle(py, &handler, job)));
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

/// Calls the handler, and converts what it returns.
fn handle(py: Python<'_>, handler: &Py<PyAny>, job: &FetchedJob) -> Result<JobOutcome, HandlerError> {
    let outcome = Job::new(py, job).and_then(|job| {
        let returned = handler.call1(py, (job,))?;
        let returned = returned.bind(py);
        if let Ok(commit) = returned.cast::<Commit>() {
            Ok(JobOutcome::Commit(commit.get().lock().clone()))
        } else if let Ok(fail) = returned.cast::<Fail>() {
            Ok(JobOutcome::Fail(fail.get().error.clone(), fail.get().retry))
        } else if let Ok(snooze) = returned.cast::<Snooze>() {
            Ok(JobOutcome::snooze(snooze.get().0))
        } else {
            Ok(JobOutcome::Ack(values::owned(Some(returned))?))
        }
    });
    outcome.map_err(HandlerError::from)
}
