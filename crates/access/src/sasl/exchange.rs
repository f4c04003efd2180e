//! The exchange of one connection, without input or output.

use std::fmt;
use std::sync::Arc;

use quire::Timestamp;
use quire::system::{Principal, RuleSet};

use super::password::PasswordCheck;
use super::scram::ScramExchange;
use super::secret::SaslSecret;
use super::{SaslMechanism, oauth_bearer, plain};
use crate::oidc::TokenVerifier;

/// Longest message of a client without a token, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 4_096;

/// The random bytes of a server's nonce.
pub(super) const NONCE_BYTES: usize = 24;

/// An exchange of SASL, from the choice of the mechanism to its end.
#[derive(Debug)]
pub struct SaslExchange(ExchangeState);

#[derive(Debug)]
enum ExchangeState {
    Plain,
    Scram(Box<ScramExchange>),
    /// `None` where no token is accepted.
    OauthBearer(Option<Arc<TokenVerifier>>),
    /// The client has the reason why it is not authenticated.
    Refused,
    /// The client was authenticated, or failed.
    Ended,
}

/// The response to a message of the client. It shows no message.
#[derive(PartialEq, Eq)]
pub enum SaslStep {
    /// Send this message. The client answers it.
    Challenge(Vec<u8>),
    /// The client is authenticated. Send it this message with the success.
    Authenticated {
        /// The principal.
        principal: Principal,
        /// The last message of the mechanism.
        message: Vec<u8>,
    },
    /// The client has sent a password. Its check takes milliseconds.
    Password(PasswordCheck),
    /// The client is not authenticated. Send it this message. It answers, and fails then.
    Refused(Vec<u8>),
}

/// The client is not authenticated. It does not report the step that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SaslFailure;

/// The state that a message is checked against.
#[derive(Debug, Clone, Copy)]
pub(super) struct Credentials<'a> {
    pub(super) rules: &'a RuleSet,
    pub(super) now: Timestamp,
    pub(super) secret: &'a SaslSecret,
}

impl SaslExchange {
    /// Begins an exchange. `nonce` must be random.
    pub fn new(mechanism: SaslMechanism, nonce: [u8; NONCE_BYTES]) -> Self {
        SaslExchange(match mechanism {
            SaslMechanism::Plain => ExchangeState::Plain,
            SaslMechanism::Scram(mechanism) => ExchangeState::Scram(Box::new(ScramExchange::new(mechanism, nonce))),
            SaslMechanism::OauthBearer => ExchangeState::OauthBearer(None),
        })
    }

    /// Accepts these tokens, if the mechanism has tokens.
    #[must_use]
    pub fn with_tokens(self, tokens: Arc<TokenVerifier>) -> Self {
        match self.0 {
            ExchangeState::OauthBearer(_) => SaslExchange(ExchangeState::OauthBearer(Some(tokens))),
            state => SaslExchange(state),
        }
    }

    /// Whether the client has the reason why it is not authenticated, and has not answered it yet.
    pub fn is_refused(&self) -> bool {
        matches!(self.0, ExchangeState::Refused)
    }

    /// An exchange of SCRAM with a chosen nonce, for the exchanges in the RFCs.
    #[cfg(test)]
    pub(super) fn with_nonce(mechanism: quire::system::ScramMechanism, nonce: &str) -> Self {
        SaslExchange(ExchangeState::Scram(Box::new(ScramExchange::with_nonce(mechanism, nonce.to_owned()))))
    }

    /// Whether the response to the next message says if the client is authenticated. Otherwise it
    /// is a challenge, unless the message is malformed.
    pub(super) fn decides(&self) -> bool {
        match &self.0 {
            ExchangeState::Plain | ExchangeState::OauthBearer(_) | ExchangeState::Refused | ExchangeState::Ended => {
                true
            }
            ExchangeState::Scram(scram) => scram.user().is_some(),
        }
    }

    /// The user whose credential the next message presents, if it decides.
    pub(super) fn user<'e>(&'e self, message: &'e [u8]) -> Option<&'e str> {
        match &self.0 {
            ExchangeState::Plain => plain::user_of(message),
            ExchangeState::Scram(scram) => scram.user(),
            ExchangeState::OauthBearer(_) | ExchangeState::Refused | ExchangeState::Ended => None,
        }
    }

    /// Answers the next message of the client, with the rules as they are at `now`.
    ///
    /// # Errors
    /// [`SaslFailure`]: the exchange has ended.
    pub fn answer(
        &mut self,
        message: &[u8],
        rules: &RuleSet,
        now: Timestamp,
        secret: &SaslSecret,
    ) -> Result<SaslStep, SaslFailure> {
        let with = Credentials { rules, now, secret };
        let state = std::mem::replace(&mut self.0, ExchangeState::Ended);
        let bytes_max = match state {
            ExchangeState::OauthBearer(_) => oauth_bearer::MESSAGE_BYTES_MAX,
            _ => MESSAGE_BYTES_MAX,
        };
        if message.len() > bytes_max {
            return Err(SaslFailure);
        }
        let text = std::str::from_utf8(message).map_err(|_| SaslFailure)?;
        match state {
            ExchangeState::Plain => plain::answer(text, with),
            ExchangeState::Scram(mut scram) => {
                let step = scram.answer(text, with)?;
                if matches!(step, SaslStep::Challenge(_)) {
                    self.0 = ExchangeState::Scram(scram);
                }
                Ok(step)
            }
            ExchangeState::OauthBearer(tokens) => {
                let step = oauth_bearer::answer(text, tokens.as_deref(), with)?;
                if matches!(step, SaslStep::Refused(_)) {
                    self.0 = ExchangeState::Refused;
                }
                Ok(step)
            }
            ExchangeState::Refused | ExchangeState::Ended => Err(SaslFailure),
        }
    }
}

impl fmt::Debug for SaslStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SaslStep::Challenge(_) => f.write_str("Challenge"),
            SaslStep::Authenticated { principal, .. } => write!(f, "Authenticated({:?})", principal.name),
            SaslStep::Password(_) => f.write_str("Password"),
            SaslStep::Refused(_) => f.write_str("Refused"),
        }
    }
}

impl fmt::Display for SaslFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("authentication failed: unknown user, or invalid API key, password or token")
    }
}

impl std::error::Error for SaslFailure {}
