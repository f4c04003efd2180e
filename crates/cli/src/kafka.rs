//! The Kafka settings of `quire serve`: one flag for each field of [`Settings`].

use clap::{ArgAction, Args};
use quire_kafka::{AdvertisedAddress, Settings};

use crate::failure::{CommandError, Result};

/// The flags. Their defaults are those of [`Settings`].
#[derive(Debug, Args)]
pub(crate) struct KafkaArgs {
    /// Address for Kafka clients to connect to, when it differs from the listening address; with
    /// several listening addresses, one for each, in the same order [default: the address that the
    /// client used]
    #[arg(id = "kafka-advertised", long, value_name = "HOST:PORT", value_delimiter = ',', value_parser = advertised)]
    advertised: Vec<AdvertisedAddress>,
    /// Create a topic that a Kafka client asks for, when the client allows it
    /// [default: unless access control is enabled]
    #[arg(long = "kafka-auto-create-topics", value_name = "BOOL", action = ArgAction::Set)]
    auto_create_topics: Option<bool>,
    /// Partitions of such a topic
    #[arg(long = "kafka-auto-create-partitions", value_name = "COUNT",
        default_value_t = Settings::default().auto_create_partitions, value_parser = clap::value_parser!(u32).range(1..))]
    auto_create_partitions: u32,
    /// Most topics that one metadata request creates
    #[arg(long = "kafka-auto-create-request-max", value_name = "COUNT",
        default_value_t = Settings::default().auto_create_request_max)]
    auto_create_request_max: usize,
    /// Most topics per second that all metadata requests create
    #[arg(long = "kafka-auto-create-per-second", value_name = "COUNT",
        default_value_t = Settings::default().auto_create_per_second)]
    auto_create_per_second: u32,
    /// Most Kafka connections; further ones are closed
    #[arg(long = "kafka-connections-max", value_name = "COUNT", default_value_t = Settings::default().connections_max)]
    connections_max: usize,
    /// Milliseconds after which a Kafka connection without a complete request or a read response is
    /// closed
    #[arg(long = "kafka-idle-timeout-ms", value_name = "MS", default_value_t = Settings::default().idle_timeout_ms)]
    idle_timeout_ms: u64,
    /// Most bytes of a Kafka request; a longer one closes its connection
    #[arg(long = "kafka-frame-bytes-max", value_name = "BYTES", default_value_t = Settings::default().frame_bytes_max)]
    frame_bytes_max: usize,
    /// Most bytes of batches in a fetch response, whatever the client requests
    #[arg(long = "kafka-fetch-bytes-max", value_name = "BYTES", default_value_t = Settings::default().fetch_bytes_max)]
    fetch_bytes_max: usize,
    /// Shortest session timeout that a group member may choose, in milliseconds
    #[arg(long = "kafka-session-timeout-ms-min", value_name = "MS",
        default_value_t = Settings::default().session_timeout_ms_min)]
    session_timeout_ms_min: u64,
    /// Longest session timeout that a group member may choose, in milliseconds
    #[arg(long = "kafka-session-timeout-ms-max", value_name = "MS",
        default_value_t = Settings::default().session_timeout_ms_max)]
    session_timeout_ms_max: u64,
    /// Milliseconds that an empty group waits for more members after the first one joins
    #[arg(long = "kafka-group-initial-delay-ms", value_name = "MS",
        default_value_t = Settings::default().group_initial_delay_ms)]
    group_initial_delay_ms: u64,
    /// Most members of a group
    #[arg(long = "kafka-group-members-max", value_name = "COUNT",
        default_value_t = Settings::default().group_members_max)]
    group_members_max: usize,
}

impl KafkaArgs {
    /// Checks that each of `listeners` addresses has an advertised address, or none has.
    ///
    /// # Errors
    /// When there are more or fewer.
    pub(crate) fn check_advertised(&self, listeners: usize) -> Result {
        let settings = Settings { advertised: self.advertised.clone(), ..Settings::default() };
        let checked = settings.check_advertised(listeners);
        checked.map_err(|problem| CommandError::new(format!("invalid Kafka settings: {problem}")))
    }

    /// Returns the validated settings.
    ///
    /// # Errors
    /// When a setting is invalid. The message names each one.
    pub(crate) fn settings(&self) -> Result<Settings> {
        let settings = Settings {
            advertised: self.advertised.clone(),
            auto_create_topics: self.auto_create_topics,
            auto_create_partitions: self.auto_create_partitions,
            auto_create_request_max: self.auto_create_request_max,
            auto_create_per_second: self.auto_create_per_second,
            frame_bytes_max: self.frame_bytes_max,
            fetch_bytes_max: self.fetch_bytes_max,
            idle_timeout_ms: self.idle_timeout_ms,
            connections_max: self.connections_max,
            // The servers share one budget.
            memory_bytes_max: Settings::default().memory_bytes_max,
            session_timeout_ms_min: self.session_timeout_ms_min,
            session_timeout_ms_max: self.session_timeout_ms_max,
            group_initial_delay_ms: self.group_initial_delay_ms,
            group_members_max: self.group_members_max,
            ..Settings::default()
        };
        match &settings.problems()[..] {
            [] => Ok(settings),
            problems => Err(CommandError::new(format!("invalid Kafka settings: {}", problems.join("; ")))),
        }
    }
}

/// Parses `HOST:PORT`. The host is any name that the clients can resolve.
fn advertised(text: &str) -> Result<AdvertisedAddress, String> {
    let (host, port) = text.rsplit_once(':').ok_or("the port is missing: expected HOST:PORT")?;
    let port = port.parse().map_err(|error| format!("the port: {error}"))?;
    Ok(AdvertisedAddress { host: host.trim_matches(['[', ']']).to_owned(), port })
}
