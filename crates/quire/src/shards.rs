//! The shards of an open database: one, which holds every object. Handles and commits get their
//! shard from this module.

use std::fmt;
use std::sync::{Arc, OnceLock};

use quire_log::Background;
use quire_shard::{Shard, Threads};

use crate::Result;
use crate::access::CurrentRules;
use crate::database::Database;
use crate::durations::CommitTimer;
use crate::refusals::RecentRefusals;

/// The shards of a database. Cheap to clone. The last clone ends the background threads, which
/// closes the shard.
#[derive(Debug, Clone)]
pub(crate) struct Shards {
    only: Arc<Shard>,
    timer: Arc<CommitTimer>,
    rules: Arc<CurrentRules>,
    refusals: Arc<RecentRefusals>,
    derived: Arc<OnceLock<Arc<dyn DerivedState>>>,
    _threads: Arc<Threads>,
}

impl Shards {
    /// Starts the background threads of an opened shard.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) when the system can't start another thread.
    pub(crate) fn start(shard: Shard, background: Background) -> Result<Self> {
        let rules = Arc::new(CurrentRules::of(&shard)?);
        let only = Arc::new(shard);
        let threads = Threads::start(Arc::clone(&only), background)?;
        let (timer, refusals, derived) = (Arc::default(), Arc::default(), Arc::default());
        Ok(Shards { only, timer, rules, refusals, derived, _threads: Arc::new(threads) })
    }

    /// Returns the timer of commits.
    #[inline]
    pub(crate) fn timer(&self) -> &Arc<CommitTimer> {
        &self.timer
    }

    /// Returns the last refused commits.
    pub(crate) fn refusals(&self) -> &RecentRefusals {
        &self.refusals
    }

    /// Returns the state that this process derives from events.
    pub(crate) fn derived(&self) -> &OnceLock<Arc<dyn DerivedState>> {
        &self.derived
    }

    /// Returns the compiled access rules.
    pub(crate) fn rules(&self) -> &CurrentRules {
        &self.rules
    }

    /// Returns the shard that holds every object, shared.
    pub(crate) fn shared(&self) -> Arc<Shard> {
        Arc::clone(&self.only)
    }

    /// Returns the shard that holds every object.
    #[inline]
    pub(crate) fn only(&self) -> &Shard {
        &self.only
    }
}

/// State that a program derives from events, in files of [`Database::index_directory`].
pub trait DerivedState: Send + Sync + fmt::Debug {
    /// Erases what was derived from deleted events of some stores. The deletion is published, and
    /// is not answered before this returns.
    ///
    /// # Errors
    /// When the state still holds deleted events.
    fn erase(&self, owner: &Database, stores: &[&str]) -> Result<()>;
}
