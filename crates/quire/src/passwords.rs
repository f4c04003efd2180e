//! Passwords of users. The database keeps SCRAM credentials in their place: a copy of them does not
//! let its holder log in.

use hmac::{Hmac, KeyInit, Mac};
use quire_system::{
    Command, KEY_PREFIX, SCRAM_ITERATIONS_MAX, SCRAM_ITERATIONS_MIN, SCRAM_SALT_BYTES, ScramCredential, ScramMechanism,
};
use sha2::{Digest, Sha256, Sha512};

use crate::{AccessControl, Error, ErrorKind, Result};

/// Longest password, in bytes.
pub const PASSWORD_BYTES_MAX: usize = 1_024;

/// The properties of a new password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewPassword<'a> {
    /// The mechanisms that the password works with. Default: all.
    pub mechanisms: &'a [ScramMechanism],
    /// Iterations of PBKDF2, from [`SCRAM_ITERATIONS_MIN`] to [`SCRAM_ITERATIONS_MAX`]. Default:
    /// 4,096, as Kafka's tools have it. A client computes them once for each connection.
    pub iterations: u32,
}

impl Default for NewPassword<'_> {
    fn default() -> Self {
        NewPassword { mechanisms: &ScramMechanism::ALL, iterations: SCRAM_ITERATIONS_MIN }
    }
}

impl AccessControl<'_> {
    /// Gives a user a password, in place of an earlier one. Users without a password need none:
    /// API keys authenticate programs.
    ///
    /// Clients prepare other characters than those of ASCII differently, so a password has
    /// printable ASCII characters only.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::open(directory.path())?;
    /// use quire::NewPassword;
    ///
    /// db.access().create_user("ann", &["reader"])?;
    /// db.access().set_password("ann", "correct horse", NewPassword::default())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// * [`ErrorKind::Invalid`] for a password that is empty, longer than [`PASSWORD_BYTES_MAX`],
    ///   begins as an API key does, or has other characters; for no mechanism, and for a number of
    ///   iterations outside of the limits;
    /// * [`ErrorKind::Refused`] for an unknown user; the errors of a commit.
    pub fn set_password(&self, user: &str, password: &str, new: NewPassword<'_>) -> Result<()> {
        if let Some(problem) = problem_of(password) {
            return Err(Error::new(ErrorKind::Invalid, format!("invalid password: it {problem}")));
        }
        if new.mechanisms.is_empty() {
            return Err(Error::new(ErrorKind::Invalid, "a password needs at least one mechanism"));
        }
        // Computing the keys of any number of iterations could take hours.
        if !(SCRAM_ITERATIONS_MIN..=SCRAM_ITERATIONS_MAX).contains(&new.iterations) {
            let limits = format!("{SCRAM_ITERATIONS_MIN} to {SCRAM_ITERATIONS_MAX}");
            let message = format!("the iterations of a password must be {limits}, got {}", new.iterations);
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let mut credentials = Vec::new();
        for mechanism in ScramMechanism::ALL.into_iter().filter(|mechanism| new.mechanisms.contains(mechanism)) {
            let mut salt = vec![0; SCRAM_SALT_BYTES];
            getrandom::fill(&mut salt).map_err(|error| {
                Error::new(ErrorKind::Io, format!("the system has no random numbers for a salt: {error}"))
            })?;
            credentials.push(scram_credential(mechanism, password, salt, new.iterations));
        }
        // A mechanism without a credential of this password keeps none of an earlier password.
        let others = ScramMechanism::ALL.into_iter().filter(|mechanism| !new.mechanisms.contains(mechanism));
        let drops = others.map(|mechanism| Command::DropScram { user, mechanism });
        let puts = credentials.iter().map(|credential| Command::PutScram { user, credential });
        self.change(&puts.chain(drops).collect::<Vec<_>>()).map(drop)
    }

    /// Drops the password of a user. Returns whether the user had one.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] for an unknown user; the errors of a commit.
    pub fn drop_password(&self, user: &str) -> Result<bool> {
        let drops = ScramMechanism::ALL.map(|mechanism| Command::DropScram { user, mechanism });
        Ok(self.change(&drops)?.iter().any(|reply| reply.is_changed))
    }
}

fn problem_of(password: &str) -> Option<String> {
    if password.is_empty() {
        return Some("is empty".to_owned());
    }
    if password.len() > PASSWORD_BYTES_MAX {
        return Some(format!("has {} bytes, at most {PASSWORD_BYTES_MAX} are allowed", password.len()));
    }
    if password.starts_with(KEY_PREFIX) {
        return Some(format!("begins with {KEY_PREFIX}, as API keys do"));
    }
    let is_printable = password.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    (!is_printable).then(|| "has a character that is not printable ASCII".to_owned())
}

/// Computes the SCRAM credential of a password (RFC 5802, section 3). It takes milliseconds.
pub fn scram_credential(mechanism: ScramMechanism, password: &str, salt: Vec<u8>, iterations: u32) -> ScramCredential {
    let mut salted = vec![0; mechanism.hash_bytes()];
    let password = password.as_bytes();
    match mechanism {
        ScramMechanism::Sha256 => pbkdf2::pbkdf2_hmac::<Sha256>(password, &salt, iterations, &mut salted),
        ScramMechanism::Sha512 => pbkdf2::pbkdf2_hmac::<Sha512>(password, &salt, iterations, &mut salted),
    }
    salted_credential(mechanism, &salted, salt, iterations)
}

/// Computes the SCRAM credential of a password that was salted with `salt` and `iterations`, as
/// Kafka's tools send it.
pub fn salted_credential(mechanism: ScramMechanism, salted: &[u8], salt: Vec<u8>, iterations: u32) -> ScramCredential {
    let (stored_key, server_key) = match mechanism {
        ScramMechanism::Sha256 => keys_of::<Hmac<Sha256>, Sha256>(salted),
        ScramMechanism::Sha512 => keys_of::<Hmac<Sha512>, Sha512>(salted),
    };
    ScramCredential { mechanism, iterations, salt, stored_key, server_key }
}

/// The stored key and the server's key of a salted password.
fn keys_of<M: Mac + KeyInit, H: Digest>(salted: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let key_of = |name: &[u8]| {
        let mut mac = <M as KeyInit>::new_from_slice(salted).expect("HMAC takes keys of any length");
        mac.update(name);
        mac.finalize().into_bytes().to_vec()
    };
    (H::digest(key_of(b"Client Key")).to_vec(), key_of(b"Server Key"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The salt and the password of RFC 7677, section 3.
    #[test]
    fn the_keys_are_those_of_other_implementations() {
        let salt = vec![0x5b, 0x6d, 0x99, 0x68, 0x9d, 0x12, 0x35, 0x8e, 0xec, 0xa0, 0x4b, 0x14, 0x12, 0x36, 0xfa, 0x81];
        let of = |mechanism| scram_credential(mechanism, "pencil", salt.clone(), 4_096);
        let sha256 = of(ScramMechanism::Sha256);
        assert_eq!(hex(&sha256.stored_key), "586e5df283e6dceb5c3e791d8b8528ec191e664045ce971792e2e6b5bb13e2a6");
        assert_eq!(hex(&sha256.server_key), "c1f3cbc1c13a9d35a14c0990eed97629ea225863e566a4314ab99f3f00e5d9d5");
        let sha512 = of(ScramMechanism::Sha512);
        assert_eq!(hex(&sha512.stored_key)[..64], *"e8002e6f7d3ae446119b216933644dc2a2be7869eb918b8459b5e7d7d2ec1260");
        assert_eq!(hex(&sha512.server_key)[..64], *"8d91db6230b5687874fe129bc7206e1858c3ae08e02934f57ac03b6b05a229c4");
    }
}
