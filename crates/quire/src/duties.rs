//! The background thread of a database: checkpoints, and what time brings to the queues.
//!
//! It sleeps until it is told of log to checkpoint or of a time at which a job is due, and makes its changes through the
//! same commit path as everyone else.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quire_model::Timestamp;

/// What the thread is to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duty {
    /// Save the models' state.
    Checkpoint,
    /// Take in what time has brought to the queues.
    Tick,
    /// End.
    Stop,
}

/// What there is to do.
#[derive(Debug, Default)]
pub(crate) struct Duties {
    pending: Mutex<Pending>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Pending {
    checkpoint: bool,
    /// The next time at which a job's state changes by itself.
    due: Option<Timestamp>,
    stop: bool,
}

impl Duties {
    /// A checkpoint is due.
    pub(crate) fn ask_for_checkpoint(&self) {
        self.lock().checkpoint = true;
        self.changed.notify_all();
    }

    /// The next time at which a job's state changes by itself is this one now.
    pub(crate) fn next_due(&self, due: Option<Timestamp>) {
        let mut pending = self.lock();
        let earlier = due.is_some_and(|due| pending.due.is_none_or(|known| due < known));
        pending.due = due;
        if earlier {
            self.changed.notify_all();
        }
    }

    /// The thread is to end.
    pub(crate) fn stop(&self) {
        self.lock().stop = true;
        self.changed.notify_all();
    }

    /// Waits for the next duty. `now` tells the time.
    pub(crate) fn next(&self, now: impl Fn() -> Timestamp) -> Duty {
        let mut pending = self.lock();
        loop {
            if pending.stop {
                return Duty::Stop;
            }
            if std::mem::take(&mut pending.checkpoint) {
                return Duty::Checkpoint;
            }
            let wait_micros = pending.due.map(|due| due.as_micros().saturating_sub(now().as_micros()));
            pending = match wait_micros {
                Some(0) => {
                    pending.due = None;
                    return Duty::Tick;
                }
                Some(micros) => {
                    // The clock may be set meanwhile, so a long wait is looked at again.
                    let wait = Duration::from_micros(micros.min(1_000_000));
                    self.changed.wait_timeout(pending, wait).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(pending).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
