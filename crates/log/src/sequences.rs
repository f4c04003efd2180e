//! The next number of every sequenced tag.
//!
//! Derived from the records alone, and owned by the writer: numbers are given in the order in which records are appended.

use hashbrown::HashTable;

use quire_model::{Sequence, Tag};

use crate::segment::TagHash;

#[derive(Debug)]
struct Counter {
    hash: u64,
    tag: Box<[u8]>,
    next: Sequence,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Sequences {
    seed: u64,
    counters: HashTable<Counter>,
}

impl Sequences {
    pub(crate) fn new(seed: u64) -> Self {
        Sequences { seed, counters: HashTable::new() }
    }

    /// The number that the next item of a tag gets; `None` when it never had one.
    pub(crate) fn next(&self, tag: Tag<'_>) -> Option<Sequence> {
        let hash = TagHash::of(tag, self.seed).get();
        self.counters.find(hash, |counter| *counter.tag == *tag.as_bytes()).map(|counter| counter.next)
    }

    /// Notes the number that the next item of a tag gets.
    pub(crate) fn take_in(&mut self, hash: TagHash, tag: Tag<'_>, next: Sequence) {
        let (hash, tag) = (hash.get(), tag.as_bytes());
        match self.counters.find_mut(hash, |counter| *counter.tag == *tag) {
            Some(counter) => counter.next = next,
            None => {
                let counter = Counter { hash, tag: tag.into(), next };
                self.counters.insert_unique(hash, counter, |counter| counter.hash);
            }
        }
    }
}
