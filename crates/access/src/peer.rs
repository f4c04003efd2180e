//! The other end of a connection.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use quire::system::Principal;

use crate::stream::Stream;

/// The other end of a connection, as the operating system and the handshake of TLS report it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// A TCP client.
    Tcp {
        /// The server's address that the client connected to.
        local: SocketAddr,
        /// The client's address.
        remote: SocketAddr,
        /// The result of the handshake; `None` for a connection without TLS.
        tls: Option<TlsPeer>,
    },
    /// A process on this machine, connected to a Unix socket. The ids are those of the moment when
    /// it connected.
    Unix {
        /// The user.
        uid: u32,
        /// The group.
        gid: u32,
        /// The process, where the operating system reports it.
        pid: Option<i32>,
    },
}

/// What the handshake of TLS found out about a client.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsPeer {
    /// The principal with the name that the rules of the listener give to the client's
    /// certificate, which is valid. It expires with the certificate. `None` without a certificate,
    /// without rules, and when no rule matches.
    pub principal: Option<Principal>,
}

/// The clients that one limit covers. For IPv6 this is a network of 64 bits, because a single
/// client usually owns all of its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    Ip(IpAddr),
    User(u32),
}

impl Peer {
    /// A TCP client without TLS.
    pub fn tcp(local: SocketAddr, remote: SocketAddr) -> Self {
        Peer::Tcp { local, remote, tls: None }
    }

    /// Whether the connection has TLS.
    pub fn has_tls(&self) -> bool {
        matches!(self, Peer::Tcp { tls: Some(_), .. })
    }

    /// The name of the client, by its certificate and the rules of the server. `None` without TLS,
    /// without a certificate, and when no rule matches.
    ///
    /// A front end has the peer of each connection: HTTP in its gate, gRPC in the extensions of
    /// each call, Kafka where the connection is established.
    pub fn principal(&self) -> Option<&str> {
        match self {
            Peer::Tcp { tls: Some(tls), .. } => tls.principal.as_ref().map(|principal| &*principal.name),
            _ => None,
        }
    }

    /// The principal that the connection has verified: by the certificate of the client, or by the
    /// operating system. A process of user 1000 on a Unix socket is `uid:1000`.
    pub fn verified(&self) -> Option<Principal> {
        match self {
            Peer::Tcp { tls, .. } => tls.as_ref()?.principal.clone(),
            Peer::Unix { uid, .. } => Some(Principal::named(format!("uid:{uid}"))),
        }
    }

    /// # Errors
    /// When the client has disconnected already.
    pub(crate) fn of(stream: &Stream) -> io::Result<Self> {
        match stream {
            Stream::Tcp(stream) => Ok(Peer::tcp(stream.local_addr()?, stream.peer_addr()?)),
            // A connection has its peer before its handshake.
            Stream::Tls(stream) => Ok(Peer::tcp(stream.socket.0.local_addr()?, stream.socket.0.peer_addr()?)),
            Stream::Unix(stream) => {
                let credentials = stream.peer_cred()?;
                Ok(Peer::Unix { uid: credentials.uid(), gid: credentials.gid(), pid: credentials.pid() })
            }
        }
    }

    /// The address of a TCP client.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Peer::Tcp { remote, .. } => Some(remote.ip()),
            Peer::Unix { .. } => None,
        }
    }

    /// The address of the client without its port, or `uid:1000` for a process on a Unix socket.
    pub fn host(&self) -> String {
        match self {
            Peer::Tcp { remote, .. } => remote.ip().to_canonical().to_string(),
            Peer::Unix { .. } => self.to_string(),
        }
    }

    /// Whether it is on this machine, and connected to an address of this machine only.
    pub fn is_local(&self) -> bool {
        match self {
            Peer::Tcp { local, remote, .. } => {
                local.ip().to_canonical().is_loopback() && remote.ip().to_canonical().is_loopback()
            }
            Peer::Unix { .. } => true,
        }
    }

    /// Whether it may act as the operator of this server before there are administrators: a client
    /// on loopback, and a process of the user that runs this server, or of root, on a Unix socket.
    pub fn is_of_operator(&self) -> bool {
        match self {
            Peer::Tcp { .. } => self.is_local(),
            Peer::Unix { uid, .. } => *uid == 0 || *uid == rustix::process::geteuid().as_raw(),
        }
    }

    pub(crate) fn origin(&self) -> Origin {
        match self {
            Peer::Tcp { remote, .. } => Origin::Ip(match remote.ip().to_canonical() {
                IpAddr::V6(address) if !address.is_loopback() => {
                    IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64))
                }
                address => address,
            }),
            Peer::Unix { uid, .. } => Origin::User(*uid),
        }
    }
}

/// `127.0.0.1:50000`, or `uid:1000` for a Unix socket.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Tcp { remote, .. } => remote.fmt(f),
            Peer::Unix { uid, .. } => write!(f, "uid:{uid}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(remote: &str) -> Origin {
        let local = "[::]:1".parse().expect("an address");
        Peer::tcp(local, remote.parse().expect("an address")).origin()
    }

    #[test]
    fn only_clients_on_loopback_and_unix_sockets_are_local() {
        let peer = |local: &str, remote: &str| {
            Peer::tcp(local.parse().expect("an address"), remote.parse().expect("an address"))
        };
        assert!(peer("127.0.0.1:1", "127.0.0.1:2").is_local());
        assert!(peer("[::ffff:127.0.0.1]:1", "[::ffff:127.0.0.1]:2").is_local());
        assert!(peer("[::1]:1", "[::1]:2").is_local());
        assert!(!peer("192.0.2.7:1", "192.0.2.7:2").is_local());
        assert!(!peer("127.0.0.1:1", "192.0.2.7:2").is_local());
        assert!(Peer::Unix { uid: 0, gid: 0, pid: None }.is_local());
    }

    #[test]
    fn clients_of_one_address_or_network_are_one_origin() {
        assert_eq!(origin("192.0.2.1:1"), origin("192.0.2.1:2"));
        assert_eq!(origin("192.0.2.1:1"), origin("[::ffff:192.0.2.1]:1"));
        assert_ne!(origin("192.0.2.1:1"), origin("192.0.2.2:1"));
        assert_eq!(origin("[2001:db8::1]:1"), origin("[2001:db8::2]:1"));
        assert_ne!(origin("[2001:db8::1]:1"), origin("[2001:db8:0:1::1]:1"));
        assert_ne!(origin("[::1]:1"), origin("[::2]:1"));
    }
}
