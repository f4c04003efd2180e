//! Work of requests on other threads than those that serve connections: work that may wait for the
//! disk, or that reads much of the log.
//!
//! The work has the caller and the session of its request. The task that runs it is not generic, so
//! the compiler builds one task, not one for each route and method.

use std::fmt;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::{JoinHandle, spawn_blocking};

use crate::budget::carried;

/// Work for another thread.
pub type AsideWork = Box<dyn FnOnce() + Send>;

/// Work that runs on another thread. Dropping it leaves the work running.
#[derive(Debug)]
pub struct RunningWork(JoinHandle<()>);

impl RunningWork {
    /// Begins work of the running request.
    pub fn begin(work: AsideWork) -> Self {
        RunningWork(spawn_blocking(carried(work)))
    }

    /// Waits until the work has ended. Panics with the panic of the work.
    ///
    /// # Errors
    /// When the work never ran.
    pub async fn ended(self) -> Result<(), RuntimeStopping> {
        match self.0.await {
            Ok(()) => Ok(()),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(_) => Err(RuntimeStopping),
            },
        }
    }
}

/// The result of work on another thread.
#[derive(Debug)]
pub struct WorkResult<T>(Arc<Mutex<Option<T>>>);

impl<T: Send + 'static> WorkResult<T> {
    /// Returns work that leaves its result here.
    pub fn of(work: impl FnOnce() -> T + Send + 'static) -> (AsideWork, Self) {
        let result = Arc::new(Mutex::new(None));
        let place = Arc::clone(&result);
        let work = Box::new(move || {
            let done = work();
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
        });
        (work, WorkResult(result))
    }

    /// Takes the result of work that has ended.
    ///
    /// # Errors
    /// When the work never ran.
    pub fn take(self) -> Result<T, RuntimeStopping> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or(RuntimeStopping)
    }
}

/// Runs work of the running request on another thread, and waits for its result. Panics with the
/// panic of the work.
///
/// # Errors
/// When the work never ran.
pub async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, RuntimeStopping> {
    let (work, result) = WorkResult::of(work);
    RunningWork::begin(work).ended().await?;
    result.take()
}

/// The runtime of the server stops and runs no more work.
#[derive(Debug, PartialEq, Eq)]
pub struct RuntimeStopping;

impl fmt::Display for RuntimeStopping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server is stopping: retry when it is back")
    }
}

impl std::error::Error for RuntimeStopping {}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_returns_its_result_from_another_thread() {
        let here = std::thread::current().id();
        assert_ne!(aside(|| std::thread::current().id()).await, Ok(here));
    }

    #[tokio::test]
    async fn a_panic_of_the_work_is_one_of_its_request() {
        let request = tokio::spawn(aside(|| panic!("as expected")));
        let panic = request.await.expect_err("a panic").into_panic();
        assert_eq!(panic.downcast_ref(), Some(&"as expected"));
    }

    #[test]
    fn work_that_never_ran_has_no_result() {
        let (work, result) = WorkResult::of(|| 5);
        drop(work);
        assert_eq!(result.take(), Err(RuntimeStopping));
    }
}
