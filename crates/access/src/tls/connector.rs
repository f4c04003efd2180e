//! Connections that a server begins, to other nodes of its cluster.

use std::io;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::{PrivateKeyDer, ServerName, pem::PemObject};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::server::{at, certificates, provider, read, roots_of};
use super::settings::{TlsProtocol, TlsSettings};

/// A byte stream to another node.
pub type PeerStream = Box<dyn PeerBytes>;

/// The bytes of a connection, with or without TLS.
pub trait PeerBytes: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> PeerBytes for S {}

/// Connects to other nodes: over TLS with this server's own certificate, or over TCP alone.
#[derive(Debug, Clone, Default)]
pub struct PeerConnector {
    tls: Option<Arc<ClientConfig>>,
}

impl PeerConnector {
    /// Connects over TCP alone.
    pub fn plain() -> Self {
        PeerConnector::default()
    }

    /// Connects over TLS 1.3. Both sides have a certificate: this one that of the settings, and the
    /// other one a certificate that the roots of the settings have signed for its host.
    ///
    /// # Errors
    /// When the settings have no roots, or a file can't be used. The message names the file.
    pub fn load(settings: &TlsSettings) -> io::Result<Self> {
        let Some(roots) = &settings.client_roots else {
            let why = "nodes know each other by their certificates: name the file of the roots";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        };
        let key = PrivateKeyDer::from_pem_slice(&read(&settings.key)?);
        let key = key.map_err(|_| at(&settings.key, "the file has no private key in PEM that can be read"))?;
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(io::Error::other)?
            .with_root_certificates(roots_of(roots)?)
            .with_client_auth_cert(certificates(&settings.certificate)?, key)
            .map_err(|error| at(&settings.certificate, error))?;
        config.alpn_protocols = TlsProtocol::Cluster.negotiated();
        Ok(PeerConnector { tls: Some(Arc::new(config)) })
    }

    /// Connects to `HOST:PORT`.
    ///
    /// # Errors
    /// Those of the connection and of the handshake.
    pub async fn connect(&self, address: &str) -> io::Result<PeerStream> {
        let stream = TcpStream::connect(address).await?;
        // Frames are written whole. A failure to set the option is harmless.
        let _ = stream.set_nodelay(true);
        let Some(config) = &self.tls else { return Ok(Box::new(stream)) };
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let stream = tokio_rustls::TlsConnector::from(Arc::clone(config)).connect(name, stream).await?;
        Ok(Box::new(stream))
    }
}
