//! Work that may wait for the disk, or takes many steps over the log, apart from the threads that serve connections.

use tonic::Status;

use crate::error::stopping;

/// A request of more bytes is decided apart from the threads that serve connections.
pub(crate) const INLINE_BYTES_MAX: usize = 64 << 10;

/// Does it aside, and waits for what comes of it.
pub(crate) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> Result<T, Status> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(stopping()),
        },
    }
}
