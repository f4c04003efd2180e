//! What clients present, and why they are refused.

use std::fmt;

use quire::system::{KEY_PREFIX, Principal};

/// What a client presents. It does not show a key.
#[derive(Clone)]
pub enum Credential<'c> {
    /// Nothing.
    Absent,
    /// The text of an API key, or of a token.
    Key(&'c str),
    /// A principal that the server has authenticated: a user by a key or a password, or the
    /// principal of a token.
    Authenticated(&'c Principal),
    /// A principal that the connection has verified, by a client certificate or by the credentials
    /// of a Unix socket. It may be a user or have rules only.
    Verified(&'c Principal),
}

impl Credential<'_> {
    /// The kind, as audit events have it.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Credential::Absent => "none",
            Credential::Key(text) if !text.starts_with(KEY_PREFIX) => "token",
            // A node forwards the key that it has authenticated.
            Credential::Key(_)
            | Credential::Authenticated(Principal { key: Some(_), .. })
            | Credential::Verified(Principal { key: Some(_), .. }) => "api_key",
            Credential::Authenticated(Principal { password: Some(_), .. }) => "password",
            Credential::Authenticated(_) => "token",
            Credential::Verified(Principal { expires: Some(_), .. }) => "certificate",
            Credential::Verified(_) => "unix_socket",
        }
    }
}

impl fmt::Debug for Credential<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Credential::Absent => f.write_str("Absent"),
            Credential::Key(_) => f.write_str("Key"),
            Credential::Authenticated(principal) => write!(f, "Authenticated({:?})", principal.name),
            Credential::Verified(principal) => write!(f, "Verified({:?})", principal.name),
        }
    }
}

/// Why a client has no session. Clients get the same answer for every wrong credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthenticationError {
    /// Access control is enabled, and the client presented no credential.
    Missing,
    /// The credential is unknown, wrong, expired or disabled.
    Wrong,
}

impl fmt::Display for AuthenticationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AuthenticationError::Missing => "the request has no credential: send an API key",
            AuthenticationError::Wrong => "the credential is not valid: it is unknown, wrong, expired or disabled",
        })
    }
}

impl std::error::Error for AuthenticationError {}
