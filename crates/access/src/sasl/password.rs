//! The check of a password that arrived in the clear.
//!
//! A check derives the password once for each mechanism, whatever credentials the user has. So its
//! time does not depend on them, or on whether the user exists.

use std::fmt;
use std::sync::Arc;

use quire::scram_credential;
use quire::system::{Principal, RuleSet, ScramCredential, ScramMechanism};

use super::hashes::is_equal;
use super::secret::SaslSecret;

/// A password to check. It shows nothing of it.
#[derive(PartialEq, Eq)]
pub struct PasswordCheck {
    pub(super) user: String,
    pub(super) password: String,
    /// A credential of each mechanism.
    pub(super) candidates: [PasswordCandidate; 2],
}

/// A credential that the password may have.
#[derive(PartialEq, Eq)]
pub(super) struct PasswordCandidate {
    pub(super) credential: ScramCredential,
    /// Whether the credential is the user's, and not a made-up one.
    pub(super) is_known: bool,
}

impl PasswordCheck {
    /// Checks the password, and returns its principal. The check takes milliseconds, also for an
    /// unknown user.
    pub fn run(&self) -> Option<Principal> {
        self.run_with(scram_credential)
    }

    /// Checks the password with this derivation.
    pub(super) fn run_with(
        &self,
        derive: impl Fn(ScramMechanism, &str, Vec<u8>, u32) -> ScramCredential,
    ) -> Option<Principal> {
        let right = self.candidates.each_ref().map(|PasswordCandidate { credential, is_known }| {
            let ScramCredential { mechanism, iterations, ref salt, ref stored_key, .. } = *credential;
            let computed = derive(mechanism, &self.password, salt.clone(), iterations);
            is_equal(&computed.stored_key, stored_key) & *is_known
        });
        let proved = right.iter().position(|is_right| *is_right)?;
        Some(self.principal(self.candidates[proved].credential.mechanism))
    }

    /// Whether the user still has the same credentials.
    pub(super) fn is_current(&self, rules: &RuleSet) -> bool {
        self.candidates.iter().all(|PasswordCandidate { credential, is_known }| {
            let current = rules.scram(&self.user, credential.mechanism);
            if *is_known { current == Some(credential) } else { current.is_none() }
        })
    }

    /// The principal of a password that is that of this mechanism.
    pub(super) fn principal(&self, mechanism: ScramMechanism) -> Principal {
        let credentials = self.candidates.iter().map(|candidate| &candidate.credential);
        let password = credentials.into_iter().find(|credential| credential.mechanism == mechanism).cloned();
        Principal { password: password.map(Arc::new), ..Principal::named(self.user.as_str()) }
    }

    pub(super) fn name(&self, secret: &SaslSecret) -> [u8; 32] {
        let [first, second] = &self.candidates;
        secret.name_of(&self.user, &self.password, [&first.credential, &second.credential])
    }
}

impl fmt::Debug for PasswordCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordCheck")
    }
}
