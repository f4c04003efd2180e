//! The settings of the server, as plain data.

use quire_access::ConnectionSettings;
use quire_access::browser;
use quire_access::budget::ByteBudget;

/// The settings of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The size of the byte budget in bytes, unless the server shares one
    /// ([`Server::with_budget`](crate::Server::with_budget)). A request or response without memory
    /// is refused with status 503 and a time to retry. One that exceeds the whole budget is refused
    /// with 413. Default: 1 GiB; 1 MiB to 1 TiB.
    pub memory_bytes_max: u64,
    /// Limits and deadlines of connections.
    pub connections: ConnectionSettings,
    /// How long a connection may take from a response to the end of the next request's head, in
    /// milliseconds. Default: 60,000; at least 1.
    pub idle_timeout_ms: u64,
    /// Names of this server in the header `Host`, besides loopback and the address that a client
    /// connected to. `HOST` stands for any port, `HOST:PORT` for one. Default: none.
    pub hosts: Vec<String>,
    /// Origins whose pages may use this server from a browser: `https://app.example`. Default:
    /// none.
    pub allowed_origins: Vec<String>,
    /// Whether the server has the dashboard. Default: [`DashboardMode::Full`].
    pub dashboard: DashboardMode,
}

/// Whether the server has the dashboard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DashboardMode {
    /// Its paths are unknown.
    Off,
    /// The dashboard is at `/`.
    #[default]
    Full,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            memory_bytes_max: ByteBudget::BYTES_DEFAULT,
            connections: ConnectionSettings::default(),
            idle_timeout_ms: 60_000,
            hosts: Vec::new(),
            allowed_origins: Vec::new(),
            dashboard: DashboardMode::default(),
        }
    }
}

impl Settings {
    /// The largest value: practically no limit, for a server of one's own.
    pub const MEMORY_BYTES_MOST: u64 = ByteBudget::BYTES_MOST;

    /// Returns every invalid setting, with its value and range.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = self.connections.problems();
        let (least, most, bytes) = (ByteBudget::BYTES_LEAST, Settings::MEMORY_BYTES_MOST, self.memory_bytes_max);
        if !(least..=most).contains(&bytes) {
            problems.push(format!("memory_bytes_max must be {least} to {most}, got {bytes}"));
        }
        if self.idle_timeout_ms == 0 {
            problems.push("idle_timeout_ms must be at least 1, got 0".to_owned());
        }
        problems.extend(self.hosts.iter().filter_map(|host| browser::problem_of_host(host)));
        problems.extend(self.allowed_origins.iter().filter_map(|origin| browser::problem_of_origin(origin)));
        problems
    }
}
