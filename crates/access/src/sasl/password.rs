//! The check of a password that arrived in the clear.

use std::fmt;

use quire::scram_credential;
use quire::system::{Principal, ScramCredential};

use super::hashes::is_equal;
use super::secret::SaslSecret;

/// A password to check. It shows nothing of it.
#[derive(PartialEq, Eq)]
pub struct PasswordCheck {
    pub(super) user: String,
    pub(super) password: String,
    /// Whether the credential is the user's, and not a made-up one.
    pub(super) is_known: bool,
    pub(super) credential: ScramCredential,
}

impl PasswordCheck {
    /// Checks the password, and returns its principal. The check takes milliseconds, also for an
    /// unknown user.
    pub fn run(&self) -> Option<Principal> {
        let ScramCredential { mechanism, iterations, ref salt, ref stored_key, .. } = self.credential;
        let computed = scram_credential(mechanism, &self.password, salt.clone(), iterations);
        let is_right = is_equal(&computed.stored_key, stored_key);
        (is_right && self.is_known).then(|| self.principal())
    }

    pub(super) fn principal(&self) -> Principal {
        Principal { name: self.user.as_str().into(), key: None, expires: None }
    }

    pub(super) fn name(&self, secret: &SaslSecret) -> [u8; 32] {
        secret.name_of(&self.user, &self.password, &self.credential)
    }
}

impl fmt::Debug for PasswordCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordCheck")
    }
}
