//! What every connection has in common: the database, the settings and the counts.

use std::net::SocketAddr;
use std::sync::Arc;

use quire::Database;

use crate::groups::Groups;
use crate::{Counters, Settings};

/// The number of the only broker there is.
pub(crate) const BROKER_ID: i32 = 0;

/// The leader epoch of every partition: leadership never changes hands here.
pub(crate) const LEADER_EPOCH: i32 = 0;

#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) database: Database,
    pub(crate) settings: Settings,
    pub(crate) groups: Groups,
    counters: Arc<Counters>,
}

impl Broker {
    pub(crate) fn new(database: Database, settings: Settings) -> Self {
        let groups = Groups::new(database.clone(), &settings);
        Broker { database, settings, groups, counters: Arc::default() }
    }

    /// Where clients are told to connect to; `local` is the address through which one did.
    pub(crate) fn address(&self, local: SocketAddr) -> (String, u16) {
        match &self.settings.advertised {
            Some(advertised) => (advertised.host.clone(), advertised.port),
            None => (local.ip().to_string(), local.port()),
        }
    }

    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }
}
