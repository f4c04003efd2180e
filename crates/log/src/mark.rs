//! The basis of an answer: a record, known by its mark, and the era in which it was appended.
//!
//! A position alone does not name a record: after a [truncation](crate::Writer::truncate_after),
//! another record gets it. The mark names one record, and the era shows whether a truncation came
//! between.

use std::fmt;

use quire_model::Position;

/// The term of office in which a record was appended. Terms in a log never fall. A database that
/// has no other nodes uses [`Term::ALONE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Term(u32);

impl Term {
    /// The term of every record in a database that has no other nodes.
    pub const ALONE: Term = Term(0);

    /// Stands for the term of a record of which only the checksum is stored. The term of every
    /// record may follow it.
    pub(crate) const UNSTORED: Term = Term(0);

    /// The term with this number.
    pub const fn new(number: u32) -> Self {
        Term(number)
    }

    /// Its number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Number of truncations that this opening of the log has made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Era(u64);

impl Era {
    pub(crate) const fn new(number: u64) -> Self {
        Era(number)
    }

    pub(crate) const fn get(self) -> u64 {
        self.0
    }
}

/// A record: its position, its term and its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The record's position; [`Position::ZERO`] before the first.
    pub position: Position,
    /// The term in which it was appended.
    pub term: Term,
    /// Its checksum, which the next record chains to.
    pub chain: u32,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mark { position, term, chain } = self;
        write!(f, "record {position} of term {term} with checksum {chain:08x}")
    }
}

/// The basis of an answer: the last record that it takes into account, in the era in which that
/// record was appended. The answer may be given once the record is published. It must never be
/// given if a truncation removed the record first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Basis {
    /// The record.
    pub mark: Mark,
    /// The era of the log when `mark` was its last record.
    pub era: Era,
}

impl Basis {
    /// The position of the record.
    pub fn position(self) -> Position {
        self.mark.position
    }
}
