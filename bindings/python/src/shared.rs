//! The database, which the handles of the models share.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;

use crate::errors;
use crate::held::Held;

/// An open database, until it is closed.
#[derive(Clone)]
pub(crate) struct Shared(Arc<Held<Mutex<Option<quire::Database>>>>);

impl Shared {
    pub(crate) fn new(database: quire::Database) -> Self {
        Shared(Arc::new(Held::new(Mutex::new(Some(database)))))
    }

    /// Takes the database, which closes it for the handles.
    pub(crate) fn take(&self) -> PyResult<Option<quire::Database>> {
        Ok(self.0.get()?.lock().unwrap_or_else(PoisonError::into_inner).take())
    }

    /// Returns the database for one call.
    ///
    /// # Errors
    /// When it is closed, and in the child of a fork.
    #[inline]
    pub(crate) fn get(&self) -> PyResult<quire::Database> {
        let database = self.0.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        database.clone().ok_or_else(errors::closed)
    }

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
