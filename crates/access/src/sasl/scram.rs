//! The server's side of SCRAM (RFC 5802).
//!
//! ```text
//! client-first  n,,n=user,r=<client's nonce>
//! server-first  r=<client's nonce><server's nonce>,s=<salt>,i=<iterations>
//! client-final  c=biws,r=<both nonces>,p=<proof>
//! server-final  v=<signature>
//! ```
//!
//! The server computes three HMACs and a hash, and no PBKDF2.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use quire::system::{Principal, ScramCredential, ScramMechanism};

use super::exchange::{Credentials, NONCE_BYTES, SaslFailure, SaslStep};
use super::hashes::{hash, hmac, is_equal};
use super::scram_message::{ClientFinal, ClientFirst};

/// A SCRAM exchange that has not ended. It shows its mechanism only.
pub(super) struct ScramExchange {
    mechanism: ScramMechanism,
    nonce: String,
    /// After the first message of the client.
    challenged: Option<SentChallenge>,
}

/// The facts of the first two messages.
struct SentChallenge {
    /// The header of the first message: whether the client supports channel binding.
    header: String,
    user: String,
    credential: ScramCredential,
    /// Whether the credential is the user's, and not a made-up one.
    is_known: bool,
    /// The nonces of both sides.
    nonces: String,
    /// The messages as proof and signature cover them.
    messages: String,
}

impl ScramExchange {
    pub(super) fn new(mechanism: ScramMechanism, nonce: [u8; NONCE_BYTES]) -> Self {
        ScramExchange::with_nonce(mechanism, STANDARD.encode(nonce))
    }

    pub(super) fn with_nonce(mechanism: ScramMechanism, nonce: String) -> Self {
        ScramExchange { mechanism, nonce, challenged: None }
    }

    /// The user that the client named, once it was challenged.
    pub(super) fn user(&self) -> Option<&str> {
        self.challenged.as_ref().map(|challenged| challenged.user.as_str())
    }

    pub(super) fn answer(&mut self, message: &str, with: Credentials<'_>) -> Result<SaslStep, SaslFailure> {
        match self.challenged.take() {
            None => self.challenge(ClientFirst::parse(message).ok_or(SaslFailure)?, with),
            Some(challenged) => challenged.finish(&ClientFinal::parse(message).ok_or(SaslFailure)?, with),
        }
    }

    fn challenge(&mut self, first: ClientFirst<'_>, with: Credentials<'_>) -> Result<SaslStep, SaslFailure> {
        let ClientFirst { header, bare, user, nonce } = first;
        // Made up also for a known user: both take the same time.
        let made_up = with.secret.made_up_credential(with.rules, &user, self.mechanism);
        let known = with.rules.scram(&user, self.mechanism);
        let (is_known, credential) = (known.is_some(), known.cloned().unwrap_or(made_up));
        let nonces = format!("{nonce}{}", self.nonce);
        let salt = STANDARD.encode(&credential.salt);
        let challenge = format!("r={nonces},s={salt},i={}", credential.iterations);
        let (header, messages) = (header.to_owned(), format!("{bare},{challenge}"));
        self.challenged = Some(SentChallenge { header, user, credential, is_known, nonces, messages });
        Ok(SaslStep::Challenge(challenge.into_bytes()))
    }
}

impl fmt::Debug for ScramExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScramExchange({})", self.mechanism.name())
    }
}

impl SentChallenge {
    fn finish(self, last: &ClientFinal<'_>, with: Credentials<'_>) -> Result<SaslStep, SaslFailure> {
        let ScramCredential { mechanism, ref stored_key, ref server_key, .. } = self.credential;
        if last.binding != self.header.as_bytes() || last.nonces != self.nonces {
            return Err(SaslFailure);
        }
        let messages = [self.messages.as_bytes(), b",", last.without_proof.as_bytes()];
        let signature = hmac(mechanism, stored_key, &messages);
        if last.proof.len() != signature.len() {
            return Err(SaslFailure);
        }
        let client_key: Vec<u8> = last.proof.iter().zip(&signature).map(|(proof, byte)| proof ^ byte).collect();
        let is_right = is_equal(&hash(mechanism, &client_key), stored_key);
        let server_signature = hmac(mechanism, server_key, &messages);
        // The user may have been dropped or disabled, or got another password, since the challenge.
        let is_current = with.rules.scram(&self.user, mechanism) == Some(&self.credential);
        if !(is_right && self.is_known && is_current) {
            return Err(SaslFailure);
        }
        let principal = Principal { password: Some(Arc::new(self.credential)), ..Principal::named(self.user) };
        let message = format!("v={}", STANDARD.encode(server_signature)).into_bytes();
        Ok(SaslStep::Authenticated { principal, message })
    }
}
