//! The background threads of a log.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::shared::Shared;
use crate::components::Background;
use crate::prepare::spare_name;

/// The background threads of a log. They end, after a last sync, when this is dropped.
#[derive(Debug)]
pub(super) struct Threads {
    pub(super) shared: Arc<Shared>,
    running: Mutex<Vec<JoinHandle<()>>>,
}

impl Threads {
    pub(super) fn start(shared: Arc<Shared>, background: Background) -> Self {
        if background == Background::Caller {
            return Threads { shared, running: Mutex::default() };
        }
        let syncing = Arc::clone(&shared);
        let preparing = Arc::clone(&shared);
        let sealing = Arc::clone(&shared);
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.to_owned()).spawn(run).expect("a thread can be started")
        };
        let interval = Duration::from_millis(shared.settings.sync_interval_ms);
        let sync = move || syncing.syncer.run(interval, &syncing.directory, &syncing.control, &syncing.published);
        let prepare = move || preparing.preparer.run(&preparing.directory);
        let seal = move || sealing.sealer.run(&sealing);
        let running = vec![
            spawn("quire-sync", Box::new(sync)),
            spawn("quire-prepare", Box::new(prepare)),
            spawn("quire-seal", Box::new(seal)),
        ];
        Threads { shared, running: Mutex::new(running) }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.syncer.stop();
        self.shared.preparer.stop();
        // What fails here was not promised to anyone who did not wait for it.
        let _ = self.shared.sync_to(self.shared.syncer.last_appended());
        self.shared.sealer.stop();
        let own = std::thread::current().id();
        for thread in self.running.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // Whoever it woke may have dropped the log on the thread itself, which ends by itself then. A thread that
            // panicked has said so already.
            if thread.thread().id() != own {
                let _ = thread.join();
            }
        }
        let _ = self.shared.directory.remove(&spare_name(self.shared.control.seat()));
    }
}
