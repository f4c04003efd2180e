//! Consumers of a topic: members of a group, which read records and commit offsets.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use pyo3::exceptions::{PyException, PyRuntimeError, PyStopIteration};
use pyo3::prelude::*;
use pyo3::types::PyList;
use quire::{HandlerError, Stopper};

use crate::asyncio;
use crate::commit::Commit;
use crate::errors;
use crate::held::Held;
use crate::topic::Record;
use crate::values::duration;
use crate::wait::{self, SIGNAL_LOOK};

/// Records of one partition, for one commit of their offset.
#[pyclass(frozen, module = "quire")]
pub(crate) struct Delivery {
    delivery: quire::Delivery,
    #[pyo3(get)]
    records: Py<PyList>,
}

#[pymethods]
impl Delivery {
    #[getter]
    fn partition(&self) -> u32 {
        self.delivery.partition
    }

    /// The number of records that retention deleted before the group read them.
    #[getter]
    fn lost(&self) -> u64 {
        self.delivery.lost
    }

    fn __len__(&self) -> usize {
        self.delivery.len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.records.bind(py).try_iter()?.into_any())
    }
}

fn records(py: Python<'_>, delivery: &quire::Delivery) -> PyResult<Py<PyList>> {
    let records = delivery.records().map(|record| {
        let place = (delivery.partition, record.offset, record.timestamp_ms);
        let headers = record.headers.iter().map(|header| (header.key, header.value));
        Record::new(py, place, (record.key, record.value), headers)
    });
    Ok(PyList::new(py, records.collect::<PyResult<Vec<_>>>()?)?.unbind())
}

impl Delivery {
    fn new(py: Python<'_>, delivery: quire::Delivery) -> PyResult<Py<Delivery>> {
        let records = records(py, &delivery)?;
        Py::new(py, Delivery { delivery, records })
    }
}

struct Member {
    database: quire::Database,
    consumer: Mutex<quire::Consumer>,
}

impl Member {
    fn lock(&self) -> MutexGuard<'_, quire::Consumer> {
        self.consumer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that no other call uses the consumer, for example the `run` of this handler.
    fn check_free(&self) -> PyResult<()> {
        match self.consumer.try_lock() {
            Err(TryLockError::WouldBlock) => Err(PyRuntimeError::new_err("another call uses the consumer")),
            Ok(_) | Err(TryLockError::Poisoned(_)) => Ok(()),
        }
    }
}

/// Calls the handler of a consumer, and converts what it returns.
fn handle(py: Python<'_>, handler: &Py<PyAny>, delivery: &quire::Delivery) -> PyResult<quire::Commit<'static>> {
    let returned = handler.call1(py, (records(py, delivery)?,))?;
    if returned.is_none(py) {
        return Ok(quire::Commit::new());
    }
    let commit = returned.bind(py).cast::<Commit>()?;
    Ok(commit.get().lock().clone())
}

/// A consumer of a topic.
#[pyclass(frozen, module = "quire")]
pub(crate) struct Consumer {
    member: Arc<Held<Member>>,
    stopper: Stopper,
}

impl Consumer {
    pub(crate) fn new(database: quire::Database, consumer: quire::Consumer) -> Self {
        let stopper = consumer.stopper();
        Consumer { member: Arc::new(Held::new(Member { database, consumer: Mutex::new(consumer) })), stopper }
    }
}

#[pymethods]
impl Consumer {
    #[pyo3(signature = (timeout=None))]
    fn next(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Py<Delivery>>> {
        let timeout = timeout.map(|timeout| duration("timeout", timeout)).transpose()?;
        let member = self.member.get()?;
        member.check_free()?;
        let found = wait::until(py, &member.database, timeout, |at_most| member.lock().wait(at_most))?;
        found.map(|delivery| Delivery::new(py, delivery)).transpose()
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Py<Delivery>> {
        self.next(py, None)?.ok_or_else(|| PyStopIteration::new_err(()))
    }

    fn __aiter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __anext__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.member.get()?;
        let held = Arc::clone(&self.member);
        let delivered = async move {
            loop {
                let publication = {
                    let Ok(member) = held.get() else { return Ok(None) };
                    let seen = member.database.published();
                    if let Some(delivery) = member.lock().wait(Duration::ZERO)? {
                        return Ok(Some(delivery));
                    }
                    member.database.publication_after(seen)
                };
                publication.await?;
            }
        };
        asyncio::spawn(py, delivered, |py, delivery: Option<quire::Delivery>| match delivery {
            Some(delivery) => Ok(Delivery::new(py, delivery)?.into_any()),
            None => Err(errors::forked()),
        })
    }

    /// Commits the offset of a delivery as read, together with a commit.
    #[pyo3(signature = (delivery, commit=None))]
    fn ack(&self, py: Python<'_>, delivery: &Delivery, commit: Option<&Commit>) -> PyResult<()> {
        let commit = commit.map(|commit| commit.lock().clone()).unwrap_or_default();
        let member = self.member.get()?;
        member.check_free()?;
        errors::result(py, py.detach(|| member.lock().ack_in(commit, &delivery.delivery)))
    }

    /// Calls a handler with the records of each delivery, until the consumer is stopped. The commit
    /// that it returns and the offset happen together.
    fn run(&self, py: Python<'_>, handler: Py<PyAny>) -> PyResult<()> {
        let member = self.member.get()?;
        member.check_free()?;
        let interrupted = Mutex::new(None);
        let note = |error: PyErr| *interrupted.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        let is_interrupted = || interrupted.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        let stop = || {
            if !is_interrupted() {
                Python::attach(|py| py.check_signals().unwrap_or_else(note));
            }
            is_interrupted()
        };
        let done = py.detach(|| {
            member.lock().process(SIGNAL_LOOK, stop, |delivery| {
                Python::attach(|py| {
                    handle(py, &handler, delivery).map_err(|error| {
                        let text = error.to_string();
                        // Ctrl-C and exits are not failures of the handler.
                        if !error.is_instance_of::<PyException>(py) {
                            note(error);
                        }
                        HandlerError::from(text)
                    })
                })
            })
        });
        match interrupted.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => errors::result(py, done),
        }
    }

    /// Stops `run`, from its handler or another thread.
    fn stop(&self) {
        self.stopper.stop();
    }
}
