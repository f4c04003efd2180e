//! Requests for a delivery, which wake the thread that delivers.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quire_model::Position;

/// The pause after a failure, such as a full disk.
const PAUSE: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct DeliveryRequests {
    pending: Mutex<PendingDelivery>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct PendingDelivery {
    /// Once this position is published, events may have to be delivered.
    requested: Option<Position>,
    stop: bool,
}

impl DeliveryRequests {
    /// Requests a delivery once `position` is published.
    pub(crate) fn request(&self, position: Position) {
        let mut pending = self.lock();
        pending.requested = Some(pending.requested.map_or(position, |known| known.max(position)));
        drop(pending);
        self.changed.notify_all();
    }

    /// Ends the thread that delivers.
    pub(crate) fn stop(&self) {
        self.lock().stop = true;
        self.changed.notify_all();
    }

    /// Takes the pending request.
    pub(crate) fn take(&self) -> Option<Position> {
        self.lock().requested.take()
    }

    /// Waits for a request. Returns `None` when the shard is closing.
    pub(super) fn next(&self) -> Option<Position> {
        let is_idle = |pending: &mut PendingDelivery| pending.requested.is_none() && !pending.stop;
        let waited = self.changed.wait_while(self.lock(), is_idle);
        let mut pending = waited.unwrap_or_else(PoisonError::into_inner);
        if pending.stop { None } else { pending.requested.take() }
    }

    /// Waits before a failed delivery is repeated.
    pub(super) fn pause(&self) {
        let waited = self.changed.wait_timeout_while(self.lock(), PAUSE, |pending| !pending.stop);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn lock(&self) -> MutexGuard<'_, PendingDelivery> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
