//! Which log a file belongs to.

use std::fmt;

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

    /// What the first record chains to.
    pub fn chain(self) -> u32 {
        self.database as u32
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "database {:032x} shard {}", self.database, self.shard)
    }
}
