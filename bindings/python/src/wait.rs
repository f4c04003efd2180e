//! Waits that Ctrl-C ends.

use std::time::Duration;

use pyo3::prelude::*;
use quire::Database;

use crate::errors;

/// The longest wait between two looks for signals.
pub(crate) const SIGNAL_LOOK: Duration = Duration::from_millis(100);

/// Repeats `step`, which waits for the given time at most, until it returns a value or `timeout`
/// is over. The handlers of signals run in between.
pub(crate) fn until<T: Send>(
    py: Python<'_>,
    database: &Database,
    timeout: Option<Duration>,
    mut step: impl FnMut(Duration) -> quire::Result<Option<T>> + Send,
) -> PyResult<Option<T>> {
    let now = || Duration::from_nanos(database.clock().monotonic_ns());
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
