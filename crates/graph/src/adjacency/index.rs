//! The slots of blocks, by id.
//!
//! ```text
//! table:  bucket 0 │ bucket 1 │ ...                      a power of two of them
//! bucket: 12 tags of a byte each, how many passed by (u32) │ 12 slots of a word each          one line of the cache
//! ```
//! A tag is seven bits of the hash and one bit that marks a slot. A slot whose bucket is full goes
//! into the next bucket, and each full bucket on its way counts it: a search ends at the first
//! bucket with count 0. (As in F14, N. Bronson and X. Shi, *Open-sourcing F14 for faster, more
//! memory-efficient hash tables*, 2019.) A table that doubles moves all its slots while a writer
//! waits. So a large table is divided into 256, which double one at a time.

use alloc::vec::Vec;
use core::hint::black_box;

use crate::BlockId;
use crate::hashing::hash;
use crate::memory::{MemorySource, Words};

/// The number of slots at which the index is divided into 256 tables.
const PARTED_FROM: usize = 1 << 16;

/// The most slots that are added at once.
pub(super) const TOGETHER: usize = 32;

const BUCKET_WORDS: usize = 16;
const BUCKET_SLOTS: usize = 12;

/// The largest load of a table: 10 of 12 slots.
const LOAD: (usize, usize) = (10, 12);

/// The word of a bucket that counts the slots that overflowed into other buckets.
const PASSED: usize = 3;

type Bucket = [u32; BUCKET_WORDS];

/// See the module.
#[derive(Debug)]
pub(super) struct Index {
    seed: u64,
    source: MemorySource,
    /// One, or 256.
    tables: Vec<SlotTable>,
    count: usize,
}

impl Index {
    /// An empty index for about `count` blocks.
    pub(super) fn new(seed: u64, expected: usize, source: MemorySource) -> Self {
        let parts = if expected < PARTED_FROM { 1 } else { 256 };
        let tables = (0..parts).map(|_| SlotTable::new(expected / parts, &source)).collect();
        Index { seed, source, tables, count: 0 }
    }

    /// The hash of an id, under the seed.
    #[inline]
    pub(super) fn hash(&self, id: BlockId) -> u64 {
        hash(id, self.seed)
    }

    /// The slot with this id. `id_of` returns the id of a slot.
    #[inline]
    pub(super) fn find(&self, id: BlockId, id_of: impl Fn(u32) -> BlockId) -> Option<u32> {
        self.find_hashed(hash(id, self.seed), id, id_of)
    }

    #[inline]
    fn find_hashed(&self, hash: u64, id: BlockId, id_of: impl Fn(u32) -> BlockId) -> Option<u32> {
        self.tables[self.part(hash)].find(hash, |slot| id_of(slot) == id).map(|(_, _, slot)| slot)
    }

    /// Adds the slot of an id that has none yet.
    pub(super) fn add(&mut self, id: BlockId, slot: u32, id_of: impl Fn(u32) -> BlockId) {
        if self.count == PARTED_FROM && self.tables.len() == 1 {
            let mut parted = Index::new(self.seed, self.count * 2, self.source.clone());
            for slot in self.tables[0].slots() {
                parted.insert(id_of(slot), slot, &id_of);
            }
            *self = parted;
        }
        self.insert(id, slot, id_of);
    }

    /// Adds the slots of these ids, at most [`TOGETHER`] of them, to an index that was created with
    /// its final size. Returns whether all of them are new. Prefetching loads their random places
    /// in the table at the same time.
    pub(super) fn add_together(&mut self, ids: &[(BlockId, u32)], id_of: impl Fn(u32) -> BlockId) -> bool {
        let mut hashes = [0; TOGETHER];
        let mut touched = 0;
        for (hash, (id, _)) in hashes.iter_mut().zip(ids) {
            *hash = self.hash(*id);
            touched ^= self.tables[self.part(*hash)].touch(*hash);
        }
        black_box(touched);
        ids.iter().zip(hashes).all(|((id, slot), hash)| {
            let is_new = self.find_hashed(hash, *id, &id_of).is_none();
            self.insert_hashed(hash, *slot, &id_of);
            is_new
        })
    }

    fn insert(&mut self, id: BlockId, slot: u32, id_of: impl Fn(u32) -> BlockId) {
        self.insert_hashed(hash(id, self.seed), slot, id_of);
    }

    fn insert_hashed(&mut self, hashed: u64, slot: u32, id_of: impl Fn(u32) -> BlockId) {
        let seed = self.seed;
        let part = self.part(hashed);
        if self.tables[part].is_full() {
            let table = &self.tables[part];
            let mut larger = SlotTable::new(table.count * 2, &self.source);
            for slot in table.slots() {
                larger.insert(hash(id_of(slot), seed), slot);
            }
            self.tables[part] = larger;
        }
        self.tables[part].insert(hashed, slot);
        self.count += 1;
    }

    /// Takes out the slot of an id.
    pub(super) fn remove(&mut self, id: BlockId, slot: u32) {
        let hash = hash(id, self.seed);
        let part = self.part(hash);
        self.tables[part].remove(hash, slot);
        self.count -= 1;
    }

    /// Returns the lent bytes of its memory.
    pub(super) fn lent_bytes(&self) -> usize {
        self.tables.iter().map(|table| table.words.lent_bytes()).sum()
    }

    /// Returns the bytes of its memory.
    pub(super) fn memory_bytes(&self) -> usize {
        self.tables.iter().map(|table| table.words.bytes() + size_of::<SlotTable>()).sum()
    }

    fn part(&self, hash: u64) -> usize {
        // The tables themselves use the lowest bits, and the seven highest.
        if self.tables.len() == 1 { 0 } else { (hash >> 48) as usize & 0xff }
    }
}

/// A table of slots.
#[derive(Debug)]
struct SlotTable {
    words: Words,
    count: usize,
}

impl SlotTable {
    /// An index of `slots` slots.
    fn new(expected: usize, source: &MemorySource) -> Self {
        let buckets = (expected * LOAD.1).div_ceil(LOAD.0 * BUCKET_SLOTS).max(1).next_power_of_two();
        SlotTable { words: Words::new(buckets * BUCKET_WORDS, source), count: 0 }
    }

    #[inline]
    fn buckets(&self) -> &[Bucket] {
        self.words.get().as_chunks().0
    }

    fn is_full(&self) -> bool {
        self.count * LOAD.1 >= self.buckets().len() * BUCKET_SLOTS * LOAD.0
    }

    /// Finds the slot with this hash that `is_it` accepts: its bucket, its index, and the slot.
    #[inline]
    fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<(usize, usize, u32)> {
        let buckets = self.buckets();
        let (tag, mask) = (tag(hash), buckets.len() - 1);
        let mut number = hash as usize & mask;
        // Deleted entries may have left no free slot; then all slots are searched.
        for _ in 0..buckets.len() {
            let bucket = &buckets[number];
            let (mut first, mut found) = (0, matching(first_tags(bucket), tag));
            loop {
                while found != 0 {
                    let index = first + found.trailing_zeros() as usize / 8;
                    let slot = bucket[(4 + index) % BUCKET_WORDS];
                    if is_it(slot) {
                        return Some((number, index, slot));
                    }
                    found &= found - 1;
                }
                if first > 0 {
                    break;
                }
                // The bytes after the last four tags are zeros, and no tag is zero.
                (first, found) = (8, matching(u64::from(bucket[2]), tag));
            }
            if bucket[PASSED] == 0 {
                return None;
            }
            number = (number + 1) & mask;
        }
        None
    }

    /// Prefetches the first bucket for a hash; the returned value has no meaning.
    #[inline]
    fn touch(&self, hash: u64) -> u32 {
        let buckets = self.buckets();
        buckets[hash as usize & (buckets.len() - 1)][PASSED]
    }

    /// Adds a slot. The table must have space for it.
    fn insert(&mut self, hash: u64, slot: u32) {
        let buckets: &mut [Bucket] = self.words.get_mut().as_chunks_mut().0;
        let mask = buckets.len() - 1;
        let mut number = hash as usize & mask;
        loop {
            let bucket = &mut buckets[number];
            if let Some(index) = first_free(bucket) {
                set_tag(bucket, index, tag(hash));
                bucket[4 + index] = slot;
                self.count += 1;
                return;
            }
            bucket[PASSED] += 1;
            number = (number + 1) & mask;
        }
    }

    /// Takes out a slot that was added with this hash.
    fn remove(&mut self, hash: u64, slot: u32) {
        let (found, index, _) = self.find(hash, |found| found == slot).expect("only an added slot is removed");
        let buckets: &mut [Bucket] = self.words.get_mut().as_chunks_mut().0;
        let mask = buckets.len() - 1;
        let mut number = hash as usize & mask;
        while number != found {
            buckets[number][PASSED] -= 1;
            number = (number + 1) & mask;
        }
        set_tag(&mut buckets[found], index, 0);
        self.count -= 1;
    }

    /// All slots, in no order that means anything.
    fn slots(&self) -> impl Iterator<Item = u32> {
        self.buckets().iter().flat_map(|bucket| {
            (0..BUCKET_SLOTS).filter(|index| tag_at(bucket, *index) != 0).map(|index| bucket[4 + index])
        })
    }
}

/// The seven highest bits of a hash, and that there is a slot.
fn tag(hash: u64) -> u8 {
    (hash >> 57) as u8 | 0x80
}

fn tag_at(bucket: &Bucket, index: usize) -> u8 {
    bucket[index / 4].to_le_bytes()[index % 4]
}

fn set_tag(bucket: &mut Bucket, index: usize, tag: u8) {
    let mut tags = bucket[index / 4].to_le_bytes();
    tags[index % 4] = tag;
    bucket[index / 4] = u32::from_le_bytes(tags);
}

/// The first eight tags of a bucket.
#[inline]
fn first_tags(bucket: &Bucket) -> u64 {
    u64::from(bucket[0]) | (u64::from(bucket[1]) << 32)
}

/// The first free slot in a bucket.
#[inline]
fn first_free(bucket: &Bucket) -> Option<usize> {
    let free = matching(first_tags(bucket), 0);
    if free != 0 {
        return Some(free.trailing_zeros() as usize / 8);
    }
    // The last four of the eight bytes are no tags.
    let free = matching(u64::from(bucket[2]), 0) as u32;
    (free != 0).then(|| 8 + free.trailing_zeros() as usize / 8)
}

/// Returns the tags of eight that equal `tag`: the highest bit of each such byte, exactly.
#[inline]
fn matching(tags: u64, tag: u8) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    const ONES: u64 = 0x0101_0101_0101_0101;
    // A byte is zero where the tag matches. The highest bit shows that, and no carry leaves a byte.
    let differs = tags ^ (ONES * u64::from(tag));
    !(((differs & LOW) + LOW) | differs | LOW)
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn id(number: u32) -> BlockId {
        BlockId::new(u128::from(number).to_be_bytes())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
        #[test]
        fn an_index_finds_what_was_added_and_nothing_that_was_taken_out(
            steps in proptest::collection::vec(0u32..600, 1..4000),
            // Seeds with few bits, and tables so full that many slots overflow into other buckets.
            seed in 0u64..3,
        ) {
            let mut index = Index::new(seed, 0, None);
            let mut naive = BTreeMap::new();
            for number in steps {
                prop_assert_eq!(index.find(id(number), id), naive.get(&number).copied());
                if naive.remove(&number).is_some() {
                    index.remove(id(number), number);
                } else {
                    index.add(id(number), number, id);
                    naive.insert(number, number);
                }
            }
            for number in 0..600 {
                prop_assert_eq!(index.find(id(number), id), naive.get(&number).copied());
            }
        }
    }

    #[test]
    fn ids_that_are_added_together_are_found_and_a_repeated_one_is_reported() {
        for count in [0, 1, TOGETHER as u32, 1_000, 100_000] {
            let ids: Vec<(BlockId, u32)> = (0..count).map(|number| (id(number), number)).collect();
            let mut index = Index::new(7, ids.len(), None);
            assert!(ids.chunks(TOGETHER).all(|some| index.add_together(some, id)));
            assert!(ids.iter().all(|(id_, slot)| index.find(*id_, id) == Some(*slot)));
            assert!((count..count + 1_000).all(|number| index.find(id(number), id).is_none()));
        }
        let again = |slot: u32| id(slot % 5);
        let ids: Vec<(BlockId, u32)> = (0..6).map(|slot| (again(slot), slot)).collect();
        assert!(Index::new(7, 6, None).add_together(&ids[..5], again));
        assert!(!Index::new(7, 6, None).add_together(&ids, again), "in one go");
        let mut index = Index::new(7, 6, None);
        assert!(index.add_together(&ids[..5], again) && !index.add_together(&ids[5..], again), "behind it");
    }

    #[test]
    fn a_search_ends_also_where_every_bucket_was_passed_by() {
        let mut table = SlotTable::new(20, &None);
        assert_eq!(table.buckets().len(), 2);
        // Hashes whose lowest bit is the bucket.
        (0..12).for_each(|slot| table.insert(1, slot));
        table.insert(1, 12);
        (0..11).for_each(|slot| table.remove(1, slot));
        (20..31).for_each(|slot| table.insert(0, slot));
        table.insert(0, 31);
        assert!(table.buckets().iter().all(|bucket| bucket[PASSED] > 0));
        assert_eq!(table.find(2, |_| false), None);
        assert_eq!(table.find(1, |slot| slot == 12).map(|(_, _, slot)| slot), Some(12));
    }

    #[test]
    fn a_large_index_is_parted_and_takes_about_ten_bytes_a_slot() {
        let mut index = Index::new(7, 0, None);
        for number in 0..200_000 {
            index.add(id(number), number, id);
        }
        assert_eq!(index.tables.len(), 256);
        assert!((0..200_000).all(|number| index.find(id(number), id) == Some(number)));
        assert!((200_000..300_000).all(|number| index.find(id(number), id).is_none()));
        assert!(index.memory_bytes() < 200_000 * 14, "{}", index.memory_bytes());
    }
}
