//! The settings of a listener, as plain data.

use std::time::Duration;

/// The rate, in bytes per second, at which the time for a request grows with the bytes that have
/// arrived.
const ARRIVAL_BYTES_PER_S: u64 = 256 << 10;

/// Limits and deadlines of the connections of one listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// Maximum number of connections. A further one takes the place of the longest idle connection
    /// of the address with the most connections. It is closed if all of those have running
    /// requests, or had one within the last second. Default: 4,096; at least 1.
    pub connections_max: usize,
    /// Maximum number of connections from one address: from one IPv4 address, one IPv6 network of
    /// 64 bits, or one user of a Unix socket. A further one takes the place of the longest idle
    /// connection of the address. Default: half of `connections_max`, but at least 16;
    /// at least 1.
    pub connections_per_address_max: Option<usize>,
    /// How long a new connection may take until its first whole request (over HTTP, the head), in
    /// milliseconds. Default: 10,000; at least 1.
    pub first_request_ms: u64,
    /// How long a request that has begun may take to arrive, in milliseconds: a body over HTTP, a
    /// message over gRPC. One second more for each 256 KiB that have arrived. Default: 60,000; at
    /// least 1.
    pub request_ms: u64,
}

impl Default for ConnectionSettings {
    fn default() -> Self {
        ConnectionSettings {
            connections_max: 4_096,
            connections_per_address_max: None,
            first_request_ms: 10_000,
            request_ms: 60_000,
        }
    }
}

impl ConnectionSettings {
    /// Returns every invalid setting, with its value and range.
    pub fn problems(&self) -> Vec<String> {
        let settings = [
            ("connections_max", self.connections_max as u64),
            ("connections_per_address_max", self.per_address_max() as u64),
            ("first_request_ms", self.first_request_ms),
            ("request_ms", self.request_ms),
        ];
        let invalid = settings.iter().filter(|(_, value)| *value == 0);
        invalid.map(|(name, _)| format!("{name} must be at least 1, got 0")).collect()
    }

    /// The maximum number of connections from one address.
    pub fn per_address_max(&self) -> usize {
        self.connections_per_address_max.unwrap_or((self.connections_max / 2).max(16))
    }

    /// [`ConnectionSettings::first_request_ms`] as a duration.
    pub fn first_request(&self) -> Duration {
        Duration::from_millis(self.first_request_ms)
    }

    /// The time for a request of which `bytes` have arrived; see
    /// [`ConnectionSettings::request_ms`].
    pub fn request(&self, bytes: u64) -> Duration {
        let grown_ms = bytes.saturating_mul(1_000) / ARRIVAL_BYTES_PER_S;
        Duration::from_millis(self.request_ms.saturating_add(grown_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_zero_is_reported() {
        assert_eq!(ConnectionSettings::default().problems(), [""; 0]);
        let settings = ConnectionSettings {
            connections_max: 0,
            connections_per_address_max: Some(0),
            first_request_ms: 0,
            request_ms: 0,
        };
        assert_eq!(settings.problems().len(), 4);
        assert_eq!(settings.problems()[0], "connections_max must be at least 1, got 0");
    }

    #[test]
    fn a_request_has_more_time_the_more_of_it_has_arrived() {
        let settings = ConnectionSettings::default();
        assert_eq!(settings.request(0), Duration::from_secs(60));
        assert_eq!(settings.request(256 << 20), Duration::from_secs(60 + 1_024));
    }

    #[test]
    fn one_address_gets_half_of_the_connections_by_default() {
        let of = |connections_max| ConnectionSettings { connections_max, ..ConnectionSettings::default() };
        assert_eq!(of(4_096).per_address_max(), 2_048);
        assert_eq!(of(2).per_address_max(), 16);
    }
}
