//! Which log a file belongs to.

use std::fmt;

use quire_model::Position;

use crate::mark::{Mark, Term};

/// Which log a file belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The database, by the random number it was created with.
    pub database: u128,
    /// The shard within it, from 0.
    pub shard: u32,
}

impl Identity {
    /// What tag hashes are seeded with, so that nobody can choose tags that collide.
    pub(crate) fn seed(self) -> u64 {
        (self.database >> 64) as u64
    }

    /// The mark before the first record, which that record chains to.
    pub fn beginning(self) -> Mark {
        Mark { position: Position::ZERO, term: Term::ALONE, chain: self.database as u32 }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "database {:032x} shard {}", self.database, self.shard)
    }
}
