//! Tags: names of virtual logs within a shard.
//!
//! A tag is 1 to [`TAG_BYTES_MAX`] opaque bytes. So that tags of two models never meet, the first
//! byte is the [`ModelId`](crate::ModelId) of the model that made it; the rest is the model's own
//! affair.

use alloc::vec::Vec;
use core::fmt;

use crate::ModelId;

/// The most bytes a tag may have, the model's byte included.
pub const TAG_BYTES_MAX: usize = 512;

/// A borrowed tag. [`Tag::as_bytes`] returns its bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag<'a>(&'a [u8]);

impl<'a> Tag<'a> {
    /// The tag of these bytes.
    ///
    /// # Panics
    /// When `bytes` is empty or exceeds [`TAG_BYTES_MAX`]: a model checks names from users before
    /// it makes tags of them.
    pub fn new(bytes: &'a [u8]) -> Self {
        assert!(!bytes.is_empty(), "a tag has at least one byte");
        assert!(bytes.len() <= TAG_BYTES_MAX, "a tag has at most {TAG_BYTES_MAX} bytes, not {}", bytes.len());
        Tag(bytes)
    }

    /// The bytes.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

impl fmt::Debug for Tag<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tag(\"{}\")", self.0.escape_ascii())
    }
}

/// An owned tag, built piece by piece.
///
/// ```
/// use quire_model::{ModelId, TagBuf};
///
/// let tag = TagBuf::new(ModelId::GRAPH, b'u').number(7).bytes(b"plane:N14228");
/// assert_eq!(tag.tag().as_bytes(), b"\x04u\x07\x00\x00\x00plane:N14228");
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TagBuf(Vec<u8>);

impl TagBuf {
    /// Begins a tag of `model`; `role` distinguishes the model's kinds of tags.
    pub fn new(model: ModelId, role: u8) -> Self {
        let mut bytes = Vec::with_capacity(32);
        bytes.extend_from_slice(&[model.get(), role]);
        TagBuf(bytes)
    }

    /// Adds a number, as four bytes, least significant first.
    #[must_use]
    pub fn number(mut self, number: u32) -> Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    /// Adds bytes. Add the part of variable length last, so that two different tags never have the
    /// same bytes.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// The tag.
    pub fn tag(&self) -> Tag<'_> {
        Tag::new(&self.0)
    }
}

impl fmt::Debug for TagBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tag().fmt(f)
    }
}
