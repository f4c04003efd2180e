//! The confirmation by a majority of a cluster that this node still leads.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use quire_shard::{ClusterChange, DecidedCommit};

use crate::{Database, Result};

/// A confirmation that begins with its first poll.
pub(crate) struct Confirmation(Mutex<ClusterChange>);

impl Confirmation {
    pub(crate) fn of(confirm: ClusterChange) -> Self {
        Confirmation(Mutex::new(confirm))
    }

    /// Polls the confirmation.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner).as_mut().poll(context)
    }

    /// Waits for the confirmation on this thread.
    ///
    /// # Errors
    /// [`ErrorKind::NotLeader`](crate::ErrorKind::NotLeader) when this node no longer leads.
    pub(crate) fn wait(mut self) -> Result<()> {
        let waker = Waker::from(Arc::new(WakeThread(thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            match self.poll(&mut context) {
                Poll::Ready(confirmed) => return confirmed,
                // A wake-up that came meanwhile makes this return at once.
                Poll::Pending => thread::park(),
            }
        }
    }
}

impl fmt::Debug for Confirmation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Confirmation").finish_non_exhaustive()
    }
}

impl Database {
    /// What a verdict waits for besides its record. In a cluster, a verdict that follows from the
    /// state alone needs a majority that confirms that this node still leads.
    #[inline]
    pub(crate) fn confirmation(&self, decided: &DecidedCommit) -> Option<Confirmation> {
        if !decided.is_of_state {
            return None;
        }
        Some(Confirmation::of(self.cluster_control()?.confirm()))
    }
}

/// Wakes a thread that is parked.
struct WakeThread(Thread);

impl Wake for WakeThread {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Ready once its sender is dropped. Another thread wakes it.
    #[test]
    fn a_thread_waits_until_another_one_confirms() {
        let (confirm, confirmed) = mpsc::channel::<Waker>();
        let is_ready = Arc::new(Mutex::new(false));
        let told = Arc::clone(&is_ready);
        let confirming = thread::spawn(move || {
            let waker = confirmed.recv().expect("it waits");
            *told.lock().expect("it is free") = true;
            waker.wake();
        });
        let confirmation = Confirmation::of(Box::pin(std::future::poll_fn(move |context| {
            // Under the lock: the other thread confirms after the waker has arrived.
            let is_ready = is_ready.lock().expect("it is free");
            if *is_ready {
                return Poll::Ready(Ok(()));
            }
            // Only the first poll has a receiver.
            let _ = confirm.send(context.waker().clone());
            Poll::Pending
        })));
        confirmation.wait().expect("confirmed");
        confirming.join().expect("it ends");
    }
}
