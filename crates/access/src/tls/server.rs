//! The TLS of a server: files become one state, and the state is replaced as a whole.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ServerSessionMemoryCache, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig};

use super::certificate;
use super::names::NameRule;
use super::settings::{ClientCertificates, TlsProtocol, TlsSettings, TlsVersion};
use crate::file_stamp::FileStamp;
use crate::live::LiveSettings;

/// Largest file that is read, in bytes. Lists of revoked certificates are the largest ones.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Most sessions of clients that support no tickets, for each protocol.
const SESSIONS_MAX: usize = 256;

/// The permissions of a private key that are too wide: those of the group and of others.
const WIDE_MODE: u32 = 0o077;

/// Seconds of a day.
const DAY_S: i64 = 24 * 60 * 60;

/// The TLS of the listeners of a server, which share one state of it; see the module.
#[derive(Debug)]
pub struct ServerTls {
    state: Arc<LiveSettings<TlsState>>,
    /// The files at the last attempt to load them.
    tried: Mutex<Vec<FileStamp>>,
}

/// One state of a server's TLS. A handshake uses one state of all of it.
#[derive(Debug)]
pub(super) struct TlsState {
    configs: ProtocolConfigs,
    pub(super) settings: TlsSettings,
    /// The end of the first certificate that ends, in seconds since 1970.
    end: i64,
}

/// The configuration for each protocol. They differ in the protocols that they negotiate, and a
/// session of one is not resumed in another.
#[derive(Debug)]
struct ProtocolConfigs {
    cluster: Arc<ServerConfig>,
    grpc: Arc<ServerConfig>,
    http: Arc<ServerConfig>,
    kafka: Arc<ServerConfig>,
}

/// The files at this moment.
fn stamps_of(settings: &TlsSettings) -> Vec<FileStamp> {
    settings.files().map(FileStamp::of).collect()
}

impl ServerTls {
    /// Loads the files of the settings.
    ///
    /// # Errors
    /// When settings are invalid or a file can't be used. The message names the setting or the
    /// file.
    pub fn load(settings: &TlsSettings) -> io::Result<Arc<Self>> {
        // Read before the files: a file that changes meanwhile has another stamp later.
        let tried = Mutex::new(stamps_of(settings));
        let state = LiveSettings::new(TlsState::load(settings)?);
        Ok(Arc::new(ServerTls { state, tried }))
    }

    /// Replaces the whole state. Open connections keep theirs.
    ///
    /// # Errors
    /// Like [`ServerTls::load`]. Nothing changes then.
    pub fn replace(&self, settings: &TlsSettings) -> io::Result<()> {
        let stamps = stamps_of(settings);
        let loaded = TlsState::load(settings);
        // Files of other settings that can't be used are not tried again by themselves.
        if loaded.is_ok() || *settings == self.state().settings {
            *self.tried() = stamps;
        }
        self.state.replace(loaded?);
        Ok(())
    }

    /// Loads the files again if one has changed since the last attempt. Returns whether it did. So
    /// a file that can't be used is reported once, until a file changes again.
    ///
    /// # Errors
    /// Like [`ServerTls::replace`].
    pub fn refresh(&self) -> io::Result<bool> {
        let current = self.state.current();
        if *self.tried() == stamps_of(&current.settings) {
            return Ok(false);
        }
        self.replace(&current.settings).map(|()| true)
    }

    /// The end of the first of its certificates that ends, in seconds since 1970.
    pub fn certificate_end(&self) -> i64 {
        self.state.current().end
    }

    /// The days until the first of its certificates ends, rounded down. Negative after the end.
    /// `now` is in seconds since 1970.
    pub fn certificate_days_left(&self, now: i64) -> i64 {
        self.certificate_end().saturating_sub(now).div_euclid(DAY_S)
    }

    /// Whether every client has a valid certificate.
    pub fn requires_client_certificates(&self) -> bool {
        self.state.current().settings.requires_client_certificates()
    }

    /// The path and the permissions of the private key, when other users can read it.
    pub fn wide_key(&self) -> Option<(String, u32)> {
        let key = &self.state.current().settings.key;
        let mode = fs::metadata(key).ok()?.permissions().mode() & 0o777;
        (mode & WIDE_MODE != 0).then(|| (key.display().to_string(), mode))
    }

    pub(super) fn state(&self) -> Arc<TlsState> {
        self.state.current()
    }

    fn tried(&self) -> std::sync::MutexGuard<'_, Vec<FileStamp>> {
        self.tried.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TlsState {
    fn load(settings: &TlsSettings) -> io::Result<Self> {
        if let problems @ [_, ..] = &settings.problems()[..] {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problems.join("; ")));
        }
        let provider = Arc::new(provider());
        let chain = certificates(&settings.certificate)?;
        let mut end = i64::MAX;
        for certificate in &chain {
            end = end.min(certificate::end(certificate).map_err(|error| at(&settings.certificate, error))?);
        }
        let key = PrivateKeyDer::from_pem_slice(&read(&settings.key)?);
        // The text of an error of the key must not have a part of the key.
        let key = key.map_err(|_| at(&settings.key, "the file has no private key in PEM that can be read"))?;
        let verifier = client_verifier(settings, &provider)?;
        let versions: &[_] = match settings.version_min {
            TlsVersion::Tls12 => &[&TLS13, &TLS12],
            TlsVersion::Tls13 => &[&TLS13],
        };
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .map_err(io::Error::other)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(|error| at(&settings.certificate, format!("with the key {}: {error}", settings.key.display())))?;
        config.max_early_data_size = 0;
        let config_of = |protocol: TlsProtocol| {
            let mut config = config.clone();
            config.alpn_protocols = protocol.negotiated();
            if settings.client_certificates == ClientCertificates::None {
                config.session_storage = ServerSessionMemoryCache::new(SESSIONS_MAX);
                config.ticketer = ticketer()?;
            } else {
                // A resumed session would skip the check of the client's certificate, which may
                // have ended since.
                config.session_storage = Arc::new(NoServerSessionStorage {});
                config.send_tls13_tickets = 0;
            }
            io::Result::Ok(Arc::new(config))
        };
        let configs = ProtocolConfigs {
            cluster: config_of(TlsProtocol::Cluster)?,
            grpc: config_of(TlsProtocol::Grpc)?,
            http: config_of(TlsProtocol::Http)?,
            kafka: config_of(TlsProtocol::Kafka)?,
        };
        Ok(TlsState { configs, settings: settings.clone(), end })
    }

    pub(super) fn config(&self, protocol: TlsProtocol) -> &Arc<ServerConfig> {
        match protocol {
            TlsProtocol::Cluster => &self.configs.cluster,
            TlsProtocol::Grpc => &self.configs.grpc,
            TlsProtocol::Http => &self.configs.http,
            TlsProtocol::Kafka => &self.configs.kafka,
        }
    }

    /// The name that the rules give to the certificate of a client.
    ///
    /// # Errors
    /// When the certificate can't be read.
    pub(super) fn name_of(&self, certificate: &CertificateDer<'_>) -> io::Result<Option<String>> {
        match &self.settings.client_names[..] {
            [] => Ok(None),
            rules => Ok(NameRule::first_match(rules, &certificate::CertificateNames::read(certificate)?)),
        }
    }
}

#[cfg(feature = "aws-lc")]
pub(crate) fn provider() -> CryptoProvider {
    rustls::crypto::aws_lc_rs::default_provider()
}

#[cfg(not(feature = "aws-lc"))]
pub(crate) fn provider() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}

/// Encrypts tickets under keys that rotate: a client resumes a session without a state here.
fn ticketer() -> io::Result<Arc<dyn rustls::server::ProducesTickets>> {
    #[cfg(feature = "aws-lc")]
    let ticketer = rustls::crypto::aws_lc_rs::Ticketer::new();
    #[cfg(not(feature = "aws-lc"))]
    let ticketer = rustls::crypto::ring::Ticketer::new();
    ticketer.map_err(io::Error::other)
}

fn client_verifier(settings: &TlsSettings, provider: &Arc<CryptoProvider>) -> io::Result<Arc<dyn ClientCertVerifier>> {
    let Some(path) =
        settings.client_roots.as_ref().filter(|_| settings.client_certificates != ClientCertificates::None)
    else {
        return Ok(WebPkiClientVerifier::no_client_auth());
    };
    let roots = roots_of(path)?;
    let mut verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    for path in &settings.client_crls {
        let read = read(path)?;
        let lists = CertificateRevocationListDer::pem_slice_iter(&read).collect::<Result<Vec<_>, _>>();
        let lists = lists.map_err(|error| at(path, format!("not PEM: {error}")))?;
        if lists.is_empty() {
            return Err(at(path, "the file has no CRL"));
        }
        verifier = verifier.with_crls(lists);
    }
    verifier = verifier.enforce_revocation_expiration();
    if settings.client_certificates == ClientCertificates::Optional {
        verifier = verifier.allow_unauthenticated();
    }
    verifier.build().map_err(|error| at(path, format!("with its CRLs: {error}")))
}

pub(super) fn roots_of(path: &Path) -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for root in certificates(path)? {
        roots.add(root).map_err(|error| at(path, error))?;
    }
    Ok(roots)
}

pub(super) fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let certificates = CertificateDer::pem_slice_iter(&read(path)?).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| at(path, format!("not PEM: {error}")))?;
    if certificates.is_empty() { Err(at(path, "the file has no certificate")) } else { Ok(certificates) }
}

pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let metadata = fs::metadata(path).map_err(|error| at(path, error))?;
    // A pipe would wait for its other end.
    if !metadata.is_file() {
        return Err(at(path, "not a regular file"));
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err(at(path, format!("the file has {} bytes; the limit is {FILE_BYTES_MAX}", metadata.len())));
    }
    fs::read(path).map_err(|error| at(path, error))
}

pub(super) fn at(path: &Path, error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("can't use {} for TLS: {error}", path.display()))
}
