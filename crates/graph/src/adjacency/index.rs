//! From a block's id to its slot.
//!
//! The ids are chosen by users, so the hash has a seed that they do not know: ids made to collide in one database are
//! spread in every other. A table that doubles moves all its slots while a writer waits; so a large one is parted into 256,
//! which double one at a time. Nothing that can be seen depends on the seed or on the order in the tables.

use alloc::vec::Vec;

use hashbrown::HashTable;

use crate::BlockId;

/// From how many slots on there are 256 tables.
const PARTED_FROM: usize = 1 << 16;

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Index {
    seed: u64,
    /// One, or 256.
    tables: Vec<HashTable<u32>>,
    count: usize,
}

impl Index {
    /// An empty one for about so many.
    pub(super) fn new(seed: u64, expected: usize) -> Self {
        let tables = if expected < PARTED_FROM { 1 } else { 256 };
        Index { seed, tables: (0..tables).map(|_| HashTable::with_capacity(expected / tables)).collect(), count: 0 }
    }

    /// The hash of an id, under the seed.
    pub(super) fn hash(&self, id: BlockId) -> u64 {
        hash(id, self.seed)
    }

    /// The slot of this id. `id_of` says which id a slot has.
    pub(super) fn find(&self, id: BlockId, id_of: impl Fn(u32) -> BlockId) -> Option<u32> {
        let hash = hash(id, self.seed);
        self.tables[self.part(hash)].find(hash, |slot| id_of(*slot) == id).copied()
    }

    /// Adds the slot of an id that has none yet.
    pub(super) fn add(&mut self, id: BlockId, slot: u32, id_of: impl Fn(u32) -> BlockId) {
        if self.count == PARTED_FROM && self.tables.len() == 1 {
            let slots: Vec<u32> = self.tables[0].iter().copied().collect();
            *self = Index::new(self.seed, self.count * 2);
            for slot in slots {
                self.insert(id_of(slot), slot, &id_of);
            }
        }
        self.insert(id, slot, id_of);
    }

    fn insert(&mut self, id: BlockId, slot: u32, id_of: impl Fn(u32) -> BlockId) {
        let (hash, seed) = (hash(id, self.seed), self.seed);
        let part = self.part(hash);
        self.tables[part].insert_unique(hash, slot, |slot| self::hash(id_of(*slot), seed));
        self.count += 1;
    }

    /// Takes out the slot of an id.
    pub(super) fn remove(&mut self, id: BlockId, slot: u32) {
        let hash = hash(id, self.seed);
        let part = self.part(hash);
        let found = self.tables[part].find_entry(hash, |found| *found == slot);
        found.expect("only what was added is taken out").remove();
        self.count -= 1;
    }

    /// How much memory it takes, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.tables.iter().map(|table| table.allocation_size() + size_of::<HashTable<u32>>()).sum()
    }

    fn part(&self, hash: u64) -> usize {
        // The tables themselves use the lowest bits, and the seven highest.
        if self.tables.len() == 1 { 0 } else { (hash >> 48) as usize & 0xff }
    }
}

/// Two folded multiplications (as in wyhash and foldhash), keyed with the seed.
fn hash(id: BlockId, seed: u64) -> u64 {
    let id = u128::from_le_bytes(*id.as_bytes());
    // Odd constants with well-mixed bits: the golden ratio and a root of two.
    let (low, high) = (id as u64 ^ seed, (id >> 64) as u64 ^ seed.rotate_left(32) ^ 0x9e37_79b9_7f4a_7c15);
    fold(fold(low, 0xb504_f333_f9de_6485) ^ high, 0x9e37_79b9_7f4a_7c15)
}

const fn fold(left: u64, right: u64) -> u64 {
    let product = (left as u128) * (right as u128);
    (product as u64) ^ ((product >> 64) as u64)
}
