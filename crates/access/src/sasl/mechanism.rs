//! The mechanisms and their names.

use quire::system::ScramMechanism;

/// A mechanism of SASL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaslMechanism {
    /// PLAIN (RFC 4616): a user or a key's id, and an API key or a password, in the clear.
    Plain,
    /// SCRAM (RFC 5802, RFC 7677): client and server prove that they know the password.
    Scram(ScramMechanism),
    /// OAUTHBEARER (RFC 7628): a token of an OpenID provider, in the clear.
    OauthBearer,
}

impl SaslMechanism {
    /// Every mechanism, in the order in which they are offered.
    pub const ALL: [SaslMechanism; 4] = [
        SaslMechanism::Plain,
        SaslMechanism::Scram(ScramMechanism::Sha256),
        SaslMechanism::Scram(ScramMechanism::Sha512),
        SaslMechanism::OauthBearer,
    ];

    /// The registered name.
    pub const fn name(self) -> &'static str {
        match self {
            SaslMechanism::Plain => "PLAIN",
            SaslMechanism::Scram(mechanism) => mechanism.name(),
            SaslMechanism::OauthBearer => "OAUTHBEARER",
        }
    }

    /// The mechanism of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        SaslMechanism::ALL.into_iter().find(|mechanism| mechanism.name() == name)
    }
}
