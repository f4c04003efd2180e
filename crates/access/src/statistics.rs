//! Counts of connections, of one listener.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::session::AuthenticationError;

/// A deadline that ends a connection or a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deadline {
    /// No whole request arrived in time after the connection was accepted.
    FirstRequest,
    /// A request or message began, and did not arrive completely in time.
    Request,
    /// No further request arrived in time.
    Idle,
    /// The client did not read its response.
    Response,
}

/// Why a connection was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The limit on connections is reached.
    Limit,
    /// The limit on connections of its address is reached.
    Address,
}

/// The running counts of a listener. They stay readable after it ends.
#[derive(Debug, Default)]
pub struct ConnectionCounters {
    accepted: AtomicU64,
    closed: AtomicU64,
    refused_limit: AtomicU64,
    refused_address: AtomicU64,
    displaced: AtomicU64,
    accept_failures: AtomicU64,
    first_request: AtomicU64,
    request: AtomicU64,
    idle: AtomicU64,
    response: AtomicU64,
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    requests_refused: AtomicU64,
    handshake_failures: AtomicU64,
    authentication_missing: AtomicU64,
    authentication_failed: AtomicU64,
}

/// The counts of a listener at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConnectionStatistics {
    /// Connections that were accepted, including refused ones.
    pub accepted: u64,
    /// Connections that are open.
    pub open: u64,
    /// Connections that were refused because the limit on connections was reached. They were
    /// closed at once, or served health and metrics only.
    pub refused_limit: u64,
    /// Connections that were refused because the limit of their address was reached.
    pub refused_address: u64,
    /// Idle connections that were closed at a limit, because a new connection took their place.
    pub displaced: u64,
    /// How often accepting a connection failed, usually for lack of file handles.
    pub accept_failures: u64,
    /// Connections that were closed because no first request arrived in time.
    pub ended_first_request: u64,
    /// Requests and messages that did not arrive completely in time.
    pub ended_request: u64,
    /// Connections that were closed because no further request arrived in time.
    pub ended_idle: u64,
    /// Connections that were closed because the client did not read its response.
    pub ended_response: u64,
    /// Bytes that arrived from clients.
    pub received_bytes: u64,
    /// Bytes that were sent to clients.
    pub sent_bytes: u64,
    /// Requests that were refused before they reached a route.
    pub requests_refused: u64,
    /// Connections whose TLS handshake failed, or whose client was refused by its certificate.
    pub handshake_failures: u64,
    /// Requests that were refused because their client was not authenticated.
    pub authentication_missing: u64,
    /// Attempts to authenticate with a wrong credential.
    pub authentication_failed: u64,
}

impl ConnectionCounters {
    /// Returns the current counts.
    pub fn statistics(&self) -> ConnectionStatistics {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        // Read before `accepted`: a connection closes after it was accepted.
        let closed = get(&self.closed);
        let accepted = get(&self.accepted);
        ConnectionStatistics {
            accepted,
            open: accepted.saturating_sub(closed),
            refused_limit: get(&self.refused_limit),
            refused_address: get(&self.refused_address),
            displaced: get(&self.displaced),
            accept_failures: get(&self.accept_failures),
            ended_first_request: get(&self.first_request),
            ended_request: get(&self.request),
            ended_idle: get(&self.idle),
            ended_response: get(&self.response),
            received_bytes: get(&self.received_bytes),
            sent_bytes: get(&self.sent_bytes),
            requests_refused: get(&self.requests_refused),
            handshake_failures: get(&self.handshake_failures),
            authentication_missing: get(&self.authentication_missing),
            authentication_failed: get(&self.authentication_failed),
        }
    }

    /// Counts bytes that arrived from a client.
    pub fn received(&self, bytes: usize) {
        self.received_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts bytes that were sent to a client.
    pub fn sent(&self, bytes: usize) {
        self.sent_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts a connection or request that a deadline ended.
    pub fn expired(&self, deadline: Deadline) {
        add(match deadline {
            Deadline::FirstRequest => &self.first_request,
            Deadline::Request => &self.request,
            Deadline::Idle => &self.idle,
            Deadline::Response => &self.response,
        });
    }

    /// Counts a request that was refused before it reached a route.
    pub fn request_refused(&self) {
        add(&self.requests_refused);
    }

    /// Counts a request or an attempt of a client that is not authenticated.
    pub fn unauthenticated(&self, error: AuthenticationError) {
        add(match error {
            AuthenticationError::Missing => &self.authentication_missing,
            AuthenticationError::Wrong => &self.authentication_failed,
        });
    }

    pub(crate) fn accepted(&self) {
        add(&self.accepted);
    }

    pub(crate) fn refused(&self, refusal: Refusal) {
        add(match refusal {
            Refusal::Limit => &self.refused_limit,
            Refusal::Address => &self.refused_address,
        });
    }

    pub(crate) fn displaced(&self) {
        add(&self.displaced);
    }

    pub(crate) fn closed(&self) {
        add(&self.closed);
    }

    pub(crate) fn handshake_failed(&self) {
        add(&self.handshake_failures);
    }

    pub(crate) fn accept_failed(&self) {
        add(&self.accept_failures);
    }
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
