//! The TLS of `quire serve`: its settings, its log lines, and the look at its files.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use quire::{Clock, SystemClock};
use quire_access::{ClientCertificates, NameRule, ServerTls, TlsSettings, TlsVersion};
use tracing::{error, info, warn};

use crate::failure::{CommandError, Result};
use crate::text::counted;

/// The flags. With a certificate, listeners on TCP have TLS.
#[derive(Debug, Args)]
pub(crate) struct TlsArgs {
    /// File of the server's certificate and its issuers, in PEM; gives every TCP address TLS that
    /// is not written as plain://ADDR
    #[arg(long, value_name = "FILE")]
    tls_certificate: Option<PathBuf>,
    /// File of the private key of the certificate, in PEM
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Lowest version of TLS: 1.2 or 1.3
    #[arg(long, value_name = "VERSION", default_value_t = TlsVersion::default())]
    tls_version_min: TlsVersion,
    /// Certificates of clients: none, optional or required
    #[arg(long, value_name = "WHETHER", default_value_t = ClientCertificates::default())]
    tls_client_certificates: ClientCertificates,
    /// File of the certificates that sign those of clients, in PEM
    #[arg(long, value_name = "FILE")]
    tls_client_roots: Option<PathBuf>,
    /// File of certificate revocation lists, in PEM; can be repeated
    #[arg(id = "tls-client-crl", long, value_name = "FILE")]
    client_crls: Vec<PathBuf>,
    /// Rule for the name of a client, for example 'cn:{name} => {name}'; can be repeated, and the
    /// first matching rule wins
    #[arg(id = "tls-client-name", long, value_name = "RULE")]
    client_names: Vec<NameRule>,
}

impl TlsArgs {
    /// Returns the validated settings; `None` without a certificate. The files are not read.
    ///
    /// # Errors
    /// When a setting is invalid. The message names each one.
    pub(crate) fn settings(&self) -> Result<Option<TlsSettings>> {
        let invalid = |problem: &str| Err(CommandError::new(format!("invalid TLS settings: {problem}")));
        let (certificate, key) = match (&self.tls_certificate, &self.tls_key) {
            (Some(certificate), Some(key)) => (certificate.clone(), key.clone()),
            (Some(_), None) => return invalid("tls_certificate needs tls_key"),
            (None, Some(_)) => return invalid("tls_key needs tls_certificate"),
            (None, None) if self.has_client_settings() => {
                return invalid("settings of client certificates need tls_certificate and tls_key");
            }
            (None, None) => return Ok(None),
        };
        let settings = TlsSettings {
            certificate,
            key,
            version_min: self.tls_version_min,
            client_certificates: self.tls_client_certificates,
            client_roots: self.tls_client_roots.clone(),
            client_crls: self.client_crls.clone(),
            client_names: self.client_names.clone(),
        };
        match &settings.problems()[..] {
            [] => Ok(Some(settings)),
            problems => invalid(&problems.join("; ")),
        }
    }

    /// Loads the files of the settings.
    ///
    /// # Errors
    /// When a setting is invalid, or a file can't be used.
    pub(crate) fn load(&self) -> Result<Option<Arc<ServerTls>>> {
        let load = |settings| ServerTls::load(&settings).map_err(|error| CommandError::new(error.to_string()));
        self.settings()?.map(load).transpose()
    }

    fn has_client_settings(&self) -> bool {
        self.tls_client_certificates != ClientCertificates::None
            || self.tls_client_roots.is_some()
            || !self.client_crls.is_empty()
            || !self.client_names.is_empty()
    }
}

/// The target of the server's own events.
const TARGET: &str = "quire::server";

/// The number of looks between two checks of the files. There is a look about each second.
const LOOKS_PER_CHECK: u32 = 60;

/// A certificate with fewer days left is a warning each day.
const DAYS_TO_WARN: i64 = 14;

/// Loads the files of TLS again after they have changed, and warns before the certificate ends.
#[derive(Debug)]
pub(crate) struct TlsWatch {
    tls: Option<Arc<ServerTls>>,
    looks: u32,
    /// The number of days left at the last warning.
    warned: Option<i64>,
}

impl TlsWatch {
    pub(crate) fn new(tls: Option<Arc<ServerTls>>) -> Self {
        TlsWatch { tls, looks: 0, warned: None }
    }

    /// Checks the files once a minute. A file that can't be used keeps the state, and is logged
    /// once until a file changes again.
    pub(crate) fn look(&mut self) {
        let Some(tls) = &self.tls else { return };
        self.looks += 1;
        if self.looks < LOOKS_PER_CHECK {
            return;
        }
        self.looks = 0;
        match tls.refresh() {
            Ok(true) => log_certificate(tls),
            Ok(false) => {}
            Err(error) => {
                error!(target: TARGET, %error, "can't load the files of TLS; the previous ones stay in use");
            }
        }
        let days_left = days_left(tls);
        if days_left < DAYS_TO_WARN && self.warned.replace(days_left) != Some(days_left) {
            warn_of_end(days_left);
        }
    }
}

/// Logs the certificate that was loaded.
pub(crate) fn log_certificate(tls: &ServerTls) {
    info!(target: TARGET, days_left = days_left(tls), "loaded the certificate and its key");
    if let Some((path, mode)) = tls.wide_key() {
        warn!(target: TARGET, "other users can open the private key {path} (mode {mode:o}): run `chmod go= {path}`");
    }
}

fn warn_of_end(days_left: i64) {
    match u64::try_from(days_left) {
        Ok(days) => warn!(target: TARGET, days_left, "the certificate expires in {}", counted(days + 1, "day")),
        Err(_) => error!(target: TARGET, days_left, "the certificate has expired; clients refuse it"),
    }
}

fn days_left(tls: &ServerTls) -> i64 {
    tls.certificate_days_left(i64::try_from(SystemClock.now().as_millis() / 1000).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use clap::Parser;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    #[derive(Debug, Parser)]
    struct Arguments {
        #[command(flatten)]
        tls: TlsArgs,
    }

    fn args(flags: &[&str]) -> TlsArgs {
        Arguments::try_parse_from(["serve"].iter().chain(flags)).expect("valid flags").tls
    }

    #[test]
    fn settings_that_do_not_fit_are_refused() {
        assert_eq!(args(&[]).settings().expect("valid"), None);
        for (flags, problem) in [
            (&["--tls-certificate=c"][..], "tls_certificate needs tls_key"),
            (&["--tls-key=k"], "tls_key needs tls_certificate"),
            (&["--tls-client-roots=r"], "need tls_certificate and tls_key"),
            (&["--tls-client-certificates=required"], "need tls_certificate and tls_key"),
            (&["--tls-certificate=c", "--tls-key=k", "--tls-client-crl=l"], "CRLs have no effect"),
        ] {
            let Err(CommandError::Message(message)) = args(flags).settings() else { panic!("invalid: {flags:?}") };
            assert!(message.contains(problem), "{flags:?}: {message}");
        }
        let flags = ["--tls-certificate=c", "--tls-key=k", "--tls-version-min=1.3", "--tls-client-roots=r"];
        let mutual = ["--tls-client-certificates=required", "--tls-client-name=cn:{a} => {a}"];
        let settings = args(&[&flags[..], &mutual].concat()).settings().expect("valid").expect("TLS");
        assert_eq!((settings.version_min, settings.client_names.len()), (TlsVersion::Tls13, 1));
    }

    /// Writes a certificate that ends in this year, and its key.
    fn sign(directory: &Path, year: i32) {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
        params.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().expect("a key");
        fs::write(directory.join("c.pem"), params.self_signed(&key).expect("signed").pem()).expect("written");
        fs::write(directory.join("k.pem"), key.serialize_pem()).expect("written");
    }

    #[test]
    fn files_are_checked_once_a_minute() {
        let directory = tempfile::tempdir().expect("a directory");
        sign(directory.path(), 2500);
        let [certificate, key] = ["c", "k"].map(|name| directory.path().join(name).with_extension("pem"));
        let (certificate, key) = (certificate.display(), key.display());
        let flags = [format!("--tls-certificate={certificate}"), format!("--tls-key={key}")];
        let tls = args(&[&flags[0], &flags[1]]).load().expect("valid").expect("TLS");
        let mut watch = TlsWatch::new(Some(Arc::clone(&tls)));
        let ends = |year| date_time_ymd(year, 1, 1).unix_timestamp();
        sign(directory.path(), 2600);
        (1..LOOKS_PER_CHECK).for_each(|_| watch.look());
        assert_eq!(tls.certificate_end(), ends(2500));
        watch.look();
        assert_eq!(tls.certificate_end(), ends(2600));
        fs::write(directory.path().join("k.pem"), "no key").expect("written");
        (0..LOOKS_PER_CHECK).for_each(|_| watch.look());
        assert_eq!(tls.certificate_end(), ends(2600), "a file that can't be used changes nothing");
        sign(directory.path(), 2700);
        (0..LOOKS_PER_CHECK).for_each(|_| watch.look());
        assert_eq!(tls.certificate_end(), ends(2700));
    }
}
