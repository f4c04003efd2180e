//! The next number of every sequenced tag.
//!
//! The numbers derive from the records alone, and the writer owns them. Numbers are given in the
//! order in which records are appended. A record in the making takes its numbers at once, so that
//! its later entries see them. A record that is discarded gives its numbers back in reverse.

use hashbrown::HashTable;

use quire_model::{Sequence, Tag};

use crate::segment::TagHash;

#[derive(Debug)]
struct Counter {
    hash: TagHash,
    tag: Box<[u8]>,
    next: Sequence,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Sequences {
    /// In the order of the tags' first numbers.
    counters: Vec<Counter>,
    /// Indexes into `counters`, by the tag's hash.
    by_tag: HashTable<u32>,
    /// The counter that gave the last numbers. A writer that appends to a tag most often does so
    /// again.
    last: u32,
    /// Changes by the record in the making: a counter, and its number before; `None` for a new
    /// counter.
    taken: Vec<(u32, Option<Sequence>)>,
}

impl Sequences {
    /// Takes `count` numbers of a tag for the record in the making, and returns the first. The
    /// first is `origin` when the tag never had a number. Also returns the tag's hash; `hash` is
    /// called only when the hash is not known.
    #[inline]
    pub(crate) fn take(
        &mut self,
        hash: impl FnOnce() -> TagHash,
        tag: Tag<'_>,
        origin: Sequence,
        count: u32,
    ) -> (TagHash, Sequence) {
        debug_assert!(count > 0, "a sequenced entry takes at least one number");
        let after = |first: Sequence| Sequence::new(first.get() + u64::from(count));
        let (hash, found) = match self.counters.get(self.last as usize) {
            Some(counter) if *counter.tag == *tag.as_bytes() => (counter.hash, Some(self.last)),
            _ => {
                let hash = hash();
                (hash, self.find(hash, tag))
            }
        };
        match found {
            Some(index) => {
                let counter = &mut self.counters[index as usize];
                let first = counter.next;
                counter.next = after(first);
                self.last = index;
                self.taken.push((index, Some(first)));
                (hash, first)
            }
            None => {
                let index = self.add(hash, tag, after(origin));
                self.taken.push((index, None));
                (hash, origin)
            }
        }
    }

    /// Keeps the numbers that the record in the making took: the record was appended.
    #[inline]
    pub(crate) fn keep(&mut self) {
        self.taken.clear();
    }

    /// Gives back the numbers that the record in the making took: the record was discarded.
    #[inline]
    pub(crate) fn give_back(&mut self) {
        while let Some((index, before)) = self.taken.pop() {
            match before {
                Some(next) => {
                    let counter = &mut self.counters[index as usize];
                    debug_assert!(next < counter.next, "numbers are given back in reverse");
                    counter.next = next;
                }
                None => {
                    assert_eq!(index as usize + 1, self.counters.len(), "new tags are given back in reverse");
                    self.remove_last();
                }
            }
        }
    }

    /// Notes the number that the next item of a tag gets.
    pub(crate) fn take_in(&mut self, hash: TagHash, tag: Tag<'_>, next: Sequence) {
        match self.find(hash, tag) {
            Some(index) => self.counters[index as usize].next = next,
            None => {
                self.add(hash, tag, next);
            }
        }
    }

    #[inline]
    fn find(&self, hash: TagHash, tag: Tag<'_>) -> Option<u32> {
        let is_its = |index: &u32| {
            let counter = &self.counters[*index as usize];
            counter.hash == hash && *counter.tag == *tag.as_bytes()
        };
        self.by_tag.find(hash.get(), is_its).copied()
    }

    #[cold]
    fn add(&mut self, hash: TagHash, tag: Tag<'_>, next: Sequence) -> u32 {
        let index = u32::try_from(self.counters.len()).expect("fewer than four billion sequenced tags");
        self.counters.push(Counter { hash, tag: tag.as_bytes().into(), next });
        let Sequences { counters, by_tag, .. } = self;
        by_tag.insert_unique(hash.get(), index, |index| counters[*index as usize].hash.get());
        index
    }

    #[cold]
    fn remove_last(&mut self) {
        let last = self.counters.pop().expect("a counter that was added is there");
        let index = self.counters.len() as u32;
        let entry = self.by_tag.find_entry(last.hash.get(), |own| *own == index);
        entry.expect("a counter that was added is found").remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u64 = 7;

    fn take(sequences: &mut Sequences, tag: &[u8], count: u32) -> u64 {
        let tag = Tag::new(tag);
        sequences.take(|| TagHash::of(tag, SEED), tag, Sequence::new(1), count).1.get()
    }

    #[test]
    fn numbers_that_were_given_back_are_given_again() {
        let mut sequences = Sequences::default();
        assert_eq!((take(&mut sequences, b"a", 3), take(&mut sequences, b"a", 1)), (1, 4));
        sequences.keep();
        assert_eq!((take(&mut sequences, b"b", 1), take(&mut sequences, b"a", 2)), (1, 5));
        assert_eq!((take(&mut sequences, b"a", 1), take(&mut sequences, b"c", 9)), (7, 1));
        sequences.give_back();
        assert_eq!((take(&mut sequences, b"a", 1), take(&mut sequences, b"b", 1)), (5, 1));
        sequences.keep();
        assert_eq!((take(&mut sequences, b"c", 1), take(&mut sequences, b"b", 1)), (1, 2));
    }

    #[test]
    fn tags_whose_hashes_collide_have_numbers_of_their_own() {
        let mut sequences = Sequences::default();
        let hash = TagHash::of(Tag::new(b"x"), SEED);
        let mut of = |tag: &'static [u8]| sequences.take(|| hash, Tag::new(tag), Sequence::new(0), 1).1.get();
        assert_eq!((of(b"x"), of(b"y"), of(b"x"), of(b"y")), (0, 0, 1, 1));
        assert_eq!((of(b"y"), of(b"y"), of(b"x"), of(b"x")), (2, 3, 2, 3));
    }
}
