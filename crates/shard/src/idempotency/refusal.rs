//! Why a commit is refused on account of its idempotency key.

use std::fmt;

use quire_model::Position;

use super::IDEMPOTENCY_KEY_BYTES_MAX;

/// Why a commit is refused on account of its idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdempotencyRefusal {
    /// Another request had the key. Give each request a key of its own.
    KeyReused {
        /// The key.
        key: Box<str>,
        /// The position of the commit that has the key.
        position: Position,
    },
    /// Text that cannot be a key.
    InvalidKey {
        /// The beginning of the text.
        key: Box<str>,
        /// The length of the text, in bytes.
        bytes: usize,
    },
}

impl IdempotencyRefusal {
    /// Checks the form of a key.
    pub(super) fn check(key: &str) -> Result<(), Self> {
        let is_valid = (1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&key.len()) && !key.chars().any(char::is_control);
        if is_valid {
            return Ok(());
        }
        let end = (0..=key.len().min(IDEMPOTENCY_KEY_BYTES_MAX)).rev().find(|end| key.is_char_boundary(*end));
        Err(IdempotencyRefusal::InvalidKey { key: key[..end.unwrap_or(0)].into(), bytes: key.len() })
    }
}

impl fmt::Display for IdempotencyRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IdempotencyRefusal::KeyReused { key, position } => write!(
                f,
                "idempotency key {key:?} already exists: commit {position} has it, for another request; use a new key \
                 for each request"
            ),
            IdempotencyRefusal::InvalidKey { key, bytes } => write!(
                f,
                "invalid idempotency key {key:?} of {bytes} bytes: use 1 to {IDEMPOTENCY_KEY_BYTES_MAX} bytes without \
                 control characters"
            ),
        }
    }
}

impl std::error::Error for IdempotencyRefusal {}
