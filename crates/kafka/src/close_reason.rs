//! The reasons for closing a connection. The counters of closed connections follow them.

use quire_access::Deadline;

/// Why a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// The client closed it.
    ByClient,
    /// The client sent something that is not the Kafka protocol.
    Malformed,
    /// The client used an API or version that is not offered.
    Unsupported,
    /// Access control is enabled, and the client sent a request before it authenticated, or after
    /// its key expired.
    Unauthenticated,
    /// The client could not prove which user it is.
    AuthenticationFailed,
    /// A deadline passed: the client was idle for too long, did not send its first or a begun
    /// request or did not read its response in time, or was too slow while others waited for its
    /// memory.
    Idle(Deadline),
    /// A batch of a producer that wants no response (`acks=0`) was refused.
    Unacknowledged,
    /// The network, the database or the server failed.
    Failed,
}
