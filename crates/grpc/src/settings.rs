//! The settings of the server, as plain data.

use quire_access::{ConnectionSettings, browser};

/// The settings of the server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// Limits and deadlines of connections.
    pub connections: ConnectionSettings,
    /// Names of this server in the header `Host` of calls over HTTP/1.1, besides loopback and the
    /// address that a client connected to. `HOST` stands for any port, `HOST:PORT` for one.
    /// Default: none.
    pub hosts: Vec<String>,
    /// Origins whose pages may call this server from a browser: `https://app.example`. Default:
    /// none.
    pub allowed_origins: Vec<String>,
}

impl Settings {
    /// Returns every invalid setting, with its value and range.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = self.connections.problems();
        problems.extend(self.hosts.iter().filter_map(|host| browser::problem_of_host(host)));
        problems.extend(self.allowed_origins.iter().filter_map(|origin| browser::problem_of_origin(origin)));
        problems
    }
}
