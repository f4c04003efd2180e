//! The settings of the server, as plain data.

use quire_access::ConnectionSettings;

/// The settings of the server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// Limits and deadlines of connections.
    pub connections: ConnectionSettings,
}
