//! The ordinals of each tag in a segment, by the tag's hash.
//!
//! ```text
//! parts: one, or 256 by bits of the hash          slot: hash (u64) │ count (u32) │ value (u32)
//! part:  slots, a power of two, at most five in eight taken;
//!        a hash whose slot is taken uses the next
//!
//! count 1          value is the ordinal
//! count 2..=4096   value is the start of a run of the next power of two of words, in shared memory
//! more             value is the number of a vector, which stores its own count
//! ```
//! Most tags of most workloads occur once or a few times a segment. Such a tag needs no allocation
//! and touches one or two cache lines: memory latency dominates the cost of an append. A table that
//! doubles moves all its slots while the writer waits. A large table is therefore divided into
//! parts, which double one at a time.

use super::index::TagHash;
use super::runs::{RUN_MAX, RunArena};

/// The count of tags at which the table is divided into 256 parts.
const PARTED_FROM: usize = 1 << 16;
const PARTS: usize = 256;

/// The slots of an empty part.
const SLOTS_MIN: usize = 8;

/// The largest load of a part, as a fraction.
const LOAD: (usize, usize) = (5, 8);

const _: () = assert!(SLOTS_MIN.is_power_of_two() && PARTS.is_power_of_two());
const _: () = assert!(LOAD.0 < LOAD.1, "a search ends at a free slot");

#[derive(Debug, Clone, Copy, Default)]
struct PostingSlot {
    hash: u64,
    /// 0 in a free slot.
    count: u32,
    value: u32,
}

// A cache line holds four slots, and no slot spans two lines.
const _: () = assert!(size_of::<PostingSlot>() == 16);

/// See the module.
#[derive(Debug)]
pub(super) struct PostingTable {
    parts: Vec<TablePart>,
    tags: usize,
    runs: RunArena,
    vectors: Vec<Vec<u32>>,
    /// The tag that was added to last and its vector, which the next addition tends to need again.
    last: (TagHash, usize),
}

impl PostingTable {
    pub(super) fn new() -> Self {
        PostingTable {
            parts: vec![TablePart::new(SLOTS_MIN)],
            tags: 0,
            runs: RunArena::new(),
            vectors: Vec::new(),
            last: (TagHash::NONE, usize::MAX),
        }
    }

    /// Prefetches the memory that adding to these tags reads. The result has no meaning.
    #[inline]
    pub(super) fn touch(&self, tags: &[TagHash]) -> u32 {
        let home = |tag: TagHash| {
            let part = &self.parts[self.part(tag.get())];
            &part.slots[part.home(tag.get())]
        };
        let tags = tags.iter().filter(|tag| **tag != self.last.0);
        let slots = tags.clone().fold(0, |sum, tag| sum ^ home(*tag).count);
        let ends = tags.map(|tag| home(*tag)).filter(|slot| (2..=RUN_MAX).contains(&(slot.count as usize)));
        ends.fold(slots, |sum, slot| sum ^ self.runs.get(slot.value, slot.count as usize)[slot.count as usize - 1])
    }

    /// Adds an ordinal to a tag, not lower than the ordinals added before. A repeated ordinal
    /// counts once.
    #[inline]
    pub(super) fn add(&mut self, tag: TagHash, ordinal: u32) {
        if tag == self.last.0
            && let Some(vector) = self.vectors.get_mut(self.last.1)
        {
            debug_assert!(vector.last().is_none_or(|last| *last <= ordinal), "ordinal {ordinal} is out of order");
            if vector.last() != Some(&ordinal) {
                vector.push(ordinal);
            }
            return;
        }
        let part = self.part(tag.get());
        let part = &mut self.parts[part];
        let at = part.find(tag.get());
        let slot = &mut part.slots[at];
        match slot.count as usize {
            0 => {
                *slot = PostingSlot { hash: tag.get(), count: 1, value: ordinal };
                part.taken += 1;
                self.tags += 1;
                if part.is_full() {
                    part.grow();
                }
                if self.tags == PARTED_FROM {
                    self.divide();
                }
            }
            1 => {
                debug_assert!(slot.value <= ordinal, "ordinal {ordinal} is out of order after {}", slot.value);
                if slot.value != ordinal {
                    let run = self.runs.take(2);
                    self.runs.get_mut(run, 2).copy_from_slice(&[slot.value, ordinal]);
                    (slot.count, slot.value) = (2, run);
                }
            }
            count if count <= RUN_MAX => {
                let newest = self.runs.get(slot.value, count)[count - 1];
                debug_assert!(newest <= ordinal, "ordinal {ordinal} is out of order after {newest}");
                if newest == ordinal {
                    return;
                }
                if count == RUN_MAX {
                    let mut vector = Vec::with_capacity(2 * RUN_MAX);
                    vector.extend_from_slice(self.runs.get(slot.value, count));
                    vector.push(ordinal);
                    self.runs.give(slot.value, count);
                    slot.value = u32::try_from(self.vectors.len()).expect("a segment has fewer entries");
                    self.vectors.push(vector);
                } else {
                    slot.value = self.runs.lengthen(slot.value, count);
                    self.runs.get_mut(slot.value, count + 1)[count] = ordinal;
                }
                slot.count += 1;
            }
            _ => {
                self.last = (tag, slot.value as usize);
                let vector = &mut self.vectors[slot.value as usize];
                if vector.last() != Some(&ordinal) {
                    vector.push(ordinal);
                }
            }
        }
    }

    /// The ordinals of a tag, in order; empty for an unknown tag.
    #[inline]
    pub(super) fn get(&self, tag: TagHash) -> &[u32] {
        let part = &self.parts[self.part(tag.get())];
        let slot = &part.slots[part.find(tag.get())];
        match slot.count as usize {
            0 => &[],
            1 => std::slice::from_ref(&slot.value),
            count if count <= RUN_MAX => self.runs.get(slot.value, count),
            _ => &self.vectors[slot.value as usize],
        }
    }

    #[inline]
    fn part(&self, hash: u64) -> usize {
        // The position within a part uses the lowest bits.
        if self.parts.len() == 1 { 0 } else { (hash >> 48) as usize % PARTS }
    }

    /// Divides the table into 256 parts.
    #[cold]
    fn divide(&mut self) {
        debug_assert_eq!(self.parts.len(), 1, "the table is divided once");
        let slots = (self.tags * LOAD.1 / (LOAD.0 * PARTS)).next_power_of_two() * 2;
        let whole = std::mem::replace(&mut self.parts, (0..PARTS).map(|_| TablePart::new(slots)).collect());
        for slot in whole.iter().flat_map(|part| &part.slots).filter(|slot| slot.count > 0) {
            let part = self.part(slot.hash);
            self.parts[part].put(*slot);
        }
        let taken: usize = self.parts.iter().map(|part| part.taken).sum();
        assert_eq!(taken, self.tags, "each tag is in one part");
    }
}

/// A part of the table.
#[derive(Debug)]
struct TablePart {
    slots: Vec<PostingSlot>,
    taken: usize,
}

impl TablePart {
    fn new(slots: usize) -> Self {
        TablePart { slots: vec![PostingSlot::default(); slots], taken: 0 }
    }

    fn is_full(&self) -> bool {
        self.taken * LOAD.1 >= self.slots.len() * LOAD.0
    }

    /// The slot of a hash without a conflict.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    /// The slot of a hash, or the free slot where it belongs.
    #[inline]
    fn find(&self, hash: u64) -> usize {
        let mut at = self.home(hash);
        loop {
            let slot = &self.slots[at];
            if slot.count == 0 || slot.hash == hash {
                return at;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// Puts a slot whose hash is not in the part yet.
    fn put(&mut self, slot: PostingSlot) {
        let at = self.find(slot.hash);
        debug_assert_eq!(self.slots[at].count, 0, "the hash is new");
        self.slots[at] = slot;
        self.taken += 1;
        if self.is_full() {
            self.grow();
        }
    }

    #[cold]
    fn grow(&mut self) {
        let mut larger = TablePart::new(self.slots.len() * 2);
        for slot in self.slots.iter().filter(|slot| slot.count > 0) {
            let at = larger.find(slot.hash);
            larger.slots[at] = *slot;
        }
        debug_assert_eq!(larger.slots.iter().filter(|slot| slot.count > 0).count(), self.taken);
        self.slots = larger.slots;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn check(postings: &PostingTable, naive: &BTreeMap<u64, Vec<u32>>) {
        assert_eq!(postings.tags, naive.len());
        for (hash, ordinals) in naive {
            assert_eq!(postings.get(TagHash::new(*hash)), ordinals);
            // Hashes that were not added are absent.
            assert!(naive.contains_key(&(hash ^ 1)) || postings.get(TagHash::new(hash ^ 1)).is_empty());
        }
    }

    proptest! {
        #[test]
        fn a_tag_has_exactly_its_added_ordinals(
            // A small range, so that tags repeat; the hashes differ in only a few bits.
            added in proptest::collection::vec((0u64..60, 0u32..3), 0..3000),
            spread in 0u32..64,
        ) {
            let (mut postings, mut naive) = (PostingTable::new(), BTreeMap::<u64, Vec<u32>>::new());
            let mut ordinal = 0;
            for (number, step) in added {
                ordinal += step;
                let hash = number.rotate_left(spread);
                postings.touch(&[TagHash::new(hash)]);
                postings.add(TagHash::new(hash), ordinal);
                let list = naive.entry(hash).or_default();
                if list.last() != Some(&ordinal) {
                    list.push(ordinal);
                }
            }
            check(&postings, &naive);
        }
    }

    #[test]
    fn many_tags_and_long_lists_are_complete() {
        let (mut postings, mut naive) = (PostingTable::new(), BTreeMap::<u64, Vec<u32>>::new());
        for ordinal in 0..300_000u32 {
            // A tag of its own, a tag of some, and a tag of all.
            for number in [u64::from(ordinal) + 100_000, u64::from(ordinal % 20_000), 99_999] {
                let hash = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                postings.add(TagHash::new(hash), ordinal);
                naive.entry(hash).or_default().push(ordinal);
            }
        }
        assert_eq!(postings.parts.len(), PARTS);
        check(&postings, &naive);
    }
}
