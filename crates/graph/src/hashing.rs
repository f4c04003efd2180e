//! Hashes of ids under the seed of a database.
//!
//! The ids are chosen by users, so the hash has a seed that they do not know: ids made to collide
//! in one database are spread in every other. Nothing that can be seen depends on the seed, or on
//! the order in a table.

use core::hash::{BuildHasher, Hasher};

use crate::BlockId;

// Odd constants with well-mixed bits: the golden ratio and a root of two.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
const ROOT: u64 = 0xb504_f333_f9de_6485;

/// The hash of an id: two folded multiplications (as in wyhash and foldhash), keyed with the seed.
#[inline]
pub(crate) fn hash(id: BlockId, seed: u64) -> u64 {
    let id = u128::from_le_bytes(*id.as_bytes());
    let (low, high) = (id as u64 ^ seed, (id >> 64) as u64 ^ seed.rotate_left(32) ^ GOLDEN);
    fold(fold(low, ROOT) ^ high, GOLDEN)
}

#[inline]
const fn fold(left: u64, right: u64) -> u64 {
    let product = (left as u128) * (right as u128);
    (product as u64) ^ ((product >> 64) as u64)
}

/// Hashes ids, and edges by their ends, with a seed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seed(pub(crate) u64);

impl BuildHasher for Seed {
    type Hasher = IdHasher;

    fn build_hasher(&self) -> IdHasher {
        IdHasher(self.0)
    }
}

/// See [`Seed`].
#[derive(Debug)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    /// Hashes a block id, which has 16 bytes and no length prefix.
    fn write(&mut self, bytes: &[u8]) {
        let id: &[u8; 16] = bytes.try_into().expect("only ids are hashed");
        self.0 = hash(BlockId::new(*id), self.0);
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = fold(self.0 ^ u64::from(number), ROOT);
    }
}
