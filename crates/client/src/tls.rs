//! TLS: the roots that a client trusts.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::AlertDescription;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};

use crate::{ClientError, FailureKind};

/// The certificates of authorities that a client trusts.
#[derive(Clone)]
pub(crate) enum TrustedRoots {
    /// Those of the system.
    System,
    /// These, in PEM.
    Pem(Vec<u8>),
    /// Those of a PEM file.
    File(PathBuf),
}

impl TrustedRoots {
    /// The settings of connections.
    ///
    /// # Errors
    /// When there is no certificate.
    pub(crate) fn config(&self) -> Result<TlsConfig, ClientError> {
        let roots = match self {
            TrustedRoots::System => {
                let found = rustls_native_certs::load_native_certs().certs;
                found.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect()
            }
            TrustedRoots::Pem(pem) => certificates(pem)?,
            TrustedRoots::File(file) => {
                let pem = std::fs::read(file);
                certificates(&pem.map_err(|error| invalid(format!("can't read {}: {error}", file.display())))?)?
            }
        };
        if roots.is_empty() {
            return Err(invalid(format!("no certificate of an authority to trust: {self:?}")));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            TlsConfig::builder().provider(TlsProvider::Rustls).root_certs(RootCerts::Specific(Arc::new(roots)));
        Ok(config.unversioned_rustls_crypto_provider(provider).build())
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<Certificate<'static>>, ClientError> {
    let items = parse_pem(pem).collect::<Result<Vec<_>, _>>();
    let items = items.map_err(|error| invalid(format!("can't read the trusted roots: {error}")))?;
    let certificate = |item| match item {
        PemItem::Certificate(certificate) => Some(certificate),
        _ => None,
    };
    Ok(items.into_iter().filter_map(certificate).collect())
}

/// The reason of a failure of TLS that a retry does not change: the certificate of the server, or
/// the server's refusal of this client.
pub(crate) fn lasting_failure(error: &ureq::Error) -> Option<String> {
    let error = match error {
        ureq::Error::Rustls(error) => error,
        ureq::Error::Tls(reason) => return Some((*reason).to_owned()),
        ureq::Error::Io(error) => error.get_ref()?.downcast_ref::<rustls::Error>()?,
        _ => return None,
    };
    match error {
        rustls::Error::InvalidCertificate(_)
        | rustls::Error::NoCertificatesPresented
        | rustls::Error::UnsupportedNameType
        | rustls::Error::PeerIncompatible(_)
        | rustls::Error::InvalidMessage(_) => Some(error.to_string()),
        rustls::Error::AlertReceived(alert) => match alert {
            AlertDescription::InternalError | AlertDescription::UserCanceled | AlertDescription::CloseNotify => None,
            _ => Some(format!("the server refused the connection: {alert:?}")),
        },
        _ => None,
    }
}

fn invalid(message: String) -> ClientError {
    ClientError::new(FailureKind::Invalid, message)
}

impl fmt::Debug for TrustedRoots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrustedRoots::System => f.write_str("System"),
            TrustedRoots::Pem(_) => f.write_str("Pem"),
            TrustedRoots::File(file) => f.debug_tuple("File").field(file).finish(),
        }
    }
}
