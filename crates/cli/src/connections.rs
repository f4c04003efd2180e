//! The limits on connections of `quire serve`, and their share of the file handles.

use clap::Args;
use quire_access::budget::ByteBudget;
use quire_access::{ConnectionSettings, raise_handle_limit, share_out};

use crate::failure::{CommandError, Result};

/// The flags. Their defaults are those of [`ConnectionSettings`].
#[derive(Debug, Args)]
pub(crate) struct ConnectionArgs {
    /// Most HTTP connections; further ones are closed, except a few for health and metrics
    #[arg(long, value_name = "COUNT", default_value_t = ConnectionSettings::default().connections_max)]
    http_connections_max: usize,
    /// Most gRPC connections; further ones are closed
    #[arg(long, value_name = "COUNT", default_value_t = ConnectionSettings::default().connections_max)]
    grpc_connections_max: usize,
    /// Most connections of one address to Kafka, to HTTP and to gRPC [default: half of the most
    /// connections]
    #[arg(long, value_name = "COUNT")]
    connections_per_address_max: Option<usize>,
}

/// The settings of the three servers.
#[derive(Debug, Default)]
pub(crate) struct ServerSettings {
    pub(crate) kafka: quire_kafka::Settings,
    pub(crate) http: quire_http::Settings,
    pub(crate) grpc: quire_grpc::Settings,
    /// The memory that the three share.
    pub(crate) budget: ByteBudget,
}

impl ConnectionArgs {
    /// Adds the limits to the settings of the servers.
    ///
    /// # Errors
    /// When a limit is invalid. The message names each one.
    pub(crate) fn add(&self, settings: &mut ServerSettings) -> Result {
        settings.kafka.connections_per_address_max = self.connections_per_address_max;
        let of = |connections_max| ConnectionSettings {
            connections_max,
            connections_per_address_max: self.connections_per_address_max,
            ..ConnectionSettings::default()
        };
        settings.http.connections = of(self.http_connections_max);
        settings.grpc.connections = of(self.grpc_connections_max);
        let both = [("HTTP", &settings.http.connections), ("gRPC", &settings.grpc.connections)];
        for (name, connections) in both {
            if let problems @ [_, ..] = &connections.problems()[..] {
                return Err(CommandError::new(format!("invalid {name} settings: {}", problems.join("; "))));
            }
        }
        Ok(())
    }
}

impl ServerSettings {
    /// Raises the limit on open files, and lowers the limits on connections to what the log leaves.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn fit_handles(&mut self) -> Result {
        let handles = raise_handle_limit().map_err(|error| CommandError::at("raise the limit on open files", error))?;
        share_out(
            handles,
            &mut [
                &mut self.kafka.connections_max,
                &mut self.http.connections.connections_max,
                &mut self.grpc.connections.connections_max,
            ],
        );
        Ok(())
    }
}
