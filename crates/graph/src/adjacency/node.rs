//! The memory of a block: 56 bytes, whatever its name and content are.
//!
//! ```text
//! id 16 │ place: position 46 bits, index 18 bits │ version 48 bits, kind 16 bits │ changed 56 bits, flags 8 bits
//!       │ outgoing edges 8 │ incoming edges 8
//! ```
//!
//! `decide` refuses positions and indexes that would not fit. No block gets so large a version:
//! that would take a million puts of it a second for nine years.

use quire_model::{Place, Position};

use super::lists::List;
use crate::{BlockId, Version};

/// The highest position that fits.
pub(crate) const POSITION_MAX: u64 = (1 << INDEX_FROM) - 1;
/// The highest index of an entry in its record that fits.
pub(crate) const INDEX_MAX: u32 = (1 << (64 - INDEX_FROM)) - 1;

const INDEX_FROM: u32 = 46;

/// A place in 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PlaceWord(u64);

impl PlaceWord {
    pub(crate) fn new(place: Place) -> Self {
        let (position, index) = (place.position.get(), place.index);
        assert!(position <= POSITION_MAX && index <= INDEX_MAX, "decide refuses places that do not fit: {place}");
        PlaceWord(position | (u64::from(index) << INDEX_FROM))
    }

    pub(crate) const fn from_bits(bits: u64) -> Self {
        PlaceWord(bits)
    }

    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    pub(crate) const fn get(self) -> Place {
        Place::new(Position::new(self.0 & POSITION_MAX), (self.0 >> INDEX_FROM) as u32)
    }
}

/// The number of words of a node.
pub(super) const NODE_WORDS: usize = 14;

/// A block, or a missing block with edges. It is a copy of its words in memory; the compiler omits
/// copies of unused fields.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node {
    pub(super) id: BlockId,
    place: PlaceWord,
    version_and_kind: u64,
    changed_and_flags: u64,
    pub(super) outgoing: List,
    pub(super) incoming: List,
}

const _: () = assert!(size_of::<Node>() == NODE_WORDS * size_of::<u32>());

const IS_USED: u64 = 1;
const IS_BLOCK: u64 = 2;
const IS_NAMED: u64 = 4;

/// The facts of a put block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) version: Version,
    /// The place of the newest content.
    pub(crate) place: Place,
    pub(crate) kind: u16,
    /// Whether the entry there has a name.
    pub(crate) is_named: bool,
}

impl Node {
    /// A free slot.
    pub(super) const FREE: Node = Node {
        id: BlockId::MIN,
        place: PlaceWord::from_bits(0),
        version_and_kind: 0,
        changed_and_flags: 0,
        outgoing: List::NONE,
        incoming: List::NONE,
    };

    /// The node that these words are.
    #[inline]
    pub(super) fn of(words: &[u32; NODE_WORDS]) -> Self {
        let long = |at: usize| u64::from(words[at]) | (u64::from(words[at + 1]) << 32);
        Node {
            id: id_of(words),
            place: PlaceWord(long(4)),
            version_and_kind: long(6),
            changed_and_flags: long(8),
            outgoing: List::of(words[10], words[11]),
            incoming: List::of(words[12], words[13]),
        }
    }

    /// The words that it is kept as.
    pub(super) fn packed(&self) -> [u32; NODE_WORDS] {
        let mut words = [0; NODE_WORDS];
        for (word, bytes) in words.iter_mut().zip(self.id.as_bytes().as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        for (at, long) in [(4, self.place.0), (6, self.version_and_kind), (8, self.changed_and_flags)] {
            words[at] = long as u32;
            words[at + 1] = (long >> 32) as u32;
        }
        words[10..12].copy_from_slice(&self.outgoing.words());
        words[12..].copy_from_slice(&self.incoming.words());
        words
    }

    /// The end of an edge, where no block is.
    pub(super) fn end(id: BlockId) -> Self {
        Node { id, changed_and_flags: IS_USED, ..Node::FREE }
    }

    /// Whether the slot is taken.
    pub(super) fn is_used(self) -> bool {
        self.changed_and_flags & IS_USED != 0
    }

    /// The block's id. The block may be missing while edges end at it.
    pub(crate) fn id(self) -> BlockId {
        self.id
    }

    /// The facts of the newest put; `None` for a missing block.
    pub(crate) fn facts(self) -> Option<Facts> {
        self.is_block().then(|| Facts {
            version: Version::new(self.version_and_kind >> 16),
            place: self.place.get(),
            kind: self.version_and_kind as u16,
            is_named: self.changed_and_flags & IS_NAMED != 0,
        })
    }

    /// Whether there is a block.
    pub(crate) fn is_block(self) -> bool {
        self.changed_and_flags & IS_BLOCK != 0
    }

    /// Whether the block is missing and has edges.
    pub(crate) fn is_missing(self) -> bool {
        self.is_used() && !self.is_block()
    }

    /// Whether it has edges.
    pub(crate) fn has_edges(self) -> bool {
        self.outgoing.length + self.incoming.length > 0
    }

    /// The last record that changed the block or its edges.
    pub(crate) fn changed(self) -> Position {
        Position::new(self.changed_and_flags >> 8)
    }

    pub(super) fn put(&mut self, facts: Facts) {
        self.place = PlaceWord::new(facts.place);
        self.version_and_kind = (facts.version.get() << 16) | u64::from(facts.kind);
        let named = if facts.is_named { IS_NAMED } else { 0 };
        self.changed_and_flags = (facts.place.position.get() << 8) | IS_USED | IS_BLOCK | named;
    }

    pub(super) fn delete(&mut self) {
        self.place = PlaceWord::from_bits(0);
        self.version_and_kind = 0;
        self.changed_and_flags &= !(IS_BLOCK | IS_NAMED);
    }

    /// The numbers of the node in a checkpoint, besides the id and the edges.
    pub(super) fn words(&self) -> [u64; 3] {
        [self.place.0, self.version_and_kind, self.changed_and_flags]
    }

    /// Decodes a node from the numbers of a checkpoint; `None` when they are invalid.
    pub(super) fn of_words(id: BlockId, words: [u64; 3]) -> Option<Node> {
        let [place, version_and_kind, changed_and_flags] = words;
        let flags = changed_and_flags & 0xff;
        let is_free = flags == 0 && (place, version_and_kind, changed_and_flags, id) == (0, 0, 0, BlockId::MIN);
        let is_end = flags == IS_USED && (place, version_and_kind) == (0, 0);
        let is_block = flags & !IS_NAMED == IS_USED | IS_BLOCK;
        let place = PlaceWord::from_bits(place);
        (is_free || is_end || is_block).then(|| Node { place, version_and_kind, changed_and_flags, ..Node::end(id) })
    }
}

/// The block's id, from the words of its node.
#[inline]
pub(super) fn id_of(words: &[u32; NODE_WORDS]) -> BlockId {
    let mut bytes = [0; 16];
    for (bytes, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    BlockId::new(bytes)
}

/// Whether these words are the node of the block with this id, existing or missing.
#[inline]
pub(super) fn is_of(words: &[u32; NODE_WORDS], id: BlockId) -> bool {
    u64::from(words[8]) & IS_USED != 0 && id_of(words) == id
}

/// Touches both ends of a node's id, which may be in two cache lines; the returned value has no
/// meaning.
#[inline]
pub(super) fn touch_id(words: &[u32; NODE_WORDS]) -> u32 {
    words[0] ^ words[3]
}

/// Touches both ends of a node's edge lists and last change; the returned value has no meaning.
#[inline]
pub(super) fn touch_lists(words: &[u32; NODE_WORDS]) -> u32 {
    words[8] ^ words[NODE_WORDS - 1]
}

/// Sets the outgoing edges of the node that these words are.
#[inline]
pub(super) fn set_outgoing(words: &mut [u32; NODE_WORDS], list: List) {
    words[10..12].copy_from_slice(&list.words());
}

/// Sets the incoming edges of the node that these words are.
#[inline]
pub(super) fn set_incoming(words: &mut [u32; NODE_WORDS], list: List) {
    words[12..].copy_from_slice(&list.words());
}

/// Notes that the record at this position changed the node that these words are.
#[inline]
pub(super) fn touch(words: &mut [u32; NODE_WORDS], position: Position) {
    let changed = (position.get() << 8) | u64::from(words[8] & 0xff);
    (words[8], words[9]) = (changed as u32, (changed >> 32) as u32);
}
