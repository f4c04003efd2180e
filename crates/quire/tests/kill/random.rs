//! Random numbers from a seed, which can be set (splitmix64, by Sebastiano Vigna).

use std::hash::{BuildHasher, RandomState};

pub(crate) struct Random {
    seed: u64,
    state: u64,
}

impl Random {
    /// Returns numbers from the seed in `QUIRE_KILL_SEED`, or from a new seed.
    pub(crate) fn from_environment() -> Self {
        let given = std::env::var("QUIRE_KILL_SEED").ok().map(|seed| seed.parse().expect("a seed is a number"));
        Random::new(given.unwrap_or_else(|| RandomState::new().hash_one(0)))
    }

    pub(crate) fn new(seed: u64) -> Self {
        Random { seed, state: seed }
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns a number from 0 up to, but not including, `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}
