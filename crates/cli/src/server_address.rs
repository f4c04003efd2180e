//! The value of `--http`: the address of a running server, as a URL or without its scheme.

use std::net::SocketAddr;
use std::str::FromStr;

use quire_access::ListenAddress;

use crate::failure::CommandError;

/// The address of a running server, as a client takes it. Written as `http://127.0.0.1:7070`,
/// `https://db.example:7070`, `127.0.0.1:7070` or `unix:/run/quire.sock`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerAddress(String);

impl ServerAddress {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The variable with the address of the server, for commands that get none.
const VARIABLE: &str = "QUIRE_HTTP";

impl ServerAddress {
    /// The address in the variable `QUIRE_HTTP`.
    ///
    /// # Errors
    /// When the variable has none, or an invalid one.
    pub(crate) fn of_environment() -> Result<Self, CommandError> {
        match std::env::var(VARIABLE) {
            Ok(text) if !text.is_empty() => text.parse().map_err(|problem| {
                CommandError::new(format!("{VARIABLE} is {text:?}, which is not the address of a server: {problem}"))
            }),
            _ => Err(CommandError::Usage(format!(
                "no database was given: give --data DIR or --http URL, or set {VARIABLE} to the URL of a server"
            ))),
        }
    }
}

impl From<SocketAddr> for ServerAddress {
    fn from(address: SocketAddr) -> Self {
        ServerAddress(format!("http://{address}"))
    }
}

impl From<ListenAddress> for ServerAddress {
    fn from(address: ListenAddress) -> Self {
        match address {
            ListenAddress::Tcp(address) => address.into(),
            socket @ ListenAddress::Unix(_) => ServerAddress(socket.to_string()),
        }
    }
}

impl FromStr for ServerAddress {
    type Err = String;

    /// Parses an address. A host name stands for its first address, except in a URL of TLS, whose
    /// certificate has the name.
    fn from_str(text: &str) -> Result<Self, String> {
        let Some((scheme, rest)) = text.split_once("://") else { return Ok(text.parse::<ListenAddress>()?.into()) };
        let scheme = scheme.to_ascii_lowercase();
        if !["http", "https"].contains(&scheme.as_str()) {
            return Err(format!("unknown scheme {scheme:?}: expected http://HOST:PORT"));
        }
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if let Some((authority, _)) = authority.split_once(['/', '?', '#']) {
            return Err(format!("the URL has a path: expected {scheme}://{authority}"));
        }
        if authority.contains('@') {
            return Err("the URL has a user: give an API key in the variable QUIRE_KEY".to_owned());
        }
        let port = authority.rsplit_once(':').map(|(_, port)| port);
        if port.is_none_or(|port| port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit())) {
            return Err(format!("the port is missing: expected {scheme}://{authority}:7070"));
        }
        match scheme.as_str() {
            "https" => Ok(ServerAddress(format!("https://{authority}"))),
            _ => Ok(authority.parse::<ListenAddress>()?.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_with_and_without_its_scheme() {
        let expected = ServerAddress("http://127.0.0.1:7070".to_owned());
        for text in ["127.0.0.1:7070", "http://127.0.0.1:7070", "http://127.0.0.1:7070/", "HTTP://127.0.0.1:7070"] {
            assert_eq!(text.parse(), Ok(expected.clone()), "{text}");
        }
        for text in ["http://[::1]:7070", "unix:/run/quire.sock", "https://localhost:7070"] {
            assert_eq!(text.parse(), Ok(ServerAddress(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn an_invalid_url_names_the_valid_form() {
        for (text, message) in [
            ("https://127.0.0.1", "the port is missing: expected https://127.0.0.1:7070"),
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
