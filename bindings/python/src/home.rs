//! Where a database is: in a directory of this process, or behind a server.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use quire_client::Client;

use crate::errors::{self, CallError};
use crate::held::Held;
use crate::wait;

/// The database that the handles of the models share.
#[derive(Clone)]
pub(crate) enum Home {
    Embedded(Shared<quire::Database>),
    Served(Shared<Client>),
}

/// An open database or client, until it is closed.
pub(crate) struct Shared<T: Send>(Arc<Held<Mutex<Option<T>>>>);

impl<T: Send> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Shared(Arc::clone(&self.0))
    }
}

impl Home {
    /// Closes the database for the handles.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<()> {
        match self {
            Home::Embedded(database) => database.close(py),
            Home::Served(client) => client.close(py),
        }
    }
}

impl<T: Clone + Send> Shared<T> {
    pub(crate) fn new(value: T) -> Self {
        Shared(Arc::new(Held::new(Mutex::new(Some(value)))))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let value = self.0.get()?.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(value));
        Ok(())
    }

    /// Returns the database or client for one call.
    ///
    /// # Errors
    /// When it is closed, and in the child of a fork.
    #[inline]
    pub(crate) fn get(&self) -> PyResult<T> {
        let value = self.0.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        value.clone().ok_or_else(errors::closed)
    }
}

impl Shared<quire::Database> {
    /// Makes a call without the interpreter's lock.
    pub(crate) fn call<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(quire::Database) -> quire::Result<T> + Send,
    ) -> PyResult<T> {
        let database = self.get()?;
        errors::result(py, py.detach(|| call(database)))
    }
}

impl Shared<Client> {
    /// Makes a call without the interpreter's lock. Ctrl-C ends the wait for its answer.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&Client) -> Result<T, CallError> + Send + 'static,
    ) -> PyResult<T> {
        let client = self.get()?;
        errors::result(py, wait::interruptible(py, move || call(&client))?)
    }
}
