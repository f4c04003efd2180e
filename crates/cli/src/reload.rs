//! A reload of the settings of a running server, at SIGHUP.
//!
//! The file and the environment are read again, and the arguments stay. A setting that can change
//! in a running server does. Any other setting that changed is named in the log: it needs a
//! restart. After an invalid setting nothing changes.

use tracing::{error, info, warn};

use crate::Command;
use crate::failure::{CommandError, Result};
use crate::logging::Logger;
use crate::settings::{self, ParsedArguments, ServerSetting};

/// The settings that a reload applies.
const RELOADED: [&str; 1] = ["log"];

/// The target of the server's own events.
const TARGET: &str = "quire::server";

/// The settings of a running server.
#[derive(Debug)]
pub(crate) struct Reload<'s> {
    /// The settings at the start, or at the last reload.
    pub(crate) settings: Vec<ServerSetting>,
    pub(crate) logger: &'s Logger,
}

impl Reload<'_> {
    /// Reads the settings again, applies them, and logs the result.
    pub(crate) fn run(&mut self) {
        if let Err(problem) = self.apply() {
            let error = match problem {
                CommandError::Message(message) => message,
                other => format!("{other:?}"),
            };
            error!(target: TARGET, error, "can't reload the settings; nothing has changed");
        }
    }

    fn apply(&mut self) -> Result {
        let ParsedArguments { quire, settings, .. } = settings::parse_again()?;
        let Command::Serve(serve) = quire.command else { unreachable!("the arguments are those of the server") };
        serve.check()?;
        let changed = settings.iter().filter(|setting| !self.has(setting));
        let (applied, kept): (Vec<_>, Vec<_>) = changed.partition(|setting| RELOADED.contains(&&*setting.flag));
        let names =
            |settings: &[&ServerSetting]| settings.iter().map(|setting| setting.line()).collect::<Vec<_>>().join(", ");
        self.logger.set_filter(serve.log().filter());
        info!(target: TARGET, changed = names(&applied), "reloaded the settings");
        if !kept.is_empty() {
            warn!(target: TARGET, changed = names(&kept), "changed settings need a restart");
        }
        // The settings that need a restart are named again at the next reload.
        self.settings.retain(|setting| !RELOADED.contains(&&*setting.flag));
        self.settings.extend(settings.into_iter().filter(|setting| RELOADED.contains(&&*setting.flag)));
        Ok(())
    }

    /// Whether the server has this value already, whatever its source.
    fn has(&self, setting: &ServerSetting) -> bool {
        self.settings.iter().any(|mine| mine.flag == setting.flag && mine.values == setting.values)
    }
}
