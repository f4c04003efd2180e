//! The address of a listener of `quire serve`, with or without TLS.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use quire_access::{ListenAddress, ServerTls};

/// The address of a listener. Written as `127.0.0.1:7070`, `unix:/run/quire.sock`,
/// `tls://127.0.0.1:7070` or `plain://127.0.0.1:7070`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServedAddress {
    pub(crate) address: ListenAddress,
    transport: Transport,
}

/// How connections of a listener are protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    /// By TLS on TCP, when the server has a certificate.
    ByCertificate,
    Plain,
    Tls,
    /// By TLS, and every client has a certificate.
    MutualTls,
}

/// The prefix of an address with TLS.
const TLS: &str = "tls://";

/// The prefix of an address without TLS.
const PLAIN: &str = "plain://";

impl ServedAddress {
    /// The TCP address; `None` for a Unix socket.
    pub(crate) fn tcp(&self) -> Option<SocketAddr> {
        self.address.tcp()
    }

    /// The TLS of the listener, if it has TLS.
    ///
    /// # Errors
    /// When the address requires TLS, and the server has no certificate.
    pub(crate) fn tls<'t, T>(&self, of_server: Option<&'t T>) -> Result<Option<&'t T>, String> {
        match self.transport {
            Transport::Plain => Ok(None),
            Transport::ByCertificate => Ok(of_server.filter(|_| self.tcp().is_some())),
            Transport::Tls | Transport::MutualTls if of_server.is_some() => Ok(of_server),
            Transport::Tls | Transport::MutualTls => {
                Err(format!("{self} needs a certificate: give `quire serve` --tls-certificate and --tls-key"))
            }
        }
    }

    /// The address of a listener that runs.
    pub(crate) fn running(address: ListenAddress, tls: Option<&ServerTls>) -> Self {
        let transport = match tls {
            None => Transport::Plain,
            Some(tls) if tls.requires_client_certificates() => Transport::MutualTls,
            Some(_) => Transport::Tls,
        };
        ServedAddress { address, transport }
    }

    /// The URL for programs on this machine, without a path; `None` for a Unix socket.
    pub(crate) fn url(&self) -> Option<String> {
        let address = self.tcp()?;
        let scheme = match self.transport {
            Transport::Plain | Transport::ByCertificate => "http",
            Transport::Tls | Transport::MutualTls => "https",
        };
        Some(match address.ip().is_unspecified() {
            true => format!("{scheme}://localhost:{}", address.port()),
            false => format!("{scheme}://{address}"),
        })
    }

    /// Whether programs on other machines can use the server without credentials.
    pub(crate) fn is_open(&self) -> bool {
        !self.address.is_local() && self.transport != Transport::MutualTls
    }

    /// Whether other machines reach the server without TLS.
    pub(crate) fn is_in_clear(&self) -> bool {
        !self.address.is_local() && matches!(self.transport, Transport::Plain | Transport::ByCertificate)
    }
}

impl FromStr for ServedAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (transport, rest) = match (text.strip_prefix(TLS), text.strip_prefix(PLAIN)) {
            (Some(rest), _) => (Transport::Tls, rest),
            (_, Some(rest)) => (Transport::Plain, rest),
            (None, None) => (Transport::ByCertificate, text),
        };
        let address: ListenAddress = rest.parse()?;
        match (transport, address.tcp()) {
            (Transport::Tls, None) => Err(format!("a Unix socket has no TLS: expected {TLS}HOST:PORT")),
            _ => Ok(ServedAddress { address, transport }),
        }
    }
}

/// `tls://127.0.0.1:7070` with TLS. Other addresses have no prefix.
impl fmt::Display for ServedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(self.transport, Transport::Tls | Transport::MutualTls) {
            f.write_str(TLS)?;
        }
        self.address.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_tls_by_its_prefix_or_by_the_certificate() {
        for (text, with_certificate, without) in [
            ("127.0.0.1:7070", true, Some(false)),
            ("tls://127.0.0.1:7070", true, None),
            ("plain://127.0.0.1:7070", false, Some(false)),
            ("unix:/run/quire.sock", false, Some(false)),
            ("plain://unix:/run/quire.sock", false, Some(false)),
        ] {
            let address: ServedAddress = text.parse().expect(text);
            assert_eq!(address.tls(Some(&())).expect(text).is_some(), with_certificate, "{text}");
            assert_eq!(address.tls::<()>(None).ok().map(|tls| tls.is_some()), without, "{text}");
        }
        let error = "tls://unix:/run/quire.sock".parse::<ServedAddress>().expect_err("a socket");
        assert!(error.contains("a Unix socket has no TLS"), "{error}");
        assert!("tls://".parse::<ServedAddress>().is_err());
        assert_eq!("tls://127.0.0.1:1".parse::<ServedAddress>().expect("valid").to_string(), "tls://127.0.0.1:1");
    }
}
