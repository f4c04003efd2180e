//! The addresses of a connection. Some responses name the address that the client connected to.

use std::net::SocketAddr;

/// The two ends of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Endpoints {
    /// The server's address that the client connected to.
    pub(crate) local: SocketAddr,
    /// The client's address.
    pub(crate) remote: SocketAddr,
}
