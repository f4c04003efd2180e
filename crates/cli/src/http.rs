//! The HTTP settings of `quire serve`: one flag for each field of [`Settings`].

use clap::{Args, ValueEnum};
use quire_http::{DashboardMode, Settings};

use crate::failure::{CommandError, Result};

/// The flags. Their defaults are those of [`Settings`].
#[derive(Debug, Args)]
pub(crate) struct HttpArgs {
    /// A further name of this server in the header `Host` of requests, with or without a port; can
    /// be repeated
    #[arg(id = "http-host", long, value_name = "HOST")]
    hosts: Vec<String>,
    /// An origin whose pages may use this server from a browser, for example https://app.example;
    /// can be repeated
    #[arg(id = "http-allow-origin", long, value_name = "ORIGIN")]
    allowed_origins: Vec<String>,
    /// The dashboard, which the server has at its address in a browser
    #[arg(id = "ui", long, value_name = "MODE", value_enum, default_value = "full")]
    dashboard: DashboardArg,
}

/// The value of `--ui`.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum DashboardArg {
    /// No dashboard
    Off,
    /// The whole dashboard; it may do what its user's key may do
    Full,
}

impl HttpArgs {
    /// Whether the server has the dashboard.
    pub(crate) fn has_dashboard(&self) -> bool {
        matches!(self.dashboard, DashboardArg::Full)
    }

    /// Returns the validated settings.
    ///
    /// # Errors
    /// When a setting is invalid. The message names each one.
    pub(crate) fn settings(&self) -> Result<Settings> {
        let settings = Settings {
            hosts: self.hosts.clone(),
            allowed_origins: self.allowed_origins.clone(),
            dashboard: match self.dashboard {
                DashboardArg::Off => DashboardMode::Off,
                DashboardArg::Full => DashboardMode::Full,
            },
            ..Settings::default()
        };
        match &settings.problems()[..] {
            [] => Ok(settings),
            problems => Err(CommandError::new(format!("invalid HTTP settings: {}", problems.join("; ")))),
        }
    }
}
