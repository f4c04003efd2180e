//! The secret of a database: it makes up credentials of users that have none, and names checked
//! passwords.

use std::fmt;

use quire::system::{RuleSet, ScramCredential, ScramMechanism};

use super::hashes::hmac;

/// Random bytes that no client learns, and that stay the same after a restart; see the module.
#[derive(Clone)]
pub struct SaslSecret([u8; 32]);

impl SaslSecret {
    /// A secret of these random bytes.
    pub const fn new(random: [u8; 32]) -> Self {
        SaslSecret(random)
    }

    /// The credential of a user that has none: always the same salt, of the usual length, and keys
    /// that no password has.
    pub(super) fn made_up_credential(&self, rules: &RuleSet, user: &str, mechanism: ScramMechanism) -> ScramCredential {
        let shape = rules.usual_scram(mechanism);
        let parts = [b"salt ", mechanism.name().as_bytes(), b" ", user.as_bytes()];
        let mut salt = hmac(ScramMechanism::Sha512, &self.0, &parts);
        salt.truncate(shape.salt_bytes);
        let key = vec![0; mechanism.hash_bytes()];
        ScramCredential { mechanism, iterations: shape.iterations, salt, stored_key: key.clone(), server_key: key }
    }

    /// The name of a password in the set of checked passwords. Another user, password or credential
    /// has another name.
    pub(super) fn name_of(&self, user: &str, password: &str, credentials: [&ScramCredential; 2]) -> [u8; 32] {
        let lengths = [user.len(), password.len()].map(|bytes| (bytes as u64).to_le_bytes());
        let [first, second] = credentials.map(|credential| credential.stored_key.as_slice());
        let credentials = [first, second].concat();
        let parts = [&b"password"[..], &lengths[0], &lengths[1], user.as_bytes(), password.as_bytes(), &credentials];
        hmac(ScramMechanism::Sha256, &self.0, &parts).try_into().expect("a hash of 32 bytes")
    }
}

impl fmt::Debug for SaslSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SaslSecret")
    }
}
