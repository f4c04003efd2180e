//! A future of a publication, which needs no runtime.

use std::pin::Pin;
use std::task::{Context, Poll};

use super::Log;
use crate::durable::gate::WaitTarget;
use crate::error::Result;
use crate::settings::Durability;

/// A future that is ready when a record is published. See
/// [`Log::publication`](crate::Log::publication).
#[derive(Debug)]
pub struct Publication {
    pub(super) log: Log,
    pub(super) awaited: WaitTarget,
    /// Whether the record exists already, so that a sync publishes it.
    pub(super) appended: bool,
    pub(super) requested: bool,
    pub(super) key: Option<u64>,
}

impl Future for Publication {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let this = &mut *self;
        let shared = this.log.shared();
        let poll = shared.gate.published().poll(this.awaited, context.waker(), &mut this.key);
        if poll.is_pending() && !this.appended {
            shared.listen();
        }
        if poll.is_pending() && this.appended && !this.requested && shared.settings.durability == Durability::Sync {
            this.requested = true;
            shared.syncer.request(this.awaited.position());
        }
        poll
    }
}

impl Drop for Publication {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.log.shared().gate.published().forget(key);
        }
    }
}
