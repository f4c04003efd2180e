//! The settings of TLS, as plain data.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::names::NameRule;

/// The settings of TLS of a server. Every file is in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// The file of the server's certificate, followed by those of its issuers.
    pub certificate: PathBuf,
    /// The file of the private key.
    pub key: PathBuf,
    /// The lowest version that a client may use.
    pub version_min: TlsVersion,
    /// Whether clients have certificates.
    pub client_certificates: ClientCertificates,
    /// The file of the certificates that sign those of clients.
    pub client_roots: Option<PathBuf>,
    /// Files of certificate revocation lists. With at least one, every certificate of a client
    /// needs a list of its issuer, and the list must be fresh.
    pub client_crls: Vec<PathBuf>,
    /// Rules for the names of clients. The first matching rule wins.
    pub client_names: Vec<NameRule>,
}

/// Whether the clients of a listener have certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientCertificates {
    /// None is requested.
    #[default]
    None,
    /// A client may have one. An invalid one is refused.
    Optional,
    /// A client without a valid one is refused. With rules for names, so is one without a name.
    Required,
}

/// A version of TLS. Earlier ones than these are not supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[default]
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// The protocol of a listener, which decides the protocols that TLS negotiates (ALPN).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsProtocol {
    /// gRPC: `h2`, and `http/1.1` for gRPC-Web. A client must name one.
    Grpc,
    /// HTTP: `http/1.1`. A client may name none.
    Http,
    /// The Kafka protocol: a client names none.
    Kafka,
    /// Between nodes of a cluster.
    Cluster,
}

impl ClientCertificates {
    const ALL: [ClientCertificates; 3] =
        [ClientCertificates::None, ClientCertificates::Optional, ClientCertificates::Required];
}

impl fmt::Display for ClientCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ClientCertificates::None => "none",
            ClientCertificates::Optional => "optional",
            ClientCertificates::Required => "required",
        })
    }
}

impl FromStr for ClientCertificates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = ClientCertificates::ALL.into_iter().find(|known| known.to_string() == text);
        known.ok_or_else(|| format!("expected none, optional or required, got {text:?}"))
    }
}

impl fmt::Display for TlsVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TlsVersion::Tls12 => "1.2",
            TlsVersion::Tls13 => "1.3",
        })
    }
}

impl FromStr for TlsVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = [TlsVersion::Tls12, TlsVersion::Tls13].into_iter().find(|known| known.to_string() == text);
        known.ok_or_else(|| format!("expected 1.2 or 1.3, got {text:?}"))
    }
}

impl TlsProtocol {
    /// The protocols that a client may negotiate. Without a common one, the handshake fails.
    /// Kafka's clients negotiate none: a client that offers others is refused.
    pub(super) fn negotiated(self) -> Vec<Vec<u8>> {
        let names: &[&[u8]] = match self {
            TlsProtocol::Grpc => &[b"h2", b"http/1.1"],
            TlsProtocol::Http => &[b"http/1.1"],
            TlsProtocol::Kafka => &[b"kafka"],
            TlsProtocol::Cluster => &[b"quire-cluster"],
        };
        names.iter().map(|name| name.to_vec()).collect()
    }

    /// Whether a client must negotiate one.
    pub(super) fn requires_negotiation(self) -> bool {
        matches!(self, TlsProtocol::Grpc | TlsProtocol::Cluster)
    }
}

impl TlsSettings {
    /// Whether every client must have a certificate.
    pub fn requires_client_certificates(&self) -> bool {
        self.client_certificates == ClientCertificates::Required
    }

    /// Returns every problem of the settings; empty when they are valid. The files are not read.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.client_certificates == ClientCertificates::None {
            let without = [
                ("client roots", self.client_roots.is_some()),
                ("CRLs", !self.client_crls.is_empty()),
                ("rules for client names", !self.client_names.is_empty()),
            ];
            for (setting, _) in without.into_iter().filter(|(_, is_set)| *is_set) {
                problems.push(format!("{setting} have no effect while client certificates are none"));
            }
        } else if self.client_roots.is_none() {
            problems
                .push(format!("client certificates are {}, but client roots are missing", self.client_certificates));
        }
        problems
    }

    /// The files, in the order in which they are read.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        let first = [&self.certificate, &self.key];
        first.into_iter().chain(&self.client_roots).chain(&self.client_crls).map(PathBuf::as_path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_for_clients_needs_client_certificates_and_these_need_roots() {
        let plain = TlsSettings {
            certificate: "c.pem".into(),
            key: "k.pem".into(),
            version_min: TlsVersion::default(),
            client_certificates: ClientCertificates::None,
            client_roots: None,
            client_crls: Vec::new(),
            client_names: Vec::new(),
        };
        assert_eq!(plain.problems(), [""; 0]);
        let required = TlsSettings { client_certificates: ClientCertificates::Required, ..plain.clone() };
        assert_eq!(required.problems(), ["client certificates are required, but client roots are missing"]);
        let names = vec!["cn:{name} => {name}".parse().expect("a rule")];
        let unused = TlsSettings {
            client_roots: Some("r.pem".into()),
            client_crls: vec!["l.pem".into()],
            client_names: names,
            ..plain
        };
        assert_eq!(unused.problems().len(), 3);
        assert_eq!(TlsSettings { client_certificates: ClientCertificates::Optional, ..unused }.problems(), [""; 0]);
    }

    #[test]
    fn certificates_of_clients_and_versions_are_read_as_they_are_written() {
        for known in ClientCertificates::ALL {
            assert_eq!(known.to_string().parse(), Ok(known));
        }
        let error = "maybe".parse::<ClientCertificates>().expect_err("unknown");
        assert_eq!(error, "expected none, optional or required, got \"maybe\"");
        for known in [TlsVersion::Tls12, TlsVersion::Tls13] {
            assert_eq!(known.to_string().parse(), Ok(known));
        }
        assert_eq!("1.1".parse::<TlsVersion>(), Err("expected 1.2 or 1.3, got \"1.1\"".to_owned()));
    }
}
