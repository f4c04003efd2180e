//! The address of a listener: a TCP address, or the path of a Unix socket.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

/// The prefix of a Unix socket's address, before its path.
const UNIX: &str = "unix:";

/// The address of a listener. Written as `127.0.0.1:7070`, `localhost:7070` or
/// `unix:/run/quire.sock`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// A TCP address; port 0 selects a free port.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl ListenAddress {
    /// Returns the TCP address; `None` for a Unix socket.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            ListenAddress::Tcp(address) => Some(*address),
            ListenAddress::Unix(_) => None,
        }
    }

    /// Whether only programs on this machine can connect.
    pub fn is_local(&self) -> bool {
        self.tcp().is_none_or(|address| address.ip().to_canonical().is_loopback())
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        ListenAddress::Tcp(address)
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    /// Parses an address. A host name, such as `localhost`, resolves to its first address.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix(UNIX) {
            Some("") => Err(format!("the path is missing: expected {UNIX}PATH")),
            Some(path) => Ok(ListenAddress::Unix(path.into())),
            None => {
                let invalid = |error| format!("{error}: expected HOST:PORT, like 127.0.0.1:7070, or {UNIX}PATH");
                let mut addresses = text.to_socket_addrs().map_err(invalid)?;
                addresses.next().map(ListenAddress::Tcp).ok_or_else(|| "the name has no address".to_owned())
            }
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Tcp(address) => address.fmt(f),
            ListenAddress::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_is_written() {
        for text in ["127.0.0.1:7070", "[::1]:7070", "unix:/run/quire.sock", "unix:quire.sock"] {
            assert_eq!(text.parse::<ListenAddress>().expect("an address").to_string(), text);
        }
        assert_eq!("unix:".parse::<ListenAddress>(), Err("the path is missing: expected unix:PATH".to_owned()));
        assert!("127.0.0.1".parse::<ListenAddress>().is_err());
    }

    #[test]
    fn loopback_and_unix_sockets_are_local() {
        let is_local = |text: &str| text.parse::<ListenAddress>().expect("an address").is_local();
        assert!(is_local("127.0.0.1:1") && is_local("[::1]:1") && is_local("unix:/run/quire.sock"));
        assert!(!is_local("0.0.0.0:1") && !is_local("192.168.1.5:1"));
    }
}
