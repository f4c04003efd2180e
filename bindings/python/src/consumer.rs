//! Consumers of a topic: members of a group, which read records and commit offsets.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use pyo3::exceptions::{PyException, PyRuntimeError, PyStopIteration};
use pyo3::prelude::*;
use pyo3::types::PyList;
use quire::{HandlerError, Stopper};

use crate::asyncio;
use crate::commit::{Commit, CommitParts};
use crate::errors::{self, CallError};
use crate::held::Held;
use crate::pool::{CALLS, WAITS};
use crate::served::consumer::{ServedConsumer, ServedDelivery, TASK_WAIT};
use crate::topic::Record;
use crate::values::duration;
use crate::wait::{self, SIGNAL_LOOK};

/// Records of one partition, for one commit of their offset.
#[pyclass(frozen, module = "quire")]
pub(crate) struct Delivery {
    delivery: AnyDelivery,
    #[pyo3(get)]
    records: Py<PyList>,
}

/// A delivery of either home.
enum AnyDelivery {
    Embedded(quire::Delivery),
    Served(ServedDelivery),
}

#[pymethods]
impl Delivery {
    #[getter]
    fn partition(&self) -> u32 {
        match &self.delivery {
            AnyDelivery::Embedded(delivery) => delivery.partition,
            AnyDelivery::Served(delivery) => delivery.partition,
        }
    }

    /// The number of records that retention deleted before the group read them.
    #[getter]
    fn lost(&self) -> u64 {
        match &self.delivery {
            AnyDelivery::Embedded(delivery) => delivery.lost,
            AnyDelivery::Served(delivery) => delivery.lost,
        }
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.records.bind(py).len()
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

fn served_records(py: Python<'_>, delivery: &ServedDelivery) -> PyResult<Py<PyList>> {
    let records = delivery.records.iter().map(|record| Record::owned(py, delivery.partition, record));
    Ok(PyList::new(py, records.collect::<PyResult<Vec<_>>>()?)?.unbind())
}

impl Delivery {
    fn embedded(py: Python<'_>, delivery: quire::Delivery) -> PyResult<Py<Delivery>> {
        let records = records(py, &delivery)?;
        Py::new(py, Delivery { delivery: AnyDelivery::Embedded(delivery), records })
    }

    fn served(py: Python<'_>, delivery: ServedDelivery) -> PyResult<Py<Delivery>> {
        let records = served_records(py, &delivery)?;
        Py::new(py, Delivery { delivery: AnyDelivery::Served(delivery), records })
    }
}

/// A consumer of either home.
enum Member {
    Embedded { database: quire::Database, consumer: Mutex<quire::Consumer> },
    Served { consumer: Mutex<ServedConsumer>, is_running: AtomicBool },
}

fn lock<C>(consumer: &Mutex<C>) -> MutexGuard<'_, C> {
    consumer.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Member {
    /// Checks that no other call uses the consumer, for example the `run` of this handler.
    fn check_free(&self) -> PyResult<()> {
        let is_free = match self {
            Member::Embedded { consumer, .. } => !matches!(consumer.try_lock(), Err(TryLockError::WouldBlock)),
            // A task that was cancelled may use the consumer for a moment.
            Member::Served { is_running, .. } => !is_running.load(Ordering::Acquire),
        };
        if is_free { Ok(()) } else { Err(PyRuntimeError::new_err("another call uses the consumer")) }
    }

    fn as_served(&self) -> &Mutex<ServedConsumer> {
        match self {
            Member::Served { consumer, .. } => consumer,
            Member::Embedded { .. } => unreachable!("the caller has matched the home"),
        }
    }
}

/// Calls the handler of a consumer with records, and gives the parts that it returns to `made`.
fn handle<T>(
    py: Python<'_>,
    handler: &Py<PyAny>,
    records: Py<PyList>,
    made: impl FnOnce(&CommitParts) -> T,
) -> PyResult<T> {
    let returned = handler.call1(py, (records,))?;
    if returned.is_none(py) {
        return Ok(made(&CommitParts::default()));
    }
    let commit = returned.bind(py).cast::<Commit>()?;
    let parts = commit.get().lock();
    Ok(made(&parts))
}

/// A consumer of a topic.
#[pyclass(frozen, module = "quire")]
pub(crate) struct Consumer {
    member: Arc<Held<Member>>,
    stopper: Stopper,
}

impl Consumer {
    pub(crate) fn embedded(database: quire::Database, consumer: quire::Consumer) -> Self {
        let stopper = consumer.stopper();
        let member = Member::Embedded { database, consumer: Mutex::new(consumer) };
        Consumer { member: Arc::new(Held::new(member)), stopper }
    }

    pub(crate) fn served(consumer: ServedConsumer) -> Self {
        let member = Member::Served { consumer: Mutex::new(consumer), is_running: AtomicBool::new(false) };
        Consumer { member: Arc::new(Held::new(member)), stopper: Stopper::default() }
    }
}

/// The next delivery of a served consumer for a task; `None` in the child of a fork. A cancelled
/// task leaves the delivery to the next one.
async fn next_served(held: Arc<Held<Member>>) -> Result<Option<ServedDelivery>, CallError> {
    loop {
        let member = Arc::clone(&held);
        let prepared = CALLS.run(move || match member.get() {
            Ok(member) => lock(member.as_served()).prepare(),
            Err(_) => Ok(false),
        });
        prepared.await?;
        let look = {
            let Ok(member) = held.get() else { return Ok(None) };
            let mut consumer = lock(member.as_served());
            match consumer.take() {
                Some(delivery) => return Ok(Some(delivery)),
                None => consumer.look(TASK_WAIT),
            }
        };
        let described = WAITS.run(look).await?;
        let Ok(member) = held.get() else { return Ok(None) };
        lock(member.as_served()).see(described);
    }
}

/// The next delivery of an embedded consumer for a task; `None` in the child of a fork.
async fn next_embedded(held: Arc<Held<Member>>) -> Result<Option<quire::Delivery>, CallError> {
    loop {
        let publication = {
            let Ok(Member::Embedded { database, consumer }) = held.get() else { return Ok(None) };
            let seen = database.published();
            if let Some(delivery) = lock(consumer).wait(Duration::ZERO)? {
                return Ok(Some(delivery));
            }
            database.publication_after(seen)
        };
        publication.await?;
    }
}

#[pymethods]
impl Consumer {
    #[pyo3(signature = (timeout=None))]
    fn next(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Py<Delivery>>> {
        let timeout = timeout.map(|timeout| duration("timeout", timeout)).transpose()?;
        let member = self.member.get()?;
        member.check_free()?;
        match member {
            Member::Embedded { database, consumer } => {
                let found = wait::until(py, database, timeout, |at_most| lock(consumer).wait(at_most))?;
                found.map(|delivery| Delivery::embedded(py, delivery)).transpose()
            }
            Member::Served { consumer, .. } => {
                let found = wait::until_answered(py, timeout, |at_most| {
                    let held = Arc::clone(&self.member);
                    move || {
                        let Ok(member) = held.get() else { return Ok(None) };
                        let mut consumer = lock(member.as_served());
                        if !consumer.prepare()? {
                            let described = consumer.look(at_most)()?;
                            consumer.see(described);
                            consumer.prepare()?;
                        }
                        // An interrupted call leaves the delivery to the next one.
                        Ok(consumer.is_ready().then_some(()))
                    }
                })?;
                let delivery = found.and_then(|()| lock(consumer).take());
                delivery.map(|delivery| Delivery::served(py, delivery)).transpose()
            }
        }
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
        let held = Arc::clone(&self.member);
        match self.member.get()? {
            Member::Embedded { .. } => asyncio::spawn(py, next_embedded(held), |py, delivery| match delivery {
                Some(delivery) => Ok(Delivery::embedded(py, delivery)?.into_any()),
                None => Err(errors::forked()),
            }),
            Member::Served { .. } => asyncio::spawn(py, next_served(held), |py, delivery| match delivery {
                Some(delivery) => Ok(Delivery::served(py, delivery)?.into_any()),
                None => Err(errors::forked()),
            }),
        }
    }

    /// Commits the offset of a delivery as read, together with a commit.
    #[pyo3(signature = (delivery, commit=None))]
    fn ack(&self, py: Python<'_>, delivery: Py<Delivery>, commit: Option<&Commit>) -> PyResult<()> {
        let member = self.member.get()?;
        member.check_free()?;
        let none = CommitParts::default();
        let given = commit.map(Commit::lock);
        let parts = given.as_deref().unwrap_or(&none);
        match (member, &delivery.get().delivery) {
            (Member::Embedded { consumer, .. }, AnyDelivery::Embedded(found)) => {
                errors::result(py, py.detach(|| lock(consumer).ack_in(parts.embedded(), found)))
            }
            (Member::Served { consumer, .. }, AnyDelivery::Served(found)) => {
                let (request, key) = (errors::result(py, parts.served())?, parts.key.clone());
                let ack = py.detach(|| lock(consumer).acknowledgement(request, found));
                let committed = wait::interruptible(py, move || ack.commit(key.as_deref()))?;
                errors::result(py, committed)
            }
            _ => Err(errors::unserved("the delivery is of a consumer of another database")),
        }
    }

    /// Calls a handler with the records of each delivery, until the consumer is stopped. The commit
    /// that it returns and the offset happen together.
    fn run(&self, py: Python<'_>, handler: Py<PyAny>) -> PyResult<()> {
        let member = self.member.get()?;
        member.check_free()?;
        let interrupted = Mutex::new(None);
        let note = |error: PyErr| *lock(&interrupted) = Some(error);
        let is_interrupted = || lock(&interrupted).is_some();
        let stop = || {
            if !is_interrupted() {
                Python::attach(|py| py.check_signals().unwrap_or_else(note));
            }
            is_interrupted()
        };
        let failed = |py: Python<'_>, error: PyErr| {
            let text = error.to_string();
            // Ctrl-C and exits are not failures of the handler.
            if !error.is_instance_of::<PyException>(py) {
                note(error);
            }
            text
        };
        let done: Result<(), CallError> = match member {
            Member::Embedded { consumer, .. } => py.detach(|| {
                let done = lock(consumer).process(SIGNAL_LOOK, stop, |delivery| {
                    Python::attach(|py| {
                        let handled = records(py, delivery)
                            .and_then(|records| handle(py, &handler, records, CommitParts::embedded_copy));
                        handled.map_err(|error| HandlerError::from(failed(py, error)))
                    })
                });
                Ok(done?)
            }),
            Member::Served { consumer, is_running } => py.detach(|| {
                is_running.store(true, Ordering::Release);
                let done = lock(consumer).process(SIGNAL_LOOK, &self.stopper, stop, |delivery| {
                    Python::attach(|py| {
                        let made = |parts: &CommitParts| {
                            errors::result(py, parts.served()).map(|request| (request, parts.key.clone()))
                        };
                        let handled =
                            served_records(py, delivery).and_then(|records| handle(py, &handler, records, made)?);
                        handled.map_err(|error| failed(py, error))
                    })
                });
                is_running.store(false, Ordering::Release);
                done
            }),
        };
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
