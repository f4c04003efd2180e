//! The shards of an open database, found by the name of an object.
//!
//! A space (`orders` of `orders/paid`) is on one shard, so one commit can change everything in the
//! space. A database has one shard, which holds every space. Only this module assigns a shard to a
//! handle or a commit.

use std::sync::Arc;

use quire_log::Background;
use quire_shard::{Shard, Threads};

use crate::Result;
use crate::durations::CommitTimer;

/// The shards of a database. Cheap to clone. The last clone ends the background threads, which
/// closes the shard.
#[derive(Debug, Clone)]
pub(crate) struct Shards {
    only: Arc<Shard>,
    timer: Arc<CommitTimer>,
    _threads: Arc<Threads>,
}

impl Shards {
    /// Starts the background threads of an opened shard.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) when the system can't start another thread.
    pub(crate) fn start(shard: Shard, background: Background) -> Result<Self> {
        let only = Arc::new(shard);
        let threads = Threads::start(Arc::clone(&only), background)?;
        Ok(Shards { only, timer: Arc::default(), _threads: Arc::new(threads) })
    }

    /// Returns the shard of the topic, event store, queue, graph or group of this name.
    #[inline]
    pub(crate) fn holding(&self, _name: &str) -> &Shard {
        self.only()
    }

    /// Returns the timer of commits.
    #[inline]
    pub(crate) fn timer(&self) -> &Arc<CommitTimer> {
        &self.timer
    }

    /// Returns the shard for operations without a name: a view of all models, statistics, duties.
    #[inline]
    pub(crate) fn only(&self) -> &Shard {
        &self.only
    }
}
