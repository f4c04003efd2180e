//! What `quire serve` lets an operator choose about the Kafka protocol: each setting of the server under its own name, as a flag.

use clap::{ArgAction, Args};
use quire_kafka::{Advertised, Settings};

use crate::failure::{Failure, Result};

/// The flags; without one, a setting is what `quire_kafka::Settings` says.
#[derive(Debug, Args)]
pub(crate) struct Kafka {
    /// Where Kafka clients are told to connect to, when they reach this server by another address than it listens on [default:
    /// the address through which a client came]
    #[arg(long = "kafka-advertised", value_name = "HOST:PORT", value_parser = advertised)]
    advertised: Option<Advertised>,
    /// Whether a topic that a Kafka client asks about is created, if the client allows it
    #[arg(long = "kafka-auto-create-topics", value_name = "BOOL", action = ArgAction::Set,
        default_value_t = Settings::default().auto_create_topics)]
    auto_create_topics: bool,
    /// How many partitions such a topic gets
    #[arg(long = "kafka-auto-create-partitions", value_name = "COUNT",
        default_value_t = Settings::default().auto_create_partitions, value_parser = clap::value_parser!(u32).range(1..))]
    auto_create_partitions: u32,
    /// How many connections Kafka clients may have; one more is closed
    #[arg(long = "kafka-connections-max", value_name = "COUNT", default_value_t = Settings::default().connections_max)]
    connections_max: usize,
    /// After how many milliseconds a Kafka connection is closed that sends no whole request, or takes no answer
    #[arg(long = "kafka-idle-timeout-ms", value_name = "MS", default_value_t = Settings::default().idle_timeout_ms)]
    idle_timeout_ms: u64,
    /// How many bytes a request of the Kafka protocol may have; a longer one closes its connection
    #[arg(long = "kafka-frame-bytes-max", value_name = "BYTES", default_value_t = Settings::default().frame_bytes_max)]
    frame_bytes_max: usize,
    /// How many bytes of batches an answer to a fetch may have, whatever the client asks for
    #[arg(long = "kafka-fetch-bytes-max", value_name = "BYTES", default_value_t = Settings::default().fetch_bytes_max)]
    fetch_bytes_max: usize,
    /// How many bytes of memory large requests and answers may take together
    #[arg(long = "kafka-memory-bytes-max", value_name = "BYTES", default_value_t = Settings::default().memory_bytes_max)]
    memory_bytes_max: u64,
    /// The shortest time that a member of a group may choose to be silent before it is taken out
    #[arg(long = "kafka-session-timeout-ms-min", value_name = "MS",
        default_value_t = Settings::default().session_timeout_ms_min)]
    session_timeout_ms_min: u64,
    /// The longest such time
    #[arg(long = "kafka-session-timeout-ms-max", value_name = "MS",
        default_value_t = Settings::default().session_timeout_ms_max)]
    session_timeout_ms_max: u64,
    /// How many milliseconds a group without members waits for others when one joins
    #[arg(long = "kafka-group-initial-delay-ms", value_name = "MS",
        default_value_t = Settings::default().group_initial_delay_ms)]
    group_initial_delay_ms: u64,
    /// How many members a group may have
    #[arg(long = "kafka-group-members-max", value_name = "COUNT",
        default_value_t = Settings::default().group_members_max)]
    group_members_max: usize,
}

impl Kafka {
    /// The settings.
    ///
    /// # Errors
    /// When some can't be; each is named.
    pub(crate) fn settings(self) -> Result<Settings> {
        let settings = Settings {
            advertised: self.advertised,
            auto_create_topics: self.auto_create_topics,
            auto_create_partitions: self.auto_create_partitions,
            frame_bytes_max: self.frame_bytes_max,
            fetch_bytes_max: self.fetch_bytes_max,
            idle_timeout_ms: self.idle_timeout_ms,
            connections_max: self.connections_max,
            memory_bytes_max: self.memory_bytes_max,
            session_timeout_ms_min: self.session_timeout_ms_min,
            session_timeout_ms_max: self.session_timeout_ms_max,
            group_initial_delay_ms: self.group_initial_delay_ms,
            group_members_max: self.group_members_max,
        };
        match &settings.problems()[..] {
            [] => Ok(settings),
            problems => Err(Failure::new(format!("Kafka clients can't be served like this: {}", problems.join("; ")))),
        }
    }
}

/// Reads `HOST:PORT`, where the host is whatever its clients know.
fn advertised(text: &str) -> Result<Advertised, String> {
    let (host, port) = text.rsplit_once(':').ok_or("there is no port: HOST:PORT")?;
    let port = port.parse().map_err(|error| format!("the port: {error}"))?;
    Ok(Advertised { host: host.trim_matches(['[', ']']).to_owned(), port })
}
