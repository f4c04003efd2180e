//! The identity of a log, stored in each of its files.

use std::fmt;

use quire_model::Position;

use crate::mark::{Mark, Term};

/// The identity of a log, stored in each of its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The random number of the database, chosen at its creation.
    pub database: u128,
    /// The number of the shard in the database, from 0.
    pub shard: u32,
}

impl Identity {
    /// The seed of tag hashes. It is random, so that a client cannot choose tags that collide.
    pub(crate) fn seed(self) -> u64 {
        (self.database >> 64) as u64
    }

    /// Returns the mark before the first record, to which that record chains.
    pub fn beginning(self) -> Mark {
        Mark { position: Position::ZERO, term: Term::ALONE, chain: self.database as u32 }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "database {:032x} shard {}", self.database, self.shard)
    }
}
