//! The value of `--http`: the address of a running server, as a URL or without its scheme.

use std::str::FromStr;

use quire_access::ListenAddress;

/// The address of a running server. Written as `http://127.0.0.1:7070`, `127.0.0.1:7070` or
/// `unix:/run/quire.sock`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerAddress(ListenAddress);

impl From<ServerAddress> for ListenAddress {
    fn from(ServerAddress(address): ServerAddress) -> Self {
        address
    }
}

impl FromStr for ServerAddress {
    type Err = String;

    /// Parses an address. A host name stands for its first address.
    fn from_str(text: &str) -> Result<Self, String> {
        let Some((scheme, rest)) = text.split_once("://") else { return Ok(ServerAddress(text.parse()?)) };
        match scheme.to_ascii_lowercase().as_str() {
            "http" => {}
            "https" => {
                return Err(
                    "https is unavailable: a Quire server has no TLS yet; use http:// in a trusted network, or \
                            through a tunnel"
                        .to_owned(),
                );
            }
            other => return Err(format!("unknown scheme {other:?}: expected http://HOST:PORT")),
        }
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if let Some((authority, _)) = authority.split_once(['/', '?', '#']) {
            return Err(format!("the URL has a path: expected http://{authority}"));
        }
        if authority.contains('@') {
            return Err("the URL has a user: a Quire server has no users; expected http://HOST:PORT".to_owned());
        }
        let port = authority.rsplit_once(':').map(|(_, port)| port);
        if port.is_none_or(|port| port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit())) {
            return Err(format!("the port is missing: expected http://{authority}:7070"));
        }
        Ok(ServerAddress(authority.parse()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_with_and_without_its_scheme() {
        let expected: ListenAddress = "127.0.0.1:7070".parse().expect("an address");
        for text in ["127.0.0.1:7070", "http://127.0.0.1:7070", "http://127.0.0.1:7070/", "HTTP://127.0.0.1:7070"] {
            assert_eq!(text.parse(), Ok(ServerAddress(expected.clone())), "{text}");
        }
        let v6: ListenAddress = "[::1]:7070".parse().expect("an address");
        assert_eq!("http://[::1]:7070".parse(), Ok(ServerAddress(v6)));
        let socket = ListenAddress::Unix("/run/quire.sock".into());
        assert_eq!("unix:/run/quire.sock".parse(), Ok(ServerAddress(socket)));
    }

    #[test]
    fn an_invalid_url_names_the_valid_form() {
        for (text, message) in [
            ("https://127.0.0.1:7070", "has no TLS yet"),
            ("ftp://127.0.0.1:7070", "unknown scheme \"ftp\": expected http://HOST:PORT"),
            ("http://127.0.0.1", "the port is missing: expected http://127.0.0.1:7070"),
            ("http://[::1]", "the port is missing: expected http://[::1]:7070"),
            ("http://127.0.0.1:7070/v1", "the URL has a path: expected http://127.0.0.1:7070"),
            ("http://127.0.0.1:7070?a", "the URL has a path: expected http://127.0.0.1:7070"),
            ("http://me@127.0.0.1:7070", "the URL has a user"),
        ] {
            let error = text.parse::<ServerAddress>().expect_err(text);
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
