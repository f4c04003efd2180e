//! The addresses of a connection. Some responses name the address that the client connected to.

use std::net::SocketAddr;

/// The two ends of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Endpoints {
    /// The listener that accepted the connection, by its place in the order of the listeners.
    pub(crate) listener: usize,
    /// The server's address that the client connected to.
    pub(crate) local: SocketAddr,
    /// The client's address.
    pub(crate) remote: SocketAddr,
    /// Whether the client's connection has TLS, here or at the node that forwards it.
    pub(crate) has_tls: bool,
}
