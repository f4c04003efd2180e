//! The background threads of a log.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::shared::LogCore;
use crate::append::prepare::{remove_left, spare_name};
use crate::components::Background;
use crate::error::{Error, Result};

/// The background threads of a log. When this is dropped, they end after a last sync.
#[derive(Debug)]
pub(super) struct LogThreads {
    pub(super) shared: Arc<LogCore>,
    running: Mutex<Vec<JoinHandle<()>>>,
}

impl LogThreads {
    /// Starts the threads.
    ///
    /// # Errors
    /// [`Error::Io`] when the system can't start a thread.
    pub(super) fn start(shared: Arc<LogCore>, background: Background) -> Result<Self> {
        let threads = LogThreads { shared, running: Mutex::default() };
        if background == Background::Caller {
            return Ok(threads);
        }
        let [syncing, preparing, sealing] = [(); 3].map(|()| Arc::clone(&threads.shared));
        let interval = Duration::from_millis(syncing.settings.sync_interval_ms);
        threads.spawn("quire-sync", move || {
            syncing.syncer.run(interval, &syncing.directory, &syncing.control, &syncing.gate);
        })?;
        threads.spawn("quire-prepare", move || preparing.preparer.run(&preparing.directory))?;
        threads.spawn("quire-seal", move || {
            let bytes_per_second = sealing.settings.scrub_bytes_per_second;
            let scrub = || sealing.scrub.slice(&sealing.segments(), &sealing.store.archive, bytes_per_second);
            sealing.sealer.run(&sealing.clock, || sealing.seal_all(), (bytes_per_second > 0).then_some(scrub));
        })?;
        Ok(threads)
    }

    fn spawn(&self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
        let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(run);
        let thread = spawned.map_err(|error| Error::io("start a thread for", self.shared.directory.path(), error))?;
        self.running.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }
}

impl Drop for LogThreads {
    fn drop(&mut self) {
        self.shared.syncer.stop();
        self.shared.preparer.stop();
        // A failure here breaks no promise: only callers that wait are promised an outcome.
        let _ = self.shared.sync_to(self.shared.syncer.last_appended());
        self.shared.sealer.stop();
        let own = std::thread::current().id();
        for thread in self.running.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // A waiter that the thread woke may have dropped the log on the thread itself. The
            // thread then ends by itself. A thread that panicked has reported it already.
            if thread.thread().id() != own {
                let _ = thread.join();
            }
        }
        let spare = spare_name(self.shared.control.seat());
        let _ = self.shared.directory.remove(&spare);
        let _ = remove_left(&self.shared.directory, &spare);
    }
}
