//! SCRAM credentials (RFC 5802, RFC 7677): what the server keeps instead of a password.

use alloc::vec::Vec;
use core::fmt;

/// The fewest iterations of a credential.
pub const SCRAM_ITERATIONS_MIN: u32 = 4_096;

/// The most iterations of a credential.
pub const SCRAM_ITERATIONS_MAX: u32 = 16_384;

/// Longest salt, in bytes.
pub const SCRAM_SALT_BYTES_MAX: usize = 64;

/// The bytes of a new salt.
pub const SCRAM_SALT_BYTES: usize = 16;

/// The hash of a SCRAM exchange. Its number is part of the file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScramMechanism {
    /// SCRAM-SHA-256.
    Sha256 = 1,
    /// SCRAM-SHA-512.
    Sha512 = 2,
}

impl ScramMechanism {
    /// Every mechanism.
    pub const ALL: [ScramMechanism; 2] = [ScramMechanism::Sha256, ScramMechanism::Sha512];

    /// The name of the mechanism in SASL.
    pub const fn name(self) -> &'static str {
        match self {
            ScramMechanism::Sha256 => "SCRAM-SHA-256",
            ScramMechanism::Sha512 => "SCRAM-SHA-512",
        }
    }

    /// The bytes of a hash.
    pub const fn hash_bytes(self) -> usize {
        match self {
            ScramMechanism::Sha256 => 32,
            ScramMechanism::Sha512 => 64,
        }
    }
}

/// The parts of a credential that a client learns before it has proved its password, without the
/// salt's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScramShape {
    /// Iterations of PBKDF2.
    pub iterations: u32,
    /// The bytes of the salt.
    pub salt_bytes: usize,
}

impl Default for ScramShape {
    fn default() -> Self {
        ScramShape { iterations: SCRAM_ITERATIONS_MIN, salt_bytes: SCRAM_SALT_BYTES }
    }
}

/// Random bytes that stay the same as long as the database. It shows nothing of them.
///
/// Servers make up the salts of users without a password from it. So a made-up salt is the same
/// after a restart, like a real one.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseSecret(pub [u8; 32]);

impl fmt::Debug for DatabaseSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DatabaseSecret")
    }
}

/// A credential of a user for one mechanism. It shows its iterations only.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScramCredential {
    /// The hash.
    pub mechanism: ScramMechanism,
    /// Iterations of PBKDF2, from [`SCRAM_ITERATIONS_MIN`] to [`SCRAM_ITERATIONS_MAX`].
    pub iterations: u32,
    /// The salt, of 1 to [`SCRAM_SALT_BYTES_MAX`] bytes.
    pub salt: Vec<u8>,
    /// The hash of the client's key, as long as the mechanism's hash.
    pub stored_key: Vec<u8>,
    /// The server's key, as long as the mechanism's hash.
    pub server_key: Vec<u8>,
}

impl ScramCredential {
    /// The parts that a client learns before it has proved its password.
    pub(crate) fn shape(&self) -> ScramShape {
        ScramShape { iterations: self.iterations, salt_bytes: self.salt.len() }
    }

    /// Whether iterations and lengths are valid.
    pub(crate) fn is_valid(&self) -> bool {
        let bytes = self.mechanism.hash_bytes();
        (SCRAM_ITERATIONS_MIN..=SCRAM_ITERATIONS_MAX).contains(&self.iterations)
            && (1..=SCRAM_SALT_BYTES_MAX).contains(&self.salt.len())
            && self.stored_key.len() == bytes
            && self.server_key.len() == bytes
    }
}

impl fmt::Debug for ScramCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScramCredential({}, {} iterations)", self.mechanism.name(), self.iterations)
    }
}
