//! The thread that seals full segments: makes their index, and lets the one in memory go. When there are none, it scrubs.
//!
//! A segment is sealed once it is synced and the next one holds a record: before that, it may take records again. So an index that
//! is there says that its segment is wholly on the disk, and opening need not look into it. When the log is closed, what is full is
//! sealed first, so that the next opening need not do it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::log::Shared;

/// How long it leaves off after a failure, such as a full disk.
const REST: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Sealer {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    wanted: bool,
    stopping: bool,
}

impl Sealer {
    /// A full segment is synced.
    pub(crate) fn begin(&self) {
        self.lock().wanted = true;
        self.changed.notify_all();
    }

    /// The background thread. When it is told to stop, it seals what is full first.
    pub(crate) fn run(&self, shared: &Shared) {
        let scrub_bytes = shared.settings().scrub_bytes_per_second;
        loop {
            let mut state = self.lock();
            let idle = |state: &mut State| !state.wanted && !state.stopping;
            while idle(&mut state) {
                let rest = if scrub_bytes == 0 {
                    Duration::MAX
                } else {
                    drop(state);
                    let rest = shared.scrub().slice(shared, scrub_bytes);
                    state = self.lock();
                    rest
                };
                state = self.changed.wait_timeout_while(state, rest, idle).unwrap_or_else(PoisonError::into_inner).0;
            }
            let stopping = state.stopping;
            state.wanted = false;
            drop(state);
            match seal_all(shared) {
                Ok(()) if stopping => return,
                Ok(()) => {}
                // What is damaged is known by now, and stays as it is; nothing more comes to a log that failed.
                Err(Error::Damaged { .. } | Error::Failed { .. }) => return,
                Err(_) if stopping => return,
                Err(_) => self.rest(),
            }
        }
    }

    /// Ends the background thread.
    pub(crate) fn stop(&self) {
        self.lock().stopping = true;
        self.changed.notify_all();
    }

    /// Waits before what failed is tried again.
    fn rest(&self) {
        let mut state = self.lock();
        state.wanted = true;
        drop(self.changed.wait_timeout_while(state, REST, |state| !state.stopping));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Seals every segment but the active one.
fn seal_all(shared: &Shared) -> Result<()> {
    while shared.seal_oldest()? {}
    Ok(())
}
