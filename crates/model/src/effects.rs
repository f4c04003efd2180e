//! The effects of a decision: the entries of a record under construction.

use crate::codec::Encoder;
use crate::{
    At, ClaimRefusal, Creator, EntryKind, PermissionRefusal, Place, Release, ResourceClaim, Sequence, Tag, Touch,
};

/// An entry that a model adds to the record of the commit being decided.
#[derive(Debug, Clone, Copy)]
pub struct NewEntry<'a> {
    /// The kind of entry.
    pub kind: EntryKind,
    /// Its tags: at most 255, without duplicates. A `sequenced` entry takes its numbers from the
    /// first tag.
    pub tags: &'a [Tag<'a>],
    /// Whether it takes numbers of its first tag.
    pub sequenced: Option<SequenceRequest>,
    /// The body, in pieces that the log joins while it copies them to their place.
    pub body: &'a [&'a [u8]],
}

/// The numbers that an entry takes from its first tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceRequest {
    /// The number of the tag's first item ever: 0 for Kafka offsets, 1 for event positions. The
    /// same for every entry of the tag.
    pub origin: Sequence,
    /// The number of sequences to take; at least 1.
    pub count: u32,
}

/// The end of an entry's body, with its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyChecksum {
    /// The CRC-32C (Castagnoli) of these bytes.
    pub crc32c: u32,
    /// The number of covered bytes, at the end of the body.
    pub bytes: usize,
}

/// The place and sequence that the log gave to an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// Its place: final once the commit is acknowledged, and the source of ids.
    pub place: Place,
    /// Its first number within its first tag, when it takes numbers.
    pub sequence: Option<Sequence>,
}

/// The record under construction. Entries keep the order of the pushes. Readers see none of them
/// before the whole commit is appended, and a refusal discards them all.
pub trait Effects {
    /// The position and time that the record will have.
    fn at(&self) -> At;

    /// Returns the place of the next pushed entry. An entry can therefore carry its own id as a
    /// tag.
    fn next_place(&self) -> Place;

    /// Adds an entry and returns its place.
    ///
    /// The entry's numbers follow those of earlier entries of the same tag, in the log and in this
    /// record. A record that exceeds the log's limit still accepts entries; the commit is then
    /// refused as a whole.
    fn push(&mut self, entry: NewEntry<'_>) -> Placement;

    /// Like [`Effects::push`], for an entry whose body has a checksum that was verified already.
    /// The log stores the checksum and may use it instead of computing one, so it must be right.
    ///
    /// The default pushes the entry without the checksum.
    fn push_covered(&mut self, entry: NewEntry<'_>, covered: BodyChecksum) -> Placement {
        let _ = covered;
        self.push(entry)
    }

    /// Takes something that the database has a limited number of, before the entry is pushed that
    /// needs it. What knows no limits grants it.
    ///
    /// # Errors
    /// The refusal of the command.
    fn claim(&mut self, claim: ResourceClaim<'_>) -> Result<(), ClaimRefusal> {
        let _ = claim;
        Ok(())
    }

    /// Whether the client of the commit may touch this. Only a command whose refusal does not
    /// refuse the commit asks: all others were checked before the decision. What knows no rules
    /// permits everything.
    ///
    /// # Errors
    /// The missing permission; `None` in place of it when the client may not know that the object
    /// exists.
    fn permit(&self, touch: Touch<'_>) -> Result<(), Option<PermissionRefusal>> {
        let _ = touch;
        Ok(())
    }

    /// The client of the commit, as the creator of work that runs later. `None` for the owner of
    /// the database and for a client without a principal, whose work is not checked.
    fn creator(&self) -> Option<Creator> {
        None
    }

    /// Whether the creator of work has any rights now: it is no user that was dropped or disabled.
    fn admits(&self, creator: &Creator) -> bool {
        let _ = creator;
        true
    }

    /// Whether the creator of work that runs in this commit may touch this now.
    ///
    /// # Errors
    /// As [`Effects::permit`].
    fn permit_creator(&self, creator: &Creator, touch: Touch<'_>) -> Result<(), Option<PermissionRefusal>> {
        let _ = (creator, touch);
        Ok(())
    }

    /// Gives back something that the commit deletes. What knows no limits ignores it.
    fn release(&mut self, release: Release<'_>) {
        let _ = release;
    }

    /// Returns an empty encoder for the next entry, often with memory that an earlier decision
    /// [returned](Effects::keep).
    fn scratch(&mut self) -> Encoder {
        Encoder::new()
    }

    /// Takes an encoder that is no longer needed, for its memory. What keeps nothing drops it.
    fn keep(&mut self, scratch: Encoder) {
        drop(scratch);
    }
}
