//! Positions and places in a log: the number of a record, the place of an entry, the number of an
//! item within a tag.
//!
//! The log assigns each position and place once. Compaction of segments does not change them.

use core::fmt;

/// The number of a record (one atomic commit) in its shard's log: 1, 2, 3, ... without gaps.
///
/// [`Position::ZERO`] precedes the first record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(u64);

impl Position {
    /// Before the first record.
    pub const ZERO: Position = Position(0);
    /// After every record.
    pub const MAX: Position = Position(u64::MAX);

    /// The position with this number.
    pub const fn new(number: u64) -> Self {
        Position(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The position of the record after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Position(self.0 + 1)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of an item within one sequenced tag: dense, in log order.
///
/// A Kafka offset is the sequence of its partition's tag (from 0); an event's position is the
/// sequence of its store's tag (from 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sequence(u64);

impl Sequence {
    /// The sequence with this number.
    pub const fn new(number: u64) -> Self {
        Sequence(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The place of an entry: the position of its record, and its index (from 0) within the record.
///
/// Places order as the log does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Place {
    /// The record's position.
    pub position: Position,
    /// The entry's index within the record, from 0.
    pub index: u32,
}

impl Place {
    /// Before every entry.
    pub const START: Place = Place { position: Position::ZERO, index: 0 };
    /// After every entry.
    pub const END: Place = Place { position: Position::MAX, index: u32::MAX };

    /// The place of entry `index` in the record at `position`.
    pub const fn new(position: Position, index: u32) -> Self {
        Place { position, index }
    }

    /// The least place greater than this one: where a forward scan continues.
    #[must_use]
    pub const fn after(self) -> Self {
        if self.index == u32::MAX {
            return Place { position: Position(self.position.0.saturating_add(1)), index: 0 };
        }
        Place { position: self.position, index: self.index + 1 }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.position, self.index)
    }
}
