//! Waits that Ctrl-C ends.

use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use quire::Database;

use crate::errors::{self, CallError};
use crate::pool::CALLS;

/// The longest wait between two looks for signals.
pub(crate) const SIGNAL_LOOK: Duration = Duration::from_millis(100);

/// Repeats `step`, which waits for the given time at most, until it returns a value or `timeout`
/// is over. The handlers of signals run in between.
pub(crate) fn until<T: Send>(
    py: Python<'_>,
    database: &Database,
    timeout: Option<Duration>,
    step: impl FnMut(Duration) -> quire::Result<Option<T>> + Send,
) -> PyResult<Option<T>> {
    repeat(py, || Duration::from_nanos(database.clock().monotonic_ns()), timeout, step)
}

/// The same by the time of this process, for calls that a server answers. `step` makes each call,
/// which waits for the given time at most.
#[expect(clippy::disallowed_methods, reason = "a client waits in real time")]
pub(crate) fn until_answered<T: Send + 'static, C>(
    py: Python<'_>,
    timeout: Option<Duration>,
    mut step: impl FnMut(Duration) -> C,
) -> PyResult<Option<T>>
where
    C: FnOnce() -> Result<Option<T>, CallError> + Send + 'static,
{
    let begin = Instant::now();
    loop {
        let left = timeout.map_or(Duration::MAX, |timeout| timeout.saturating_sub(begin.elapsed()));
        let found = interruptible(py, step(left.min(SIGNAL_LOOK)))?;
        if let Some(found) = errors::result(py, found)? {
            return Ok(Some(found));
        }
        py.check_signals()?;
        if left.is_zero() {
            return Ok(None);
        }
    }
}

/// The same for steps that wait in this process.
#[expect(clippy::disallowed_methods, reason = "a client waits in real time")]
pub(crate) fn until_served<T: Send, E: Into<CallError> + Send>(
    py: Python<'_>,
    timeout: Option<Duration>,
    step: impl FnMut(Duration) -> Result<Option<T>, E> + Send,
) -> PyResult<Option<T>> {
    let begin = Instant::now();
    repeat(py, || begin.elapsed(), timeout, step)
}

fn repeat<T: Send, E: Into<CallError> + Send>(
    py: Python<'_>,
    now: impl Fn() -> Duration,
    timeout: Option<Duration>,
    mut step: impl FnMut(Duration) -> Result<Option<T>, E> + Send,
) -> PyResult<Option<T>> {
    let deadline = timeout.map(|timeout| now().saturating_add(timeout));
    loop {
        let left = deadline.map_or(Duration::MAX, |deadline| deadline.saturating_sub(now()));
        if let Some(found) = errors::result(py, py.detach(|| step(left.min(SIGNAL_LOOK))))? {
            return Ok(Some(found));
        }
        py.check_signals()?;
        if left.is_zero() {
            return Ok(None);
        }
    }
}

/// Makes a call without the interpreter's lock. In the main thread, which alone gets signals, the
/// handler of a signal can end the wait for the call; the call itself runs to its end.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    call: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    if !is_main_thread(py)? {
        return Ok(py.detach(call));
    }
    let answer = CALLS.run(call);
    loop {
        if let Some(value) = py.detach(|| answer.wait(SIGNAL_LOOK)) {
            return Ok(value);
        }
        py.check_signals()?;
    }
}

fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    static CURRENT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static MAIN: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let current = CURRENT.import(py, "threading", "current_thread")?.call0()?;
    Ok(current.is(&MAIN.import(py, "threading", "main_thread")?.call0()?))
}
