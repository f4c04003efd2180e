//! The HTTP settings of `quire serve`: one flag for each field of [`Settings`].

use clap::Args;
use quire_http::Settings;

use crate::failure::{CommandError, Result};

/// The flags. Their defaults are those of [`Settings`].
#[derive(Debug, Args)]
pub(crate) struct HttpArgs {
    /// Most bytes of memory for large HTTP responses that clients have not read yet
    #[arg(id = "http-memory-bytes-max", long, value_name = "BYTES",
        default_value_t = Settings::default().memory_bytes_max)]
    memory_bytes_max: u64,
    /// A further name of this server in the header `Host` of requests, with or without a port; can
    /// be repeated
    #[arg(id = "http-host", long, value_name = "HOST")]
    hosts: Vec<String>,
    /// An origin whose pages may use this server from a browser, for example https://app.example;
    /// can be repeated
    #[arg(id = "http-allow-origin", long, value_name = "ORIGIN")]
    allowed_origins: Vec<String>,
}

impl HttpArgs {
    /// Returns the validated settings.
    ///
    /// # Errors
    /// When a setting is invalid. The message names each one.
    pub(crate) fn settings(&self) -> Result<Settings> {
        let settings = Settings {
            memory_bytes_max: self.memory_bytes_max,
            hosts: self.hosts.clone(),
            allowed_origins: self.allowed_origins.clone(),
            ..Settings::default()
        };
        match &settings.problems()[..] {
            [] => Ok(settings),
            problems => Err(CommandError::new(format!("invalid HTTP settings: {}", problems.join("; ")))),
        }
    }
}
