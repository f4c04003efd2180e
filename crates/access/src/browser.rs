//! The rules for browsers that HTTP and gRPC-Web share: no page of another site uses a server.
//!
//! A browser sends requests for every page that a person visits, also to this machine.
//!
//! * `Host` names this server. A name that an attacker points at this address (DNS rebinding) is
//!   refused.
//! * `Origin` is this server, or an allowed one.

use std::net::IpAddr;

use crate::peer::Peer;

/// The port of a `Host` without one, for `http` and for `https`.
const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;

/// Why a `Host` is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostProblem {
    /// It is not `HOST` or `HOST:PORT`.
    Invalid,
    /// It is not a name of this server.
    Unknown,
}

/// Checks that a `Host` names the server that `peer` is connected to: by a loopback address, by
/// `localhost`, by the address that the client connected to, or by one of `names`.
///
/// # Errors
/// When it does not.
pub fn check_host(names: &[String], peer: &Peer, host: &str) -> Result<(), HostProblem> {
    let (name, port) = split_host(host).ok_or(HostProblem::Invalid)?;
    let is_known = match peer {
        // No browser reaches a Unix socket.
        Peer::Unix { .. } => true,
        Peer::Tcp { local, .. } => {
            let is_own = match name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
                Ok(ip) => ip.is_loopback() || ip == local.ip().to_canonical(),
                Err(_) => name.eq_ignore_ascii_case("localhost"),
            };
            let default = if peer.has_tls() { HTTPS_PORT } else { HTTP_PORT };
            is_own && port.unwrap_or(default) == local.port()
        }
    };
    let is_configured = |known: &String| known.eq_ignore_ascii_case(host) || known.eq_ignore_ascii_case(name);
    if is_known || names.iter().any(is_configured) { Ok(()) } else { Err(HostProblem::Unknown) }
}

/// Whether an `Origin` is the server that `host` names.
pub fn is_own_origin(origin: &str, host: &str) -> bool {
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

/// Whether an `Origin` is one of the allowed ones.
pub fn is_allowed_origin(allowed: &[String], origin: &str) -> bool {
    allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin))
}

/// Splits `HOST` or `HOST:PORT`.
fn split_host(host: &str) -> Option<(&str, Option<u16>)> {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port.parse().ok()?)),
        _ => (host, None),
    };
    let is_address = name.starts_with('[') && name.ends_with(']');
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_valid = !name.is_empty() && (is_address || name.bytes().all(is_name));
    is_valid.then_some((name, port))
}

/// The problem of a configured host; `None` when it is valid.
pub fn problem_of_host(host: &str) -> Option<String> {
    split_host(host).is_none().then(|| format!("a host must be HOST or HOST:PORT, got {host:?}"))
}

/// The problem of an allowed origin; `None` when it is valid.
pub fn problem_of_origin(origin: &str) -> Option<String> {
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    let is_valid = authority.is_some_and(|authority| split_host(authority).is_some());
    (!is_valid).then(|| format!("an origin must be http://HOST or https://HOST, with its port, got {origin:?}"))
}
