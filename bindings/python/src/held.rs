//! Values that a fork leaves behind.
//!
//! The child of a fork has none of the threads of a database. It must open the directory again,
//! and must neither use nor close what it inherited.

use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::prelude::*;

use crate::errors;

/// The number of forks from the first process to this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Returns the number of forks from the first process to this one.
pub(crate) fn forks_so_far() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Notes that this process is the child of a fork. The package registers it.
#[pyfunction]
#[pyo3(name = "_forked")]
pub(crate) fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// A value of the process that made it. It is dropped without the interpreter's lock, and never in
/// the child of a fork.
pub(crate) struct Held<T: Send> {
    /// `None` only during the drop.
    value: Option<T>,
    forks: u32,
}

impl<T: Send> Held<T> {
    pub(crate) fn new(value: T) -> Self {
        Held { value: Some(value), forks: forks_so_far() }
    }

    /// Returns the value.
    ///
    /// # Errors
    /// In the child of a fork.
    #[inline]
    pub(crate) fn get(&self) -> PyResult<&T> {
        match &self.value {
            Some(value) if self.forks == forks_so_far() => Ok(value),
            _ => Err(errors::forked()),
        }
    }
}

impl<T: Send> Drop for Held<T> {
    fn drop(&mut self) {
        let value = self.value.take();
        if self.forks != forks_so_far() {
            std::mem::forget(value);
            return;
        }
        // A thread that closes the database may wait for one that needs the interpreter's lock.
        let mut value = Some(value);
        Python::try_attach(|py| py.detach(|| drop(value.take())));
    }
}
