//! Counts of what went on, for whoever watches the server: it writes no log of its own.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::connection::Closed;

/// The running counts of a server. See [`Server::counters`](crate::Server::counters).
#[derive(Debug, Default)]
pub struct Counters {
    accepted: AtomicU64,
    ended: AtomicU64,
    requests: AtomicU64,
    malformed: AtomicU64,
    unsupported: AtomicU64,
    idle: AtomicU64,
    unacknowledged: AtomicU64,
    surplus: AtomicU64,
    accept_failures: AtomicU64,
    looks: AtomicU64,
    woken: AtomicU64,
    failed: AtomicU64,
}

/// The counts at one moment, since the server was bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Connections that were accepted.
    pub connections_accepted: u64,
    /// Connections that are open.
    pub connections_open: u64,
    /// Requests that were understood.
    pub requests: u64,
    /// Connections closed because they sent something that is not the Kafka protocol, or more than a request may have.
    pub closed_malformed: u64,
    /// Connections closed because they asked for an API, or a version of one, that is not offered.
    pub closed_unsupported: u64,
    /// Connections closed because nothing came, or an answer was not taken, for too long; or because either went slowly and took memory
    /// that others waited for.
    pub closed_idle: u64,
    /// Connections closed because a batch was refused whose producer asked for no answer (`acks=0`): closing is how it
    /// learns that something is wrong.
    pub closed_unacknowledged: u64,
    /// Connections closed because there were as many as the settings allow.
    pub closed_surplus: u64,
    /// How often the partitions of a fetch were looked at.
    pub fetch_looks: u64,
    /// How often a fetch that waited for records looked again.
    pub fetches_woken: u64,
    /// How often the system gave no connection, out of file handles most likely.
    pub accept_failures: u64,
    /// Connections closed by a failure of the network, of the database or of this program.
    pub closed_failed: u64,
}

impl Counters {
    /// The counts now.
    pub fn statistics(&self) -> Statistics {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        // Read before `accepted`: a connection ends after it was accepted.
        let ended = get(&self.ended);
        let connections_accepted = get(&self.accepted);
        Statistics {
            connections_accepted,
            connections_open: connections_accepted.saturating_sub(ended),
            requests: get(&self.requests),
            closed_malformed: get(&self.malformed),
            closed_unsupported: get(&self.unsupported),
            closed_idle: get(&self.idle),
            closed_unacknowledged: get(&self.unacknowledged),
            closed_surplus: get(&self.surplus),
            accept_failures: get(&self.accept_failures),
            fetch_looks: get(&self.looks),
            fetches_woken: get(&self.woken),
            closed_failed: get(&self.failed),
        }
    }

    pub(crate) fn accepted(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn accept_failed(&self) {
        self.accept_failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn look(&self) {
        self.looks.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn woken(&self) {
        self.woken.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn closed(&self, why: Closed) {
        let counter = match why {
            Closed::ByClient => None,
            Closed::Malformed => Some(&self.malformed),
            Closed::Unsupported => Some(&self.unsupported),
            Closed::Idle => Some(&self.idle),
            Closed::Unacknowledged => Some(&self.unacknowledged),
            Closed::Surplus => Some(&self.surplus),
            Closed::Failed => Some(&self.failed),
        };
        if let Some(counter) = counter {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        self.ended.fetch_add(1, Ordering::Relaxed);
    }
}
