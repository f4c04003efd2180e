//! Runs work that may wait for the disk, or reads much of the log, on other threads than those that
//! serve connections.

use tonic::Status;

use crate::error::stopping;

/// A request of more bytes is decided on another thread.
pub(crate) const INLINE_BYTES_MAX: usize = 64 << 10;

/// Runs the work on another thread, and waits for its result.
pub(crate) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> Result<T, Status> {
    quire_access::aside(work).await.map_err(|_| stopping())?
}
