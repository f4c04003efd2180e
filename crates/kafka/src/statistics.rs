//! Counters of the server's activity. The server writes no log of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quire_access::{AuthenticationError, ConnectionCounters};

use crate::close_reason::CloseReason;

/// The running counts of a server. See [`Server::counters`](crate::Server::counters).
#[derive(Debug)]
pub struct Counters {
    connections: Arc<ConnectionCounters>,
    requests: AtomicU64,
    malformed: AtomicU64,
    unsupported: AtomicU64,
    idle: AtomicU64,
    unacknowledged: AtomicU64,
    looks: AtomicU64,
    woken: AtomicU64,
    failed: AtomicU64,
    auto_created: AtomicU64,
    auto_refused: AtomicU64,
}

/// The counts at one moment, since the server was bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Connections that were accepted.
    pub connections_accepted: u64,
    /// Connections that are open.
    pub connections_open: u64,
    /// Requests with a valid header and shape.
    pub requests: u64,
    /// Connections closed because the client sent something that is not the Kafka protocol, or an
    /// oversized request.
    pub closed_malformed: u64,
    /// Connections closed because the client used an API or version that is not offered.
    pub closed_unsupported: u64,
    /// Connections closed because the client sent a request before it authenticated, or after its
    /// key expired.
    pub closed_unauthenticated: u64,
    /// Connections closed because the client could not prove which user it is.
    pub closed_authentication_failed: u64,
    /// Connections closed because the client was idle, did not read its response, or was too slow
    /// while others waited for its memory.
    pub closed_idle: u64,
    /// Connections closed because a batch with `acks=0` was refused. Closing is the only signal to
    /// its producer.
    pub closed_unacknowledged: u64,
    /// Connections closed because the limit on connections, or on those of one address, was
    /// reached.
    pub closed_surplus: u64,
    /// How often the partitions of a fetch were read.
    pub fetch_looks: u64,
    /// How often a waiting fetch read its partitions again.
    pub fetches_woken: u64,
    /// How often accepting a connection failed, usually for lack of file handles.
    pub accept_failures: u64,
    /// Connections closed by a failure of the network, the database or the server.
    pub closed_failed: u64,
    /// Topics that metadata requests created.
    pub topics_auto_created: u64,
    /// Topics that metadata requests did not create, because of a limit.
    pub topics_auto_refused: u64,
}

impl Counters {
    pub(crate) fn new(connections: Arc<ConnectionCounters>) -> Self {
        Counters {
            connections,
            requests: AtomicU64::default(),
            malformed: AtomicU64::default(),
            unsupported: AtomicU64::default(),
            idle: AtomicU64::default(),
            unacknowledged: AtomicU64::default(),
            looks: AtomicU64::default(),
            woken: AtomicU64::default(),
            failed: AtomicU64::default(),
            auto_created: AtomicU64::default(),
            auto_refused: AtomicU64::default(),
        }
    }

    /// The counts of connections and bytes.
    pub(crate) fn connections(&self) -> &ConnectionCounters {
        &self.connections
    }

    /// Returns the current counts.
    pub fn statistics(&self) -> Statistics {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let connections = self.connections.statistics();
        Statistics {
            connections_accepted: connections.accepted,
            connections_open: connections.open,
            requests: get(&self.requests),
            closed_malformed: get(&self.malformed),
            closed_unsupported: get(&self.unsupported),
            closed_unauthenticated: connections.authentication_missing,
            closed_authentication_failed: connections.authentication_failed,
            closed_idle: get(&self.idle),
            closed_unacknowledged: get(&self.unacknowledged),
            closed_surplus: connections.refused_limit + connections.refused_address,
            accept_failures: connections.accept_failures,
            fetch_looks: get(&self.looks),
            fetches_woken: get(&self.woken),
            closed_failed: get(&self.failed),
            topics_auto_created: get(&self.auto_created),
            topics_auto_refused: get(&self.auto_refused),
        }
    }

    pub(crate) fn look(&self) {
        self.looks.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn woken(&self) {
        self.woken.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn auto_created(&self) {
        self.auto_created.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn auto_refused(&self) {
        self.auto_refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn closed(&self, why: CloseReason) {
        let counter = match why {
            CloseReason::ByClient => None,
            CloseReason::Malformed => Some(&self.malformed),
            CloseReason::Unsupported => Some(&self.unsupported),
            CloseReason::Idle(deadline) => {
                self.connections.expired(deadline);
                Some(&self.idle)
            }
            CloseReason::Unauthenticated => {
                self.connections.unauthenticated(AuthenticationError::Missing);
                None
            }
            CloseReason::AuthenticationFailed => {
                self.connections.unauthenticated(AuthenticationError::Wrong);
                None
            }
            CloseReason::Unacknowledged => Some(&self.unacknowledged),
            CloseReason::Failed => Some(&self.failed),
        };
        if let Some(counter) = counter {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}
