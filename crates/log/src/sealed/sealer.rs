//! The thread that seals full segments: writes their index file, and releases their index in
//! memory.
//!
//! A segment is sealed once it is synced and the next segment holds a record. Before that, it may
//! take records again. An index file therefore proves that its segment is on the disk, and opening
//! need not read the segment. Closing a log seals all full segments. An idle sealer scrubs.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quire_model::Timestamp;

use crate::error::{Error, Result};
use crate::time::clock::Clock;
use crate::time::steady::SteadyClock;

/// The pause after a failure, such as a full disk.
const REST: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Sealer {
    state: Mutex<SealerState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SealerState {
    wanted: bool,
    stopping: bool,
    failure: Option<SealingFailure>,
}

/// Failures of sealing in a row. Without an index, a restart reads the segment.
#[derive(Debug, Clone)]
pub struct SealingFailure {
    /// The number of failures.
    pub times: u64,
    /// The time of the first one.
    pub since: Timestamp,
    /// The last one.
    pub error: Arc<Error>,
}

impl Sealer {
    /// Wakes the thread: a full segment was synced.
    pub(crate) fn begin(&self) {
        self.lock().wanted = true;
        self.changed.notify_all();
    }

    /// Runs the background thread. It seals all full segments with `seal_all` before it stops.
    /// While it is idle, it calls `scrub`, which returns the time to rest.
    pub(crate) fn run(
        &self,
        clock: &SteadyClock,
        seal_all: impl Fn() -> Result<()>,
        scrub: Option<impl Fn() -> Duration>,
    ) {
        loop {
            let mut state = self.lock();
            let idle = |state: &mut SealerState| !state.wanted && !state.stopping;
            while idle(&mut state) {
                let rest = if let Some(scrub) = &scrub {
                    drop(state);
                    let rest = scrub();
                    state = self.lock();
                    rest
                } else {
                    Duration::MAX
                };
                state = self.changed.wait_timeout_while(state, rest, idle).unwrap_or_else(PoisonError::into_inner).0;
            }
            let stopping = state.stopping;
            state.wanted = false;
            drop(state);
            match self.note(clock, seal_all()) {
                Ok(()) if stopping => return,
                Ok(()) => {}
                // Damage was reported before, and the segment stays as it is. A failed log takes no
                // more records.
                Err(error) if stopping || is_lasting(&error) => return,
                Err(_) => self.rest(),
            }
        }
    }

    /// The failures since the last success.
    pub(crate) fn failure(&self) -> Option<SealingFailure> {
        self.lock().failure.clone()
    }

    /// Notes the result of sealing.
    pub(crate) fn note<T>(&self, clock: &SteadyClock, sealed: Result<T>) -> Result<T, Arc<Error>> {
        let mut state = self.lock();
        match sealed {
            Ok(done) => {
                state.failure = None;
                Ok(done)
            }
            Err(error) => {
                let error = Arc::new(error);
                let before = state.failure.take();
                let times = before.as_ref().map_or(0, |failure| failure.times) + 1;
                let since = before.map_or_else(|| clock.now(), |failure| failure.since);
                state.failure = Some(SealingFailure { times, since, error: Arc::clone(&error) });
                Err(error)
            }
        }
    }

    /// Stops the background thread.
    pub(crate) fn stop(&self) {
        self.lock().stopping = true;
        self.changed.notify_all();
    }

    /// Pauses before a failed operation is tried again.
    fn rest(&self) {
        let mut state = self.lock();
        state.wanted = true;
        drop(self.changed.wait_timeout_while(state, REST, |state| !state.stopping));
    }

    fn lock(&self) -> MutexGuard<'_, SealerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether another try fails as well.
fn is_lasting(error: &Error) -> bool {
    matches!(error, Error::Damaged { .. } | Error::Failed { .. })
}
