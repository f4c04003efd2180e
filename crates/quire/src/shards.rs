//! The shards of an open database, found by the names of what they hold.
//!
//! A space (`orders` of `orders/paid`) lies on one shard, so everything in it can be committed
//! together. A database has one shard, which holds every space. Each handle and each commit gets
//! its shard here, and nowhere else.

use std::sync::Arc;

use quire_log::Background;
use quire_shard::{Shard, Threads};

use crate::Result;

/// See the module. Cheap to clone; the last clone ends the background threads, which closes the
/// shard.
#[derive(Debug, Clone)]
pub(crate) struct Shards {
    only: Arc<Shard>,
    _threads: Arc<Threads>,
}

impl Shards {
    /// Starts the background threads of an opened shard.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) when the system has no thread left.
    pub(crate) fn start(shard: Shard, background: Background) -> Result<Self> {
        let only = Arc::new(shard);
        let threads = Threads::start(Arc::clone(&only), background)?;
        Ok(Shards { only, _threads: Arc::new(threads) })
    }

    /// The shard that holds a topic, an event store, a queue, a graph or a group of this name.
    #[inline]
    pub(crate) fn holding(&self, _name: &str) -> &Shard {
        self.only()
    }

    /// The shard of what names nothing: a view of all models, statistics, duties.
    #[inline]
    pub(crate) fn only(&self) -> &Shard {
        &self.only
    }
}
