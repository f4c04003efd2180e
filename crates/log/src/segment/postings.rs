//! The ordinals of each tag of a segment, by the tag's hash.
//!
//! ```text
//! parts: one, or 256 by bits of the hash          slot: hash (u64) │ count (u32) │ value (u32)
//! part:  slots, a power of two, of which five in eight are taken at most; what finds its slot taken goes to the next
//!
//! count 1          value is the ordinal
//! count 2..=4096   value is where its run begins, of the next power of two of words, in memory that all runs share
//! more             value is the number of a vector, which has its own count
//! ```
//! Most tags of most workloads occur once or a few times a segment. They take no allocation of their own, and a line or two of the cache:
//! whoever appends waits for memory more than for anything else. A table that doubles moves all its slots while a writer waits; so a
//! large one is in parts, which double one at a time.

use super::index::TagHash;
use super::runs::{RUN_MAX, Runs};

/// From how many tags on there are 256 parts.
const PARTED_FROM: usize = 1 << 16;
const PARTS: usize = 256;

/// How many slots an empty part has.
const SLOTS_MIN: usize = 8;

/// How much of a part is taken at most.
const LOAD: (usize, usize) = (5, 8);

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    hash: u64,
    /// 0: the slot is free.
    count: u32,
    value: u32,
}

// Four on a line of the cache, and none on two.
const _: () = assert!(size_of::<Slot>() == 16);

/// See the module.
#[derive(Debug)]
pub(super) struct Postings {
    parts: Vec<Part>,
    tags: usize,
    runs: Runs,
    vectors: Vec<Vec<u32>>,
    /// The tag that was added to last and has a vector, and which: it tends to be added to again.
    last: (TagHash, usize),
}

impl Postings {
    pub(super) fn new() -> Self {
        Postings {
            parts: vec![Part::new(SLOTS_MIN)],
            tags: 0,
            runs: Runs::new(),
            vectors: Vec::new(),
            last: (TagHash::NONE, usize::MAX),
        }
    }

    /// Has the processor fetch what adding to these tags looks at, all at once; what it gives means nothing.
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

    /// Adds an ordinal, none lower than those that were added before, to those of a tag. Added once more, it counts once.
    #[inline]
    pub(super) fn add(&mut self, tag: TagHash, ordinal: u32) {
        if tag == self.last.0
            && let Some(vector) = self.vectors.get_mut(self.last.1)
        {
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
                *slot = Slot { hash: tag.get(), count: 1, value: ordinal };
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
                if slot.value != ordinal {
                    let run = self.runs.take(2);
                    self.runs.get_mut(run, 2).copy_from_slice(&[slot.value, ordinal]);
                    (slot.count, slot.value) = (2, run);
                }
            }
            count if count <= RUN_MAX => {
                if self.runs.get(slot.value, count)[count - 1] == ordinal {
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

    /// The ordinals of a tag, in order; none when there is no such tag.
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
        // The parts themselves use the lowest bits.
        if self.parts.len() == 1 { 0 } else { (hash >> 48) as usize % PARTS }
    }

    /// Goes on with 256 parts.
    #[cold]
    fn divide(&mut self) {
        let slots = (self.tags * LOAD.1 / (LOAD.0 * PARTS)).next_power_of_two() * 2;
        let whole = std::mem::replace(&mut self.parts, (0..PARTS).map(|_| Part::new(slots)).collect());
        for slot in whole.iter().flat_map(|part| &part.slots).filter(|slot| slot.count > 0) {
            let part = self.part(slot.hash);
            self.parts[part].put(*slot);
        }
    }
}

/// A part of the table.
#[derive(Debug)]
struct Part {
    slots: Vec<Slot>,
    taken: usize,
}

impl Part {
    fn new(slots: usize) -> Self {
        Part { slots: vec![Slot::default(); slots], taken: 0 }
    }

    fn is_full(&self) -> bool {
        self.taken * LOAD.1 >= self.slots.len() * LOAD.0
    }

    /// Where a hash stands that nothing is in the way of.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    /// The slot of a hash, or the free one that it would have.
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

    /// Puts a slot whose hash is not there yet.
    fn put(&mut self, slot: Slot) {
        let at = self.find(slot.hash);
        self.slots[at] = slot;
        self.taken += 1;
        if self.is_full() {
            self.grow();
        }
    }

    #[cold]
    fn grow(&mut self) {
        let mut larger = Part::new(self.slots.len() * 2);
        for slot in self.slots.iter().filter(|slot| slot.count > 0) {
            let at = larger.find(slot.hash);
            larger.slots[at] = *slot;
        }
        self.slots = larger.slots;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn check(postings: &Postings, naive: &BTreeMap<u64, Vec<u32>>) {
        assert_eq!(postings.tags, naive.len());
        for (hash, ordinals) in naive {
            assert_eq!(postings.get(TagHash::new(*hash)), ordinals);
            // What nobody added is not there, beside what is.
            assert!(naive.contains_key(&(hash ^ 1)) || postings.get(TagHash::new(hash ^ 1)).is_empty());
        }
    }

    proptest! {
        #[test]
        fn every_tag_has_the_ordinals_that_were_added_to_it(
            // Few, so that they come again; the hashes collide in all but a few bits.
            added in proptest::collection::vec((0u64..60, 0u32..3), 0..3000),
            spread in 0u32..64,
        ) {
            let (mut postings, mut naive) = (Postings::new(), BTreeMap::<u64, Vec<u32>>::new());
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
    fn many_tags_and_long_lists_are_all_there() {
        let (mut postings, mut naive) = (Postings::new(), BTreeMap::<u64, Vec<u32>>::new());
        for ordinal in 0..300_000u32 {
            // One of its own, one of some, and one of all.
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
