//! The database: opening, connecting, commits, and the handles of the models.

use std::path::PathBuf;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use quire::{Durability, Outcome, Profile};
use quire_client::Client;
use quire_client::reply::Stats;
use quire_client::request::CommitRequest;

use crate::commit::{Commit, CommitParts};
use crate::events::EventStore;
use crate::graph::Graph;
use crate::home::{Home, Shared};
use crate::jobs::Queue;
use crate::replies::{answered, committed};
use crate::sql::Rows;
use crate::topic::Topic;
use crate::{asyncio, errors, pool, served, sql, values};

/// A database in a directory, or behind a server.
#[pyclass(frozen, module = "quire")]
pub(crate) struct Database(Home);

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
    Ok(Database(Home::Embedded(Shared::new(database))))
}

/// Makes a client of a server. It connects with the first call.
#[pyfunction]
#[pyo3(signature = (address, *, key=None, key_file=None, ca=None, timeout=30.0))]
pub(crate) fn connect(
    py: Python<'_>,
    address: &str,
    key: Option<String>,
    key_file: Option<PathBuf>,
    ca: Option<PathBuf>,
    timeout: f64,
) -> PyResult<Database> {
    let key = match (key, key_file) {
        (Some(_), Some(_)) => return Err(PyValueError::new_err("give key or key_file, not both")),
        (None, Some(file)) => Some(std::fs::read_to_string(file)?.trim().to_owned()),
        (key, None) => key,
    };
    let mut builder = Client::builder(address).timeout(values::duration("timeout", timeout)?).of_environment();
    builder = key.into_iter().fold(builder, quire_client::ClientBuilder::api_key);
    builder = ca.into_iter().fold(builder, quire_client::ClientBuilder::roots_file);
    let client = errors::result(py, py.detach(|| builder.build()))?;
    Ok(Database(Home::Served(Shared::new(client))))
}

#[pymethods]
impl Database {
    fn commit(&self, py: Python<'_>, commit: &Commit) -> PyResult<Py<PyAny>> {
        match &self.0 {
            Home::Embedded(database) => {
                let outcome = database.call(py, |database| {
                    let parts = commit.lock();
                    database.commit(&parts.embedded()).and_then(Outcome::committed)
                })?;
                committed(py, outcome)
            }
            Home::Served(client) => {
                let (request, key) = served_commit(py, &commit.lock())?;
                let call = move |client: &Client| served::commit_request(client, &request, key.as_deref());
                answered(py, client.call(py, call)?)
            }
        }
    }

    fn commit_async(&self, py: Python<'_>, commit: &Commit) -> PyResult<Py<PyAny>> {
        match &self.0 {
            Home::Embedded(database) => {
                let ticket = database.call(py, |database| database.submit(&commit.lock().embedded()))?;
                asyncio::spawn(py, async { ticket.await.and_then(Outcome::committed) }, committed)
            }
            Home::Served(client) => {
                let client = client.get()?;
                let (request, key) = served_commit(py, &commit.lock())?;
                let call = move || served::commit_request(&client, &request, key.as_deref());
                asyncio::spawn(py, pool::CALLS.run(call), answered)
            }
        }
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

    #[pyo3(signature = (statement, params=None, *, as_of=None))]
    fn sql(
        &self,
        py: Python<'_>,
        statement: String,
        params: Option<&Bound<'_, PyAny>>,
        as_of: Option<u64>,
    ) -> PyResult<Rows> {
        sql::query(py, &self.0, statement, params, as_of)
    }

    /// The position of the last published commit.
    #[getter]
    fn position(&self, py: Python<'_>) -> PyResult<u64> {
        match &self.0 {
            Home::Embedded(database) => database.call(py, |database| Ok(database.published().get())),
            Home::Served(client) => client.call(py, |client| Ok(client.get::<Stats>(&["stats"], &[])?.position)),
        }
    }

    #[pyo3(signature = (position, timeout=None))]
    fn wait_after(&self, py: Python<'_>, position: u64, timeout: Option<f64>) -> PyResult<bool> {
        let Home::Embedded(database) = &self.0 else {
            return Err(errors::unserved("no call of a server waits for any commit: subscribe to a store instead"));
        };
        let (database, seen) = (database.get()?, quire::Position::new(position));
        let timeout = timeout.map(|timeout| values::duration("timeout", timeout)).transpose()?;
        let step = |at_most: Duration| Ok(database.wait_after(seen, at_most)?.then_some(()));
        Ok(crate::wait::until(py, &database, timeout, step)?.is_some())
    }

    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        match &self.0 {
            Home::Embedded(database) => database.call(py, |database| database.sync()),
            Home::Served(_) => Err(errors::unserved("the server syncs: start it with --durability sync")),
        }
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.0.close(py)
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }
}

/// The request of a commit to a server, and its idempotency key.
fn served_commit(py: Python<'_>, parts: &CommitParts) -> PyResult<(CommitRequest<'static>, Option<String>)> {
    Ok((errors::result(py, parts.served())?, parts.key.clone()))
}
