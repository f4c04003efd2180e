//! What every connection has in common: the database, the settings and the counts.

use std::sync::Arc;

use quire::Database;

use crate::{Counters, Settings};

/// The number of the only broker there is.
pub(crate) const BROKER_ID: i32 = 0;

/// The leader epoch of every partition: leadership never changes hands here.
pub(crate) const LEADER_EPOCH: i32 = 0;

#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) database: Database,
    pub(crate) settings: Settings,
    counters: Arc<Counters>,
}

impl Broker {
    pub(crate) fn new(database: Database, settings: Settings) -> Self {
        Broker { database, settings, counters: Arc::default() }
    }

    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }
}
