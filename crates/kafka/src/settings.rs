//! What can be chosen about the server, as plain data.

/// How the server is to be. The defaults are Kafka's, where it has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The address that clients are told to connect to. Default: the one through which a client reached the server.
    pub advertised: Option<Advertised>,
    /// Whether a topic that a client asks about, and allows to be created, is created. Default: yes.
    pub auto_create_topics: bool,
    /// How many partitions such a topic gets. Default: 1.
    pub auto_create_partitions: u32,
    /// The most bytes of a request. A longer one closes its connection. Default: 100 MiB; 1 KiB to 1 GiB.
    pub frame_bytes_max: usize,
    /// The most bytes of record batches in an answer to a fetch, whatever the client asks for; a single batch may be
    /// larger. Default: 55 MiB; 1 KiB to 1 GiB.
    pub fetch_bytes_max: usize,
    /// After how many milliseconds without a whole request, or with an answer that the client does not take, a connection
    /// is closed; no fetch waits longer for records either. Default: 600,000; at least 1.
    pub idle_timeout_ms: u64,
    /// The most connections at a time. One more is closed as soon as it is accepted. Default: 10,000; at least 1.
    pub connections_max: usize,
    /// The most bytes that requests, and records and other answers, may take together, those of at most 64 KiB aside. A request for
    /// which there is no memory waits, unread, until others are handled; answers to fetches are made smaller, and wait when not even
    /// their first batch fits; other answers wait, and are made when there is memory for them. Who has memory that others wait for, and sends or reads slowly, is closed. Default: 1 GiB; at least `frame_bytes_max`, at
    /// most 1 TiB.
    pub memory_bytes_max: u64,
    /// The shortest and the longest time, in milliseconds, that a member of a group may choose to be silent before it is taken
    /// out. Default: 6,000 and 1,800,000, as in Kafka; at least 1.
    pub session_timeout_ms_min: u64,
    /// See [`Settings::session_timeout_ms_min`].
    pub session_timeout_ms_max: u64,
    /// How many milliseconds a group without members waits, when one joins, for others that start at the same time. Kafka
    /// waits for 3,000. Default: 100; at most 60,000.
    pub group_initial_delay_ms: u64,
    /// The most members of a group. Default: 10,000; 1 to 100,000.
    pub group_members_max: usize,
}

/// A host and port that clients can reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advertised {
    /// A name or an address.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            advertised: None,
            auto_create_topics: true,
            auto_create_partitions: 1,
            frame_bytes_max: 100 << 20,
            fetch_bytes_max: 55 << 20,
            idle_timeout_ms: 600_000,
            connections_max: 10_000,
            memory_bytes_max: 1 << 30,
            session_timeout_ms_min: 6_000,
            session_timeout_ms_max: 1_800_000,
            group_initial_delay_ms: 100,
            group_members_max: 10_000,
        }
    }
}

impl Settings {
    /// Everything that is wrong with the settings; empty when they can be used.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut within = |name: &str, value: u64, min: u64, max: u64| {
            if !(min..=max).contains(&value) {
                problems.push(format!("{name} is {value}, and must be {min} to {max}"));
            }
        };
        within("frame_bytes_max", self.frame_bytes_max as u64, 1 << 10, 1 << 30);
        within("fetch_bytes_max", self.fetch_bytes_max as u64, 1 << 10, 1 << 30);
        within("idle_timeout_ms", self.idle_timeout_ms, 1, u64::MAX);
        within("connections_max", self.connections_max as u64, 1, u64::MAX);
        within("memory_bytes_max", self.memory_bytes_max, self.frame_bytes_max as u64, 1 << 40);
        within("session_timeout_ms_min", self.session_timeout_ms_min, 1, self.session_timeout_ms_max);
        within("session_timeout_ms_max", self.session_timeout_ms_max, 1, i32::MAX as u64);
        within("group_initial_delay_ms", self.group_initial_delay_ms, 0, 60_000);
        within("group_members_max", self.group_members_max as u64, 1, 100_000);
        let partitions_max = quire::streams::PARTITIONS_MAX;
        within("auto_create_partitions", self.auto_create_partitions.into(), 1, partitions_max.into());
        if let Some(advertised) = &self.advertised {
            within("the length of the advertised host", advertised.host.len() as u64, 1, 255);
            within("the advertised port", advertised.port.into(), 1, u16::MAX.into());
        }
        problems
    }
}
