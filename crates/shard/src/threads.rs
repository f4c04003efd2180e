//! The background threads of a shard, and its closing.

use std::sync::Arc;
use std::thread::JoinHandle;

use quire_log::Background;

use crate::error::{Error, ErrorKind, Result};
use crate::shard::Shard;

/// The background threads. When this is dropped, with the last handle, they end, and the database is closed: synced and
/// checkpointed.
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
        if background == Background::Caller {
            return Ok(Threads { shard, handles: Vec::new() });
        }
        let mut threads = Threads { shard, handles: Vec::new() };
        threads.spawn("quire-ticks", Shard::carry_out_prompt_duties)?;
        threads.spawn("quire-duties", Shard::carry_out_long_duties)?;
        threads.spawn("quire-listen", Shard::listen)?;
        threads.spawn("quire-deliver", Shard::deliver_in_background)?;
        Ok(threads)
    }

    fn spawn(&mut self, name: &str, run: fn(&Shard)) -> Result<()> {
        let theirs = Arc::clone(&self.shard);
        let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(move || run(&theirs));
        self.handles
            .push(spawned.map_err(|error| Error::new(ErrorKind::Io, format!("can't start a thread: {error}")))?);
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shard.duties.stop();
        self.shard.deliveries.stop();
        self.shard.log.stop_listening();
        let own = std::thread::current().id();
        // Whoever such a thread woke may have dropped the last handle on it; it then ends by itself.
        for handle in self.handles.drain(..).filter(|handle| handle.thread().id() != own) {
            // A thread that panicked has said so already.
            let _ = handle.join();
        }
        // What was told is right while nobody has it open.
        let _ = self.shard.gauge_at_the_end();
        // Only the length of the next opening depends on it, and the last one to close does it for all.
        if !self.shard.log.has_company() {
            let _ = self.shard.checkpoint();
        }
    }
}
