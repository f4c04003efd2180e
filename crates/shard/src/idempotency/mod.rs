//! Idempotency keys: a commit that is sent again with its key gets its first answer.
//!
//! ```text
//! decide   the key is kept? ── same request ──▶ the first answer, read from the log; nothing is written
//!              │           └── other request ─▶ KeyReused
//!              ▼ no
//!          the models decide ─▶ entry `commit answered`: key, fingerprint, replies ─▶ the same record
//! apply    the key and the place of its entry join the state; keys that the entry forgets leave it
//! ```
//! The state holds no answer: a key costs about 50 bytes of memory, and its answer stays in the
//! log. An entry says until when its key is kept, and which older keys are forgotten. So every
//! replay, in whatever process and with whatever settings, has the same keys.
//!
//! A refused commit stores nothing, and is decided again when it is sent again.

mod answer;
mod entry;
mod fingerprint;
mod keys;
mod refusal;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub(crate) use keys::{IdempotencyKeys, KeyLookup};
pub use refusal::IdempotencyRefusal;

/// Most bytes of a key.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;

/// The key of a commit, by which a second copy of the commit is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdempotencyKey<'k> {
    /// The principal whose key it is; empty for the owner of the database, and while access control
    /// is disabled. Principals have keys of their own: none learns which keys others use.
    pub principal: &'k str,
    /// The key: text of 1 to [`IDEMPOTENCY_KEY_BYTES_MAX`] bytes without control characters.
    pub key: &'k str,
    /// The fingerprint of the request, which tells a second copy from another request.
    pub fingerprint: Fingerprint,
}

/// Between a principal and its key. No key of a client has a control character.
const SEPARATOR: char = '\u{1f}';

impl IdempotencyKey<'_> {
    /// The text by which the key is kept.
    pub(crate) fn kept_text(&self) -> Cow<'_, str> {
        match self.principal {
            "" => Cow::Borrowed(self.key),
            principal => Cow::Owned(format!("{principal}{SEPARATOR}{}", self.key)),
        }
    }
}

/// The fingerprint of a request: equal requests have equal ones, whatever front end they came
/// through. See [`Commands::fingerprint`](crate::Commands::fingerprint).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(pub(crate) u128);

/// The idempotency keys in memory. Some may have expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdempotencyMemory {
    /// The number of keys.
    pub keys: u64,
    /// The bytes of memory that they take.
    pub bytes: u64,
}

/// How long keys are kept, and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdempotencySettings {
    /// How long a key is kept, in milliseconds from its commit.
    pub retention_ms: u64,
    /// Most keys that are kept; at least 1. The oldest one is forgotten first.
    pub keys_max: u32,
}

impl Default for IdempotencySettings {
    fn default() -> Self {
        IdempotencySettings { retention_ms: 24 * 60 * 60 * 1000, keys_max: 1_000_000 }
    }
}
