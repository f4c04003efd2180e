//! What `quire serve` lets an operator choose about HTTP: each setting of the server under its own name, as a flag.

use clap::Args;
use quire_http::Settings;

use crate::failure::{Failure, Result};

/// The flags; without one, a setting is what `quire_http::Settings` says.
#[derive(Debug, Args)]
pub(crate) struct Http {
    /// How many bytes of memory large answers over HTTP may take together, until their clients have read them
    #[arg(id = "http-memory-bytes-max", long, value_name = "BYTES",
        default_value_t = Settings::default().memory_bytes_max)]
    memory_bytes_max: u64,
}

impl Http {
    /// The settings.
    ///
    /// # Errors
    /// When some can't be; each is named.
    pub(crate) fn settings(self) -> Result<Settings> {
        let settings = Settings { memory_bytes_max: self.memory_bytes_max };
        match &settings.problems()[..] {
            [] => Ok(settings),
            problems => Err(Failure::new(format!("HTTP can't be served like this: {}", problems.join("; ")))),
        }
    }
}
