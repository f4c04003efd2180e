//! The database: opening, commits, and the handles of the models.

use std::path::PathBuf;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use quire::{Durability, Outcome, Profile};

use crate::commit::{Commit, committed};
use crate::errors;
use crate::events::EventStore;
use crate::graph::Graph;
use crate::jobs::Queue;
use crate::shared::Shared;
use crate::topic::Topic;
use crate::{asyncio, values};

/// A database in a directory.
#[pyclass(frozen, module = "quire")]
pub(crate) struct Database(Shared);

/// Opens the database in a directory, and creates a missing one.
#[pyfunction]
#[pyo3(signature = (path, *, sync="sync", create=true, exclusive=false, read_only=false, profile=None))]
pub(crate) fn open(
    py: Python<'_>,
    path: PathBuf,
    sync: &str,
    create: bool,
    exclusive: bool,
    read_only: bool,
    profile: Option<&str>,
) -> PyResult<Database> {
    let durability = match sync {
        "sync" => Durability::Sync,
        "os" => Durability::Os,
        other => return Err(PyValueError::new_err(format!("sync must be \"sync\" or \"os\", got {other:?}"))),
    };
    let mut builder = quire::Database::builder(path);
    match profile {
        None | Some("balanced") => {}
        Some("low_latency") => builder = builder.profile(Profile::LowLatency),
        Some("throughput") => builder = builder.profile(Profile::Throughput),
        Some("small_disk") => builder = builder.profile(Profile::SmallDisk),
        Some(other) => {
            let known = "balanced, low_latency, throughput or small_disk";
            return Err(PyValueError::new_err(format!("profile must be {known}, got {other:?}")));
        }
    }
    let builder = builder.durability(durability).create(create).exclusive(exclusive).read_only(read_only);
    let database = errors::result(py, py.detach(|| builder.open()))?;
    Ok(Database(Shared::new(database)))
}

#[pymethods]
impl Database {
    fn commit(&self, py: Python<'_>, commit: &Commit) -> PyResult<Py<PyAny>> {
        let outcome = self.0.call(py, |database| database.commit(&commit.lock()).and_then(Outcome::committed))?;
        committed(py, outcome)
    }

    fn commit_async(&self, py: Python<'_>, commit: &Commit) -> PyResult<Py<PyAny>> {
        let ticket = self.0.call(py, |database| database.submit(&commit.lock()))?;
        asyncio::spawn(py, async { ticket.await.and_then(Outcome::committed) }, committed)
    }

    fn store(&self, name: String) -> EventStore {
        EventStore::new(self.0.clone(), name)
    }

    fn queue(&self, name: String) -> Queue {
        Queue::new(self.0.clone(), name)
    }

    fn topic(&self, name: String) -> Topic {
        Topic::new(self.0.clone(), name)
    }

    fn graph(&self, name: String) -> Graph {
        Graph::new(self.0.clone(), name)
    }

    /// The position of the last published commit.
    #[getter]
    fn position(&self, py: Python<'_>) -> PyResult<u64> {
        self.0.call(py, |database| Ok(database.published().get()))
    }

    #[pyo3(signature = (position, timeout=None))]
    fn wait_after(&self, py: Python<'_>, position: u64, timeout: Option<f64>) -> PyResult<bool> {
        let (database, seen) = (self.0.get()?, quire::Position::new(position));
        let timeout = timeout.map(|timeout| values::duration("timeout", timeout)).transpose()?;
        let step = |at_most: Duration| Ok(database.wait_after(seen, at_most)?.then_some(()));
        Ok(crate::wait::until(py, &database, timeout, step)?.is_some())
    }

    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.0.call(py, |database| database.sync())
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let database = self.0.take()?;
        py.detach(|| drop(database));
        Ok(())
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }
}
