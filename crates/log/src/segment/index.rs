//! The index of a segment: where its records and entries stand, and which entries carry a tag.
//!
//! Entries are numbered within the segment, from 0, in log order (their *ordinals*). A tag is known by a 64-bit hash that is
//! seeded by the database's id; who finds an entry by it compares the tag itself, so a collision costs time, never a wrong
//! answer. The index is derived from the records alone.

use std::convert::Infallible;
use std::hint::black_box;
use std::ops::Range;

use quire_model::{Entry, Place, Position, Tag};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::HEADER_BYTES;
use super::postings::Postings;
use crate::append::sequences::Sequences;
use crate::record::{RecordHeader, RecordView};

/// How many tags ahead of the one that is taken in memory is asked for.
const TOUCHED_AHEAD: usize = 16;

/// How many records wait to be taken in before the next turn to append is taken, and how many of their tags: whoever asks waits until they
/// are, and so does who appends next (some microseconds, less than once in a hundred appends). Where more come before that, they wait for
/// four times as many.
const RECORDS_MAX: usize = 128;
const TAGS_MAX: usize = 1024;

/// How many bytes a record of one small entry takes, more or less: of others there are fewer in as many bytes, or room is made.
const RECORD_BYTES: usize = 256;

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

/// What the index takes in of records, in their order: where they stand, where their entries stand within them, and the hashes of
/// their tags. Gathered while the records are made, or from their bytes. The last one may be in the making.
#[derive(Debug, Default)]
pub(crate) struct RecordTags {
    records: Vec<Noted>,
    /// An entry's byte offset within its record, and where in `tags` its own end.
    entries: Vec<(u32, u32)>,
    tags: Vec<TagHash>,
}

/// A record that is whole.
#[derive(Debug, Clone, Copy)]
struct Noted {
    /// Where it begins in its segment, and where it ends.
    offset: u32,
    end: u32,
    /// Where its entries end, and their tags.
    entries_end: u32,
    tags_end: u32,
}

impl RecordTags {
    /// With room for what so many bytes of records most likely hold.
    fn of_bytes(bytes: usize) -> Self {
        let records = bytes / RECORD_BYTES + 1;
        RecordTags {
            records: Vec::with_capacity(records),
            entries: Vec::with_capacity(records),
            tags: Vec::with_capacity(records),
        }
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

    /// Adds a record, which stands at these bytes of its segment, with the entries that were added before.
    #[inline]
    pub(crate) fn record(&mut self, range: Range<usize>) {
        self.records.push(Noted {
            offset: narrow(range.start),
            end: narrow(range.end),
            entries_end: self.entries.len() as u32,
            tags_end: self.tags.len() as u32,
        });
    }

    /// Where the first record begins; `None` when there is none.
    #[inline]
    pub(crate) fn begin(&self) -> Option<usize> {
        self.records.first().map(|record| record.offset as usize)
    }

    /// Whether there are so many that they are to be taken in soon.
    #[inline]
    pub(crate) fn are_many(&self) -> bool {
        self.records.len() >= RECORDS_MAX || self.tags.len() >= TAGS_MAX
    }

    /// Whether there are so many that they are to be taken in now.
    #[inline]
    pub(crate) fn are_too_many(&self) -> bool {
        self.records.len() >= 4 * RECORDS_MAX || self.tags.len() >= 4 * TAGS_MAX
    }

    /// Lets go of what belongs to no record: the one in the making comes to nothing, or is one already.
    #[inline]
    pub(crate) fn drop_unfinished(&mut self) {
        let (entries, tags) = self.finished();
        self.entries.truncate(entries);
        self.tags.truncate(tags);
    }

    /// Lets go of the records, which were taken in, but for the one in the making.
    pub(crate) fn drop_finished(&mut self) {
        let (entries, tags) = self.finished();
        self.records.clear();
        self.entries.drain(..entries);
        self.tags.drain(..tags);
        self.entries.iter_mut().for_each(|(_, tags_end)| *tags_end -= tags as u32);
    }

    fn finished(&self) -> (usize, usize) {
        self.records.last().map_or((0, 0), |last| (last.entries_end as usize, last.tags_end as usize))
    }

    /// Adds the entries of a record that is to be added next, and counts the numbers that they take.
    pub(crate) fn read(&mut self, record: RecordView<'_>, seed: u64, sequences: &mut Sequences) {
        let hash = |tag: Tag<'_>| TagHash::of(tag, seed);
        self.gather(record, hash, |entry, hash, tag| sequences.take_in(hash, tag, entry.next_sequence()));
    }

    #[inline]
    fn gather<'a>(
        &mut self,
        record: RecordView<'a>,
        mut hash: impl FnMut(Tag<'a>) -> TagHash,
        mut numbered: impl FnMut(&Entry<'_>, TagHash, Tag<'_>),
    ) {
        let Ok(()) = record.each(|entry_offset, entry| {
            for (number, tag) in entry.tags.iter().enumerate() {
                let hash = hash(tag);
                if number == 0 && entry.sequence.is_some() {
                    numbered(entry, hash, tag);
                }
                self.tag(hash);
            }
            self.entry(entry_offset);
            Ok::<_, Infallible>(())
        });
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
    seed: u64,
    /// Where the records that were taken in end, in the segment.
    end_bytes: usize,
    records: Vec<RecordAt>,
    entries: Vec<EntryAt>,
    postings: Postings,
}

impl SegmentIndex {
    /// The index of a segment without a record, in a log whose tags are hashed with `seed`.
    pub(crate) fn new(first: Position, seed: u64) -> Self {
        SegmentIndex {
            first,
            seed,
            end_bytes: HEADER_BYTES,
            records: Vec::new(),
            entries: Vec::new(),
            postings: Postings::new(),
        }
    }

    /// Where the records that were taken in end, in the segment.
    pub(crate) fn end_bytes(&self) -> usize {
        self.end_bytes
    }

    /// Takes in those records that follow what was taken in: the first of them may have been already.
    pub(crate) fn add(&mut self, noted: &RecordTags) {
        let known = noted.records.partition_point(|record| (record.offset as usize) < self.end_bytes);
        let (before, records) = noted.records.split_at(known);
        let (Some(first), Some(last)) = (records.first(), records.last()) else { return };
        let (entries_begin, tags_begin) = before.last().map_or((0, 0), |last| (last.entries_end, last.tags_end));
        let follow = |pair: &[Noted]| pair[0].end == pair[1].offset;
        let gapless = first.offset as usize == self.end_bytes && noted.records.windows(2).all(follow);
        assert!(gapless, "records are taken in without a gap");
        self.end_bytes = last.end as usize;
        let first_ordinal = self.entries.len() as u32;
        let first_record = self.records.len() as u32;
        let mut begin = entries_begin;
        self.records.extend(records.iter().map(|record| {
            let first_ordinal = first_ordinal + (std::mem::replace(&mut begin, record.entries_end) - entries_begin);
            RecordAt { offset: record.offset, first_ordinal }
        }));
        let entries = entries_begin as usize..last.entries_end as usize;
        // In one loop over all: most records have one entry.
        let mut at = 0;
        self.entries.extend((entries_begin..).zip(&noted.entries[entries.clone()]).map(|(number, (offset, _))| {
            while records[at].entries_end <= number {
                at += 1;
            }
            EntryAt { offset: records[at].offset + offset, record: first_record + at as u32 }
        }));
        self.add_tags(noted, entries, tags_begin as usize, first_ordinal);
    }

    /// Adds the tags of these entries, which are numbered from an ordinal on, to the postings.
    fn add_tags(&mut self, noted: &RecordTags, entries: Range<usize>, mut begin: usize, first_ordinal: u32) {
        let mut touched = begin;
        for (ordinal, (_, tags_end)) in (first_ordinal..).zip(&noted.entries[entries]) {
            let end = *tags_end as usize;
            if touched < end && noted.tags.len() > 1 {
                // Each is somewhere else, and would be waited for by itself.
                let ahead = (end + TOUCHED_AHEAD).min(noted.tags.len());
                black_box(self.postings.touch(&noted.tags[touched..ahead]));
                touched = ahead;
            }
            noted.tags[begin..end].iter().for_each(|hash| self.postings.add(*hash, ordinal));
            begin = end;
        }
    }

    /// Takes in what was not taken in yet of these first bytes of the segment, where whole records end.
    pub(crate) fn read(&mut self, segment: &[u8]) {
        let mut offset = self.end_bytes;
        let mut noted = RecordTags::of_bytes(segment.len() - offset);
        // Many records in a row carry the same tag.
        let mut last: Option<(Tag<'_>, TagHash)> = None;
        while offset < segment.len() {
            let length = RecordHeader::read(&segment[offset..]).length as usize;
            let hash = |tag| match last {
                Some((same, hash)) if same == tag => hash,
                _ => last.insert((tag, TagHash::of(tag, self.seed))).1,
            };
            noted.gather(RecordView::sealed(&segment[offset..offset + length]), hash, |_, _, _| {});
            noted.record(offset..offset + length);
            offset += length;
        }
        self.add(&noted);
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
    #[inline]
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
        if candidate as usize >= self.entries.len() {
            return None;
        }
        // Leapfrog: each list in turn moves the candidate up to its own next ordinal, until all agree.
        let (mut agree, mut turn) = (0, 0);
        while agree < tags.len() {
            let list = self.postings.get(tags[turn]);
            let found = *list.get(list.partition_point(|ordinal| *ordinal < candidate))?;
            agree = if found > candidate { 1 } else { agree + 1 };
            candidate = found;
            turn = if turn + 1 == tags.len() { 0 } else { turn + 1 };
        }
        Some(candidate)
    }

    /// The least ordinals from `from` on that every one of these tags' postings hold, at most `most`.
    pub(crate) fn next_few(&self, tags: &[TagHash], from: u32, most: usize) -> Vec<Located> {
        let locate = |ordinal: u32| self.locate(ordinal).expect("a posting is the ordinal of an entry");
        if let [tag] = tags {
            let list = skip(self.postings.get(*tag), from);
            return list[..most.min(list.len())].iter().map(|ordinal| locate(*ordinal)).collect();
        }
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
        found.into_iter().map(locate).collect()
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
            at_once in 1..8usize,
        ) {
            let mut index = SegmentIndex::new(Position::new(1), 0);
            let mut records = RecordTags::default();
            for (number, own) in entries.iter().enumerate() {
                own.iter().for_each(|tag| records.tag(TagHash(*tag)));
                records.entry(0);
                let begin = HEADER_BYTES + number * 100;
                records.record(begin..begin + 100);
                // What was taken in already stays what it is.
                if number % at_once == 0 {
                    index.add(&records);
                }
                if number % (2 * at_once) == 0 {
                    records.drop_finished();
                }
            }
            index.add(&records);
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
