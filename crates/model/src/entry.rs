//! An entry as it is read back: one part of a commit, borrowed from the log.

use alloc::vec::Vec;
use core::fmt;

use crate::{Place, Sequence, Tag, Timestamp};

/// The model that made an entry or a tag. The numbers are part of the file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelId(u8);

impl ModelId {
    /// Streams: topics, partitions, consumer groups.
    pub const STREAMS: ModelId = ModelId(1);
    /// Events: stores with dynamic consistency boundaries.
    pub const EVENTS: ModelId = ModelId(2);
    /// Jobs: queues with leases.
    pub const JOBS: ModelId = ModelId(3);
    /// Graphs: blocks and edges.
    pub const GRAPH: ModelId = ModelId(4);
    /// Idempotency keys, with the answers of their commits.
    pub const IDEMPOTENCY: ModelId = ModelId(5);
    /// System: principals, credentials, roles and access rules.
    pub const SYSTEM: ModelId = ModelId(6);

    /// The model with this number.
    pub const fn new(number: u8) -> Self {
        ModelId(number)
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// The kind of an entry: its model, and the model's own number for the kind of effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryKind {
    /// The model that made the entry and applies it.
    pub model: ModelId,
    /// The model's number for what happened. Part of the file format: numbers are never reused.
    pub kind: u8,
}

/// One entry of a record.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    /// Its place in the log.
    pub place: Place,
    /// The time of its record.
    pub time: Timestamp,
    /// The kind of entry.
    pub kind: EntryKind,
    /// Its first number within its first tag; `None` when the entry takes no numbers.
    pub sequence: Option<Sequence>,
    /// The number of sequences that it takes of its first tag: 0 when `sequence` is `None`.
    pub count: u32,
    /// Its tags, in the order in which they were given.
    pub tags: Tags<'a>,
    /// The bytes that the model wrote.
    pub body: &'a [u8],
}

impl Entry<'_> {
    /// The number that the next entry of the first tag takes: `sequence + count`.
    ///
    /// # Panics
    /// When the entry takes no numbers.
    pub fn next_sequence(&self) -> Sequence {
        let first = self.sequence.expect("only sequenced entries have a sequence");
        Sequence::new(first.get() + u64::from(self.count))
    }
}

impl fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("place", &self.place)
            .field("kind", &self.kind)
            .field("sequence", &self.sequence)
            .field("count", &self.count)
            .field("tags", &self.tags.iter().collect::<Vec<_>>())
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

/// The shortest tag whose length takes two bytes in its stored form.
const LONG_FROM: usize = 128;

/// The tags of an entry, in their stored form: each a length, as a varint of one or two bytes
/// (LEB128), and its bytes.
#[derive(Clone, Copy)]
pub struct Tags<'a> {
    encoded: &'a [u8],
}

impl<'a> Tags<'a> {
    /// The tags encoded in these bytes.
    ///
    /// Only the log and the in-memory log make this, from bytes that they encoded and checked.
    pub const fn from_encoded(encoded: &'a [u8]) -> Self {
        Tags { encoded }
    }

    /// Returns the length of a tag's stored form, in bytes.
    #[inline]
    pub fn bytes_of(tag: Tag<'_>) -> usize {
        let length = tag.as_bytes().len();
        length + if length < LONG_FROM { 1 } else { 2 }
    }

    /// Writes the stored form of a tag to the front of `out`, and returns the rest of `out`.
    ///
    /// # Panics
    /// When `out` is too short, or the tag has 32 KiB or more.
    #[inline]
    pub fn put<'o>(tag: Tag<'_>, out: &'o mut [u8]) -> &'o mut [u8] {
        let bytes = tag.as_bytes();
        let rest = match Tags::length(bytes.len()) {
            [length, 0] => {
                let (first, rest) = out.split_first_mut().expect("`out` is long enough for the tag");
                *first = length;
                rest
            }
            length => {
                let (first, rest) = out.split_first_chunk_mut().expect("`out` is long enough for the tag");
                *first = length;
                rest
            }
        };
        let (own, rest) = rest.split_at_mut(bytes.len());
        own.copy_from_slice(bytes);
        rest
    }

    /// The stored form of a length; the second byte is 0 when there is only one.
    ///
    /// # Panics
    /// When it is 32 KiB or more.
    #[inline]
    pub fn length(bytes: usize) -> [u8; 2] {
        let second = u8::try_from(bytes / LONG_FROM).expect("a tag has less than 32 KiB");
        if second == 0 { [bytes as u8, 0] } else { [(bytes % LONG_FROM + LONG_FROM) as u8, second] }
    }

    /// Splits the first tag from stored tags, and returns its bytes and the rest; `None` when they
    /// do not begin with a whole tag.
    #[inline]
    pub fn split_first(encoded: &[u8]) -> Option<(&[u8], &[u8])> {
        let (first, rest) = encoded.split_first()?;
        let first = usize::from(*first);
        if first < LONG_FROM {
            return rest.split_at_checked(first);
        }
        let (second, rest) = rest.split_first()?;
        // No length has two forms.
        if *second == 0 { None } else { rest.split_at_checked(first % LONG_FROM + usize::from(*second) * LONG_FROM) }
    }

    /// Iterates over the tags, in their order.
    pub fn iter(self) -> impl Iterator<Item = Tag<'a>> + use<'a> {
        let mut rest = self.encoded;
        core::iter::from_fn(move || {
            let (tag, after) = Tags::split_first(rest)?;
            rest = after;
            Some(Tag::new(tag))
        })
    }

    /// Whether this tag is among them.
    pub fn contains(self, tag: Tag<'_>) -> bool {
        self.iter().any(|own| own == tag)
    }

    /// The first tag, to which the entry's sequence belongs.
    pub fn first(self) -> Option<Tag<'a>> {
        self.iter().next()
    }
}
