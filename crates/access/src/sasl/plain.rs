//! PLAIN (RFC 4616): `[authorization id] NUL user NUL password`.
//!
//! The password is an API key, or the password of a user. The user of an API key is the key's id or
//! the name of the user that the key belongs to. A password never begins as a key does, so that a
//! mistyped key costs no check of a password.

use quire::system::{KEY_PREFIX, KeyText, ScramMechanism, SecretHash};
use sha2::{Digest, Sha256};

use super::exchange::{Credentials, SaslFailure, SaslStep};
use super::password::{PasswordCandidate, PasswordCheck};

/// The user that a message names.
pub(super) fn user_of(message: &[u8]) -> Option<&str> {
    let user = message.split(|byte| *byte == 0).nth(1)?;
    std::str::from_utf8(user).ok().filter(|user| !user.is_empty())
}

pub(super) fn answer(message: &str, with: Credentials<'_>) -> Result<SaslStep, SaslFailure> {
    let mut parts = message.split('\0');
    let (Some(acts_as), Some(user), Some(password), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(SaslFailure);
    };
    if user.is_empty() || password.is_empty() || !(acts_as.is_empty() || acts_as == user) {
        return Err(SaslFailure);
    }
    if password.starts_with(KEY_PREFIX) { of_key(user, password, with) } else { Ok(of_password(user, password, with)) }
}

fn of_key(user: &str, text: &str, with: Credentials<'_>) -> Result<SaslStep, SaslFailure> {
    let key = KeyText::parse(text).map_err(|_| SaslFailure)?;
    let hash = SecretHash(Sha256::digest(key.secret()).into());
    let principal = with.rules.verify_key(key.id(), hash, with.now).ok_or(SaslFailure)?;
    if user != key.id().as_str() && user != &*principal.name {
        return Err(SaslFailure);
    }
    Ok(SaslStep::Authenticated { principal, message: Vec::new() })
}

fn of_password(user: &str, password: &str, with: Credentials<'_>) -> SaslStep {
    let candidates = ScramMechanism::ALL.map(|mechanism| {
        let made_up = with.secret.made_up_credential(with.rules, user, mechanism);
        let known = with.rules.scram(user, mechanism);
        PasswordCandidate { is_known: known.is_some(), credential: known.cloned().unwrap_or(made_up) }
    });
    SaslStep::Password(PasswordCheck { user: user.to_owned(), password: password.to_owned(), candidates })
}
