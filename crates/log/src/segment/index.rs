//! The index of a segment: where its records and entries stand, and which entries carry a tag.
//!
//! Entries are numbered within the segment, from 0, in log order (their *ordinals*). A tag is known by a 64-bit hash that is
//! seeded by the database's id; who finds an entry by it compares the tag itself, so a collision costs time, never a wrong
//! answer. The index is derived from the records alone.

use std::hint::black_box;

use quire_model::{Place, Position, Tag};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::postings::Postings;
use crate::record::RecordView;
use crate::sequences::Sequences;

/// How many tags ahead of the one that is taken in memory is asked for.
const TOUCHED_AHEAD: usize = 16;

/// The hash of a tag, in one database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TagHash(u64);

impl TagHash {
    /// Stands where no hash stands yet.
    pub(crate) const NONE: TagHash = TagHash(0);

    #[cfg(test)]
    pub(crate) const fn new(hash: u64) -> Self {
        TagHash(hash)
    }

    // Where this is inlined, the constants for long inputs are loaded before every loop over tags, a hundred instructions.
    #[inline(never)]
    pub(crate) fn of(tag: Tag<'_>, seed: u64) -> Self {
        TagHash(xxh3_64_with_seed(tag.as_bytes(), seed))
    }

    pub(crate) fn get(self) -> u64 {
        self.0
    }
}

/// What the index takes in of a record: where its entries stand within it, and the hashes of their tags. Gathered while the
/// record is made, or from its bytes.
#[derive(Debug, Default)]
pub(crate) struct RecordTags {
    /// An entry's byte offset within the record, and where in `tags` its own end.
    entries: Vec<(u32, u32)>,
    tags: Vec<TagHash>,
}

impl RecordTags {
    /// Begins the next record.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.tags.clear();
    }

    /// Adds a tag of the entry that is to be added next.
    #[inline]
    pub(crate) fn tag(&mut self, tag: TagHash) {
        self.tags.push(tag);
    }

    /// Adds an entry that stands so many bytes behind the record's beginning, with the tags that were added before.
    #[inline]
    pub(crate) fn entry(&mut self, offset: usize) {
        self.entries.push((narrow(offset), self.tags.len() as u32));
    }

    /// Gathers what a record says, and counts the numbers that its entries take.
    pub(crate) fn read(&mut self, record: RecordView<'_>, seed: u64, sequences: &mut Sequences) {
        self.clear();
        for (offset, entry) in record.entries() {
            for (number, tag) in entry.tags.iter().enumerate() {
                let hash = TagHash::of(tag, seed);
                if number == 0 && entry.sequence.is_some() {
                    sequences.take_in(hash, tag, entry.next_sequence());
                }
                self.tag(hash);
            }
            self.entry(offset);
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct RecordAt {
    offset: u32,
    first_ordinal: u32,
}

#[derive(Debug, Clone, Copy)]
struct EntryAt {
    offset: u32,
    record: u32,
}

/// Where an entry stands in its segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Located {
    pub(crate) place: Place,
    /// Byte offsets in the segment.
    pub(crate) record_offset: usize,
    pub(crate) entry_offset: usize,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct SegmentIndex {
    first: Position,
    records: Vec<RecordAt>,
    entries: Vec<EntryAt>,
    postings: Postings,
}

impl SegmentIndex {
    pub(crate) fn new(first: Position) -> Self {
        SegmentIndex { first, records: Vec::new(), entries: Vec::new(), postings: Postings::new() }
    }

    /// Takes in the next record, which stands at byte `offset`.
    pub(crate) fn add(&mut self, offset: usize, record: &RecordTags) {
        let record_number = self.records.len() as u32;
        let first_ordinal = self.entries.len() as u32;
        self.records.push(RecordAt { offset: narrow(offset), first_ordinal });
        let (mut tags_begin, mut touched) = (0, 0);
        for (ordinal, (entry_offset, tags_end)) in (first_ordinal..).zip(&record.entries) {
            self.entries.push(EntryAt { offset: narrow(offset) + entry_offset, record: record_number });
            let tags_end = *tags_end as usize;
            if touched < tags_end && record.tags.len() > 1 {
                // Each is somewhere else, and would be waited for by itself.
                let end = (tags_end + TOUCHED_AHEAD).min(record.tags.len());
                black_box(self.postings.touch(&record.tags[touched..end]));
                touched = end;
            }
            record.tags[tags_begin..tags_end].iter().for_each(|hash| self.postings.add(*hash, ordinal));
            tags_begin = tags_end;
        }
    }

    /// The first ordinal at or after a place; the number of entries when there is none.
    pub(crate) fn ordinal_at(&self, place: Place) -> u32 {
        let Some(record) = place.position.get().checked_sub(self.first.get()) else { return 0 };
        let first_of = |record: u64| match usize::try_from(record).ok().and_then(|record| self.records.get(record)) {
            Some(record) => record.first_ordinal,
            None => self.entries.len() as u32,
        };
        let (begin, end) = (first_of(record), first_of(record.saturating_add(1)));
        begin.saturating_add(place.index).min(end)
    }

    /// Where the entry with this ordinal stands.
    pub(crate) fn locate(&self, ordinal: u32) -> Option<Located> {
        let entry = self.entries.get(ordinal as usize)?;
        let record = self.records[entry.record as usize];
        let position = Position::new(self.first.get() + u64::from(entry.record));
        Some(Located {
            place: Place::new(position, ordinal - record.first_ordinal),
            record_offset: record.offset as usize,
            entry_offset: entry.offset as usize,
        })
    }

    /// The byte offset of a record.
    pub(crate) fn record_offset(&self, position: Position) -> Option<usize> {
        let record = position.get().checked_sub(self.first.get())?;
        Some(self.records.get(usize::try_from(record).ok()?)?.offset as usize)
    }

    /// The position that the next record gets.
    pub(crate) fn end(&self) -> Position {
        Position::new(self.first.get() + self.records.len() as u64)
    }

    /// The least ordinal, at or after `from`, that every one of these tags' postings hold; of no tags, `from` itself.
    pub(crate) fn next(&self, tags: &[TagHash], from: u32) -> Option<u32> {
        let mut candidate = from;
        // Leapfrog: each list moves the candidate up to its own next ordinal, until all agree.
        'search: loop {
            if candidate as usize >= self.entries.len() {
                return None;
            }
            for tag in tags {
                let list = self.postings.get(*tag);
                let found = *list.get(list.partition_point(|ordinal| *ordinal < candidate))?;
                if found > candidate {
                    candidate = found;
                    continue 'search;
                }
            }
            return Some(candidate);
        }
    }

    /// The least ordinals from `from` on that every one of these tags' postings hold, at most `most`.
    pub(crate) fn next_few(&self, tags: &[TagHash], from: u32, most: usize) -> Vec<Located> {
        let mut lists = Vec::with_capacity(tags.len());
        for tag in tags {
            lists.push(self.postings.get(*tag));
        }
        // The shortest leads, so that the others are only looked at where it stands.
        lists.sort_unstable_by_key(|list| list.len());
        let (mut candidate, end) = (from, self.entries.len() as u32);
        let mut found = Vec::with_capacity(most);
        'search: while found.len() < most && candidate < end {
            for list in &mut lists {
                *list = skip(list, candidate);
                match list.first() {
                    None => break 'search,
                    Some(next) if *next > candidate => {
                        candidate = *next;
                        continue 'search;
                    }
                    Some(_) => {}
                }
            }
            found.push(candidate);
            candidate += 1;
        }
        found.into_iter().map(|ordinal| self.locate(ordinal).expect("a posting is the ordinal of an entry")).collect()
    }

    /// The greatest ordinal below `before` that every one of these tags' postings hold.
    pub(crate) fn previous(&self, tags: &[TagHash], before: u32) -> Option<u32> {
        let mut candidate = before.min(self.entries.len() as u32).checked_sub(1)?;
        'search: loop {
            for tag in tags {
                let list = self.postings.get(*tag);
                // Mostly the newest is looked for.
                let found = match list.last() {
                    Some(last) if *last <= candidate => *last,
                    _ => list[..list.partition_point(|ordinal| *ordinal <= candidate)].last().copied()?,
                };
                if found < candidate {
                    candidate = found;
                    continue 'search;
                }
            }
            return Some(candidate);
        }
    }

    /// The ordinals of a tag, in order; none when no entry here carries it.
    pub(crate) fn postings(&self, tag: TagHash) -> &[u32] {
        self.postings.get(tag)
    }
}

/// What is left of a list from the first ordinal on that is not below `at`. It looks near the beginning first, in steps that double: who goes
/// through a list comes by all of it once.
fn skip(list: &[u32], at: u32) -> &[u32] {
    let mut bound = 1;
    while bound < list.len() && list[bound - 1] < at {
        bound *= 2;
    }
    let (low, high) = (bound / 2, bound.min(list.len()));
    &list[low + list[low..high].partition_point(|ordinal| *ordinal < at)..]
}

fn narrow(offset: usize) -> u32 {
    u32::try_from(offset).expect("a segment is shorter than 4 GiB")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_skipped_is_below(list in proptest::collection::btree_set(0..200u32, 0..60), at in 0..210u32) {
            let list: Vec<u32> = list.into_iter().collect();
            let expected: Vec<u32> = list.iter().copied().filter(|ordinal| *ordinal >= at).collect();
            prop_assert_eq!(skip(&list, at), expected);
        }

        #[test]
        fn several_at_a_time_are_those_that_come_one_after_the_other(
            entries in proptest::collection::vec(proptest::collection::btree_set(0..4u64, 0..4), 0..60),
            tags in proptest::collection::btree_set(0..5u64, 0..4),
            from in 0..64u32,
            most in 0..20usize,
        ) {
            let mut index = SegmentIndex::new(Position::new(1));
            let mut record = RecordTags::default();
            for (number, own) in entries.iter().enumerate() {
                record.clear();
                own.iter().for_each(|tag| record.tag(TagHash(*tag)));
                record.entry(0);
                index.add(number * 100, &record);
            }
            let tags: Vec<TagHash> = tags.into_iter().map(TagHash).collect();
            let (mut expected, mut next) = (Vec::new(), from);
            while expected.len() < most
                && let Some(found) = index.next(&tags, next)
            {
                expected.push(index.locate(found).expect("it is there"));
                next = found + 1;
            }
            prop_assert_eq!(index.next_few(&tags, from, most), expected);
        }
    }
}
