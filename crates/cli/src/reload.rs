//! A reload of the settings of a running server, at SIGHUP.
//!
//! The file and the environment are read again, and the arguments stay. A setting that can change
//! in a running server does. Any other setting that changed is named in the log: it needs a
//! restart. After an invalid setting nothing changes.

use std::cell::Cell;
use std::time::Duration;

use quire::Database;
use quire_access::TlsSettings;
use tracing::{error, info, warn};

use crate::Command;
use crate::exposure::{self, ServerProtection};
use crate::failure::{CommandError, Result};
use crate::logging::Logger;
use crate::servers::Servers;
use crate::settings::{self, ParsedArguments, ServerSetting};
use crate::tls::log_certificate;

/// The settings that a reload applies, by the names of their flags. The others have shaped memory,
/// files or listeners.
const RELOADED: [&str; 28] = [
    "log",
    "log-format",
    "log-slow-sync-ms",
    "kafka-advertised",
    "kafka-auto-create-topics",
    "kafka-auto-create-partitions",
    "kafka-auto-create-request-max",
    "kafka-auto-create-per-second",
    "kafka-connections-max",
    "kafka-idle-timeout-ms",
    "kafka-fetch-bytes-max",
    "kafka-session-timeout-ms-min",
    "kafka-session-timeout-ms-max",
    "kafka-group-initial-delay-ms",
    "kafka-group-members-max",
    "http-connections-max",
    "http-host",
    "http-allow-origin",
    "ui",
    "grpc-connections-max",
    "connections-per-address-max",
    "tls-certificate",
    "tls-key",
    "tls-version-min",
    "tls-client-certificates",
    "tls-client-roots",
    "tls-client-crl",
    "tls-client-name",
];

/// The prefix of the settings of TLS. They are applied while the server has a certificate: a
/// listener gets or loses TLS only at a start.
const TLS: &str = "tls-";

/// The target of the server's own events.
const TARGET: &str = "quire::server";

/// The settings of a running server.
#[derive(Debug)]
pub(crate) struct Reload<'s> {
    /// The settings at the start, or at the last reload.
    pub(crate) settings: &'s mut Vec<ServerSetting>,
    pub(crate) logger: &'s Logger,
    /// The shortest sync that the log reports.
    pub(crate) slow_sync: &'s Cell<Duration>,
    pub(crate) servers: &'s Servers,
    pub(crate) database: &'s Database,
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
        let tls = serve.tls().settings()?;
        let keeps_tls = tls.is_some() == self.servers.tls().is_some();
        let protection = ServerProtection {
            requires_certificates: tls.as_ref().map(TlsSettings::requires_client_certificates),
            ..serve.protection(self.database.access().rules().is_enabled())
        };
        // Certificates of clients may no longer be required.
        if keeps_tls {
            exposure::check(self.servers.addresses(), protection)?;
        }
        let is_applied = |flag: &str| RELOADED.contains(&flag) && (keeps_tls || !flag.starts_with(TLS));
        let (applied, kept): (Vec<_>, Vec<_>) = changed.partition(|setting| is_applied(&setting.flag));
        let names =
            |settings: &[&ServerSetting]| settings.iter().map(|setting| setting.line()).collect::<Vec<_>>().join(", ");
        self.servers.reload(serve.server_settings()?, tls.as_ref())?;
        if let Some(tls) = self.servers.tls().filter(|_| keeps_tls) {
            log_certificate(tls);
        }
        let log = serve.log();
        self.logger.set_filter(log.filter());
        self.logger.set_format(log.format());
        self.slow_sync.set(log.slow_sync());
        info!(target: TARGET, changed = names(&applied), "reloaded the settings");
        if !kept.is_empty() {
            warn!(target: TARGET, changed = names(&kept), "changed settings need a restart");
        }
        // The settings that need a restart are named again at the next reload.
        self.settings.retain(|setting| !is_applied(&setting.flag));
        self.settings.extend(settings.into_iter().filter(|setting| is_applied(&setting.flag)));
        Ok(())
    }

    /// Whether the server has this value already, whatever its source.
    fn has(&self, setting: &ServerSetting) -> bool {
        self.settings.iter().any(|mine| mine.flag == setting.flag && mine.values == setting.values)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::Quire;
    use crate::settings::key;

    const PAGE: &str = include_str!("../../../docs/settings.md");

    /// The names in a list of the page's section.
    fn names_of(start: &str) -> Vec<String> {
        let (_, section) = PAGE.split_once("\n## Reload\n").expect("a section");
        let (_, list) = section.split_once(start).unwrap_or_else(|| panic!("{start} in\n{section}"));
        let item = list.split("\n* ").next().expect("an item");
        let item = item.split("\n\n").next().expect("an item");
        let mut names: Vec<_> = item.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        names.sort();
        names
    }

    #[test]
    fn the_page_names_every_setting_that_a_reload_applies_and_every_other_one() {
        let command = Quire::command();
        let serve = command.find_subcommand("serve").expect("the command exists");
        let is_setting = |flag: &&str| !["config", "help", "version"].contains(flag);
        // The page has the settings of the default build.
        let in_page = |flag: &&str| is_setting(flag) && !flag.starts_with("otlp-");
        let flags = serve.get_arguments().filter_map(|arg| arg.get_long()).filter(in_page);
        let (mut applied, mut others): (Vec<_>, Vec<_>) = flags.partition(|flag| RELOADED.contains(flag));
        assert_eq!(applied.len(), RELOADED.len(), "every reloaded setting exists");
        applied.sort_unstable();
        others.sort_unstable();
        let keys = |flags: Vec<&str>| {
            let mut keys: Vec<_> = flags.into_iter().map(key).collect();
            keys.sort();
            keys
        };
        assert_eq!(names_of("* **Applied at once:**"), keys(applied));
        assert_eq!(names_of("* **Applied after a restart:**"), keys(others));
    }
}
