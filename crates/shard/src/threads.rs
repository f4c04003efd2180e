//! The background threads of a shard, and its closing.

use std::sync::Arc;
use std::thread::JoinHandle;

use quire_log::Background;

use crate::duties::DutyRunner;
use crate::error::{Error, ErrorKind, Result};
use crate::shard::Shard;

/// The background threads of a shard. Dropping it, with the last handle, ends the threads and
/// closes the shard: it is synced and a checkpoint is saved.
#[derive(Debug)]
pub struct Threads {
    shard: Arc<Shard>,
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Starts the threads of `shard`; none with [`Background::Caller`].
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when the system has no thread left.
    pub fn start(shard: Arc<Shard>, background: Background) -> Result<Self> {
        let mut threads = Threads { shard, handles: Vec::new() };
        if background == Background::Threads {
            threads.spawn("quire-ticks", |runner| runner.run_prompt())?;
            threads.spawn("quire-duties", |runner| runner.run_long())?;
            threads.spawn("quire-listen", |runner| runner.listen())?;
            threads.spawn("quire-deliver", |runner| runner.deliver())?;
        }
        Ok(threads)
    }

    fn spawn(&mut self, name: &str, run: fn(DutyRunner<'_>)) -> Result<()> {
        let shard = Arc::clone(&self.shard);
        let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(move || run(shard.duty_runner()));
        let failed = |error| Error::new(ErrorKind::Io, format!("can't start the thread {name}: {error}"));
        self.handles.push(spawned.map_err(failed)?);
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shard.stop_duties();
        let own = std::thread::current().id();
        // Code that such a thread woke may have dropped the last handle on that thread. The thread
        // then ends by itself.
        for handle in self.handles.drain(..).filter(|handle| handle.thread().id() != own) {
            // A thread that panicked has already printed the panic.
            let _ = handle.join();
        }
        self.shard.close();
    }
}
