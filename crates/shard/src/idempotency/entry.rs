//! The entry that keeps a key, with the answer of its commit.
//!
//! ```text
//! kind 1  commit answered   expires u64 │ kept v │ fingerprint u128 │ key + │ replies…
//! ```
//! `kept` says which keys stay: those of records up to `kept` positions before this one. Older keys
//! are forgotten.

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{Effects, Entry, EntryKind, ModelId, NewEntry, Position, Timestamp};

use super::Fingerprint;

const COMMIT_ANSWERED: EntryKind = EntryKind { model: ModelId::IDEMPOTENCY, kind: 1 };

/// The content of the entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AnsweredCommit<'a> {
    /// The time from which on the key is not kept.
    pub(super) expires: Timestamp,
    /// The position of the oldest record whose key is kept.
    pub(super) kept_from: Position,
    /// The text by which the key is kept.
    pub(super) text: &'a str,
    pub(super) fingerprint: Fingerprint,
    /// The replies, encoded.
    pub(super) answer: &'a [u8],
}

impl<'a> AnsweredCommit<'a> {
    /// Adds the entry to the record that is being put together.
    pub(super) fn push(&self, effects: &mut dyn Effects) {
        let kept = effects.at().position.get() - self.kept_from.get();
        let mut head = Encoder::new();
        head.u64(self.expires.as_micros()).varint(kept);
        head.raw(&self.fingerprint.0.to_le_bytes()).str(self.text);
        let body = &[head.as_slice(), self.answer];
        effects.push(NewEntry { kind: COMMIT_ANSWERED, tags: &[], sequenced: None, body });
    }

    pub(super) fn decode(entry: &Entry<'a>) -> Result<Self, CodecError> {
        if entry.kind != COMMIT_ANSWERED {
            return Err(CodecError { expected: "an answered commit", bytes_left: entry.body.len() });
        }
        let mut from = Decoder::new(entry.body);
        let expires = Timestamp::from_micros(from.u64()?);
        let kept_from = entry.place.position.get().checked_sub(from.varint()?);
        let kept_from = kept_from.ok_or(CodecError { expected: "a position", bytes_left: 0 })?;
        let fingerprint = from.raw(16)?.try_into().expect("sixteen bytes");
        let (fingerprint, text) = (Fingerprint(u128::from_le_bytes(fingerprint)), from.str()?);
        Ok(AnsweredCommit { expires, kept_from: Position::new(kept_from), text, fingerprint, answer: from.rest() })
    }
}
