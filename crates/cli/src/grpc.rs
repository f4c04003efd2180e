//! The gRPC settings of `quire serve` for calls of web pages.

use clap::Args;
use quire_grpc::Settings;

use crate::failure::{CommandError, Result};

/// The flags. Their defaults are those of [`Settings`].
#[derive(Debug, Args)]
pub(crate) struct GrpcArgs {
    /// A further name of this server in the header `Host` of gRPC-Web calls, with or without a
    /// port; can be repeated
    #[arg(id = "grpc-host", long, value_name = "HOST")]
    hosts: Vec<String>,
    /// An origin whose pages may call this server with gRPC-Web, for example https://app.example;
    /// can be repeated
    #[arg(id = "grpc-allow-origin", long, value_name = "ORIGIN")]
    allowed_origins: Vec<String>,
}

impl GrpcArgs {
    /// Returns the validated settings.
    ///
    /// # Errors
    /// When a setting is invalid. The message names each one.
    pub(crate) fn settings(&self) -> Result<Settings> {
        let settings = Settings {
            hosts: self.hosts.clone(),
            allowed_origins: self.allowed_origins.clone(),
            ..Settings::default()
        };
        match &settings.problems()[..] {
            [] => Ok(settings),
            problems => Err(CommandError::new(format!("invalid gRPC settings: {}", problems.join("; ")))),
        }
    }
}
