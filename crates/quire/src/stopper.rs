//! Stops a worker or a consumer from another thread or task.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Stops a worker or a consumer from another thread or task, or from its own handler. See
/// [`Worker::stopper`](crate::Worker::stopper) and
/// [`Consumer::stopper`](crate::Consumer::stopper).
///
/// Handlers that are running finish, and their outcomes are committed. A stopped worker or consumer
/// stays stopped.
#[derive(Debug, Clone, Default)]
pub struct Stopper(Arc<StopRequest>);

#[derive(Debug, Default)]
struct StopRequest {
    is_made: AtomicBool,
    #[cfg(feature = "tokio")]
    waiting: tokio::sync::Notify,
}

impl Stopper {
    /// Requests the stop. A thread notices it within a second, or with the next commit. A task
    /// notices it at once.
    pub fn stop(&self) {
        self.0.is_made.store(true, Ordering::Release);
        #[cfg(feature = "tokio")]
        self.0.waiting.notify_waiters();
    }

    /// Whether the stop was requested. A long handler can ask, and return early.
    pub fn is_requested(&self) -> bool {
        self.0.is_made.load(Ordering::Acquire)
    }

    /// Waits until the stop is requested.
    #[cfg(feature = "tokio")]
    pub(crate) async fn requested(&self) {
        let mut waiting = std::pin::pin!(self.0.waiting.notified());
        // Waits from here on, so that a request between the check and the wait is noticed.
        waiting.as_mut().enable();
        if !self.is_requested() {
            waiting.await;
        }
    }
}
