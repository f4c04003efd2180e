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
        let partitions_max = quire::streams::PARTITIONS_MAX;
        within("auto_create_partitions", self.auto_create_partitions.into(), 1, partitions_max.into());
        if let Some(advertised) = &self.advertised {
            within("the length of the advertised host", advertised.host.len() as u64, 1, 255);
            within("the advertised port", advertised.port.into(), 1, u16::MAX.into());
        }
        problems
    }
}
