//! The settings of the server, as plain data.

use quire_access::ConnectionSettings;
use quire_access::budget::ByteBudget;

/// The settings of the server. The defaults are Kafka's, where Kafka has the setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The addresses that clients are given to connect to: one for each listener, in the same
    /// order. Default: none, and clients are given the address through which they connected.
    pub advertised: Vec<AdvertisedAddress>,
    /// Whether a metadata request creates a missing topic, if the client allows it. Default: yes,
    /// unless access control is enabled.
    pub auto_create_topics: Option<bool>,
    /// The number of partitions of such a topic. Default: 1.
    pub auto_create_partitions: u32,
    /// Maximum number of topics that one metadata request creates. Default: 50; at least 1.
    pub auto_create_request_max: usize,
    /// Maximum number of topics per second that all metadata requests create together. The topics
    /// of one second may be created at once. Default: 100; 1 to 1,000,000.
    pub auto_create_per_second: u32,
    /// Maximum size of a request in bytes. A larger one closes its connection. Default: 100 MiB; 1
    /// KiB to 1 GiB.
    pub frame_bytes_max: usize,
    /// Maximum size of the record batches in a fetch response, in bytes, whatever the client
    /// requests. A single batch may be larger. Default: 55 MiB; 1 KiB to 1 GiB.
    pub fetch_bytes_max: usize,
    /// Idle time in milliseconds after which a connection is closed: without a whole request, or
    /// with a response that the client does not read. It also bounds the wait of a fetch. Default:
    /// 600,000; at least 1.
    pub idle_timeout_ms: u64,
    /// Maximum number of connections. A further one is closed as soon as it is accepted. Default:
    /// 10,000; at least 1.
    pub connections_max: usize,
    /// Maximum number of connections from one address. Default: half of `connections_max`, but at
    /// least 16; at least 1.
    pub connections_per_address_max: Option<usize>,
    /// How long a new connection may take until its first whole request, in milliseconds. Default:
    /// 10,000; at least 1.
    pub first_request_timeout_ms: u64,
    /// How long a request that has begun may take to arrive, in milliseconds; one second more for
    /// each 256 KiB that have arrived. Default: 60,000; at least 1.
    pub request_timeout_ms: u64,
    /// The size of the byte budget in bytes, unless the server shares one
    /// ([`Server::with_budget`](crate::Server::with_budget)). Requests and responses of at most 64
    /// KiB do not count.
    ///
    /// A request without memory waits, unread, until others are finished. A fetch response is made
    /// smaller, and waits when not even its first batch fits. Other responses wait for their
    /// memory. A client that holds memory for which others wait, and is too slow, is disconnected.
    ///
    /// Default: 1 GiB; at least 1 MiB and `frame_bytes_max`, at most 1 TiB.
    pub memory_bytes_max: u64,
    /// Minimum session timeout of a group member, in milliseconds. The maximum is
    /// `session_timeout_ms_max`. Default: 6,000 and 1,800,000, as in Kafka; at least 1.
    pub session_timeout_ms_min: u64,
    /// See [`Settings::session_timeout_ms_min`].
    pub session_timeout_ms_max: u64,
    /// How long an empty group waits for further members after the first joins, in milliseconds.
    /// Kafka waits 3,000. Default: 100; at most 60,000.
    pub group_initial_delay_ms: u64,
    /// Maximum number of members in a group. Default: 10,000; 1 to 100,000.
    pub group_members_max: usize,
}

/// A host and port that clients can reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdvertisedAddress {
    /// A name or an address.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            advertised: Vec::new(),
            auto_create_topics: None,
            auto_create_partitions: 1,
            auto_create_request_max: 50,
            auto_create_per_second: 100,
            frame_bytes_max: 100 << 20,
            fetch_bytes_max: 55 << 20,
            idle_timeout_ms: 600_000,
            connections_max: 10_000,
            connections_per_address_max: None,
            first_request_timeout_ms: 10_000,
            request_timeout_ms: 60_000,
            memory_bytes_max: ByteBudget::BYTES_DEFAULT,
            session_timeout_ms_min: 6_000,
            session_timeout_ms_max: 1_800_000,
            group_initial_delay_ms: 100,
            group_members_max: 10_000,
        }
    }
}

impl Settings {
    /// The limits and deadlines of connections.
    pub(crate) fn connections(&self) -> ConnectionSettings {
        ConnectionSettings {
            connections_max: self.connections_max,
            connections_per_address_max: self.connections_per_address_max,
            first_request_ms: self.first_request_timeout_ms,
            request_ms: self.request_timeout_ms,
        }
    }

    /// Returns every problem of the settings; empty when they are valid.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut within = |name: &str, value: u64, min: u64, max: u64| {
            if !(min..=max).contains(&value) {
                problems.push(format!("{name} must be {min} to {max}, got {value}"));
            }
        };
        within("frame_bytes_max", self.frame_bytes_max as u64, 1 << 10, 1 << 30);
        within("fetch_bytes_max", self.fetch_bytes_max as u64, 1 << 10, 1 << 30);
        within("idle_timeout_ms", self.idle_timeout_ms, 1, u64::MAX);
        within("connections_max", self.connections_max as u64, 1, u64::MAX);
        let per_address_max = self.connections_per_address_max.unwrap_or(1);
        within("connections_per_address_max", per_address_max as u64, 1, u64::MAX);
        within("first_request_timeout_ms", self.first_request_timeout_ms, 1, u64::MAX);
        within("request_timeout_ms", self.request_timeout_ms, 1, u64::MAX);
        let memory_bytes_least = ByteBudget::BYTES_LEAST.max(self.frame_bytes_max as u64);
        within("memory_bytes_max", self.memory_bytes_max, memory_bytes_least, ByteBudget::BYTES_MOST);
        within("session_timeout_ms_min", self.session_timeout_ms_min, 1, self.session_timeout_ms_max);
        within("session_timeout_ms_max", self.session_timeout_ms_max, 1, i32::MAX as u64);
        within("group_initial_delay_ms", self.group_initial_delay_ms, 0, 60_000);
        within("group_members_max", self.group_members_max as u64, 1, 100_000);
        within("auto_create_request_max", self.auto_create_request_max as u64, 1, u64::MAX);
        within("auto_create_per_second", self.auto_create_per_second.into(), 1, 1_000_000);
        let partitions_max = quire::streams::PARTITIONS_MAX;
        within("auto_create_partitions", self.auto_create_partitions.into(), 1, partitions_max.into());
        for advertised in &self.advertised {
            within("the length of the advertised host", advertised.host.len() as u64, 1, 255);
            within("the advertised port", advertised.port.into(), 1, u16::MAX.into());
        }
        problems
    }

    /// Checks that each of `listeners` listeners has an advertised address, or none has.
    ///
    /// # Errors
    /// The problem.
    pub fn check_advertised(&self, listeners: usize) -> Result<(), String> {
        match self.advertised.len() {
            0 => Ok(()),
            count if count == listeners => Ok(()),
            count => Err(format!(
                "advertised addresses must be none or one for each of the {listeners} listeners, in the same order, \
                 got {count}"
            )),
        }
    }
}
