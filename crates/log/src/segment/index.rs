//! The index of a segment: the offsets of its records and entries, and the entries of each tag.
//!
//! An *ordinal* is the number of an entry within the segment, from 0, in log order. The index knows
//! a tag by a 64-bit hash, seeded by the database's id. A reader that finds an entry by hash
//! compares the tag itself, so a collision costs time but never correctness. The index follows from
//! the records alone.

use std::convert::Infallible;
use std::hint::black_box;
use std::ops::Range;

use quire_model::{Entry, Place, Position, Tag};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::HEADER_BYTES;
use super::postings::PostingTable;
use crate::append::sequences::Sequences;
use crate::record::{RecordHeader, RecordView};
use crate::search::{CANDIDATES_MAX, Candidates, TagSearch};

/// How many tags ahead of the current tag the index prefetches memory for.
const TOUCHED_AHEAD: usize = 16;

/// At this count of records or tags, the writer indexes its pending records before the next turn.
/// A reader that asks for the index, and the next append, wait for that: some microseconds, less
/// than once in a hundred appends. Within one turn, four times as many may accumulate.
const RECORDS_MAX: usize = 128;
const TAGS_MAX: usize = 1024;

/// A search under at most this many tags keeps its lists on the stack.
const FEW_TAGS: usize = 8;

/// Typical bytes of a record with one small entry, for sizing the lists.
const RECORD_BYTES: usize = 256;

/// The hash of a tag in one database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TagHash(u64);

impl TagHash {
    /// The hash of an empty slot.
    pub(crate) const NONE: TagHash = TagHash(0);

    #[cfg(test)]
    pub(crate) const fn new(hash: u64) -> Self {
        TagHash(hash)
    }

    // Inlining this loads the constants for long inputs, a hundred instructions, before every loop.
    #[inline(never)]
    pub(crate) fn of(tag: Tag<'_>, seed: u64) -> Self {
        TagHash(xxh3_64_with_seed(tag.as_bytes(), seed))
    }

    pub(crate) fn get(self) -> u64 {
        self.0
    }
}

/// The input of the index: offsets of records, offsets of their entries, and the hashes of their
/// tags, in order. The writer collects it while it makes records; recovery collects it from bytes.
/// Entries and tags after the last record belong to a record under construction.
#[derive(Debug, Default)]
pub(crate) struct RecordTags {
    records: Vec<RecordExtent>,
    /// An entry's offset within its record, and the end of its tags in `tags`.
    entries: Vec<(u32, u32)>,
    tags: Vec<TagHash>,
}

/// A finished record in [`RecordTags`].
#[derive(Debug, Clone, Copy)]
struct RecordExtent {
    /// The offsets in the segment at which the record begins and ends.
    offset: u32,
    end: u32,
    /// The ends of its entries and of their tags in the two lists.
    entries_end: u32,
    tags_end: u32,
}

impl RecordTags {
    /// Reserves memory for the typical content of `bytes` bytes of records.
    fn of_bytes(bytes: usize) -> Self {
        let records = bytes / RECORD_BYTES + 1;
        RecordTags {
            records: Vec::with_capacity(records),
            entries: Vec::with_capacity(records),
            tags: Vec::with_capacity(records),
        }
    }

    /// Adds a tag of the next entry.
    #[inline]
    pub(crate) fn tag(&mut self, tag: TagHash) {
        self.tags.push(tag);
    }

    /// Adds an entry, `offset` bytes after the start of its record, with the tags added before.
    #[inline]
    pub(crate) fn entry(&mut self, offset: usize) {
        debug_assert!(self.tags.len() >= self.entries.last().map_or(0, |(_, tags_end)| *tags_end as usize));
        self.entries.push((narrow(offset), self.tags.len() as u32));
    }

    /// Adds a record at `range` of its segment, with the entries added before.
    #[inline]
    pub(crate) fn record(&mut self, range: Range<usize>) {
        debug_assert!(range.start < range.end, "a record has bytes: {range:?}");
        debug_assert!(
            self.records.last().is_none_or(|last| last.end as usize == range.start),
            "record {range:?} does not follow {:?}",
            self.records.last()
        );
        self.records.push(RecordExtent {
            offset: narrow(range.start),
            end: narrow(range.end),
            entries_end: self.entries.len() as u32,
            tags_end: self.tags.len() as u32,
        });
    }

    /// The offset of the first record; `None` when there are no records.
    #[inline]
    pub(crate) fn begin(&self) -> Option<usize> {
        self.records.first().map(|record| record.offset as usize)
    }

    /// Whether the records should be indexed before the next turn.
    #[inline]
    pub(crate) fn are_many(&self) -> bool {
        self.records.len() >= RECORDS_MAX || self.tags.len() >= TAGS_MAX
    }

    /// Whether the records must be indexed now.
    #[inline]
    pub(crate) fn are_too_many(&self) -> bool {
        self.records.len() >= 4 * RECORDS_MAX || self.tags.len() >= 4 * TAGS_MAX
    }

    /// Removes the entries and tags of the record under construction.
    #[inline]
    pub(crate) fn drop_unfinished(&mut self) {
        let (entries, tags) = self.finished();
        self.entries.truncate(entries);
        self.tags.truncate(tags);
    }

    /// Removes the finished records after they were indexed, and keeps the record under
    /// construction.
    pub(crate) fn drop_finished(&mut self) {
        let (entries, tags) = self.finished();
        self.records.clear();
        self.entries.drain(..entries);
        self.tags.drain(..tags);
        self.entries.iter_mut().for_each(|(_, tags_end)| *tags_end -= tags as u32);
        debug_assert!(self.entries.iter().all(|(_, tags_end)| *tags_end as usize <= self.tags.len()));
    }

    fn finished(&self) -> (usize, usize) {
        self.records.last().map_or((0, 0), |last| (last.entries_end as usize, last.tags_end as usize))
    }

    /// Adds the entries of `record`, and counts the numbers that they take in `sequences`.
    pub(crate) fn read(&mut self, record: RecordView<'_>, seed: u64, sequences: &mut Sequences) {
        let hash = |tag: Tag<'_>| TagHash::of(tag, seed);
        self.collect(record, hash, |entry, hash, tag| sequences.take_in(hash, tag, entry.next_sequence()));
    }

    #[inline]
    fn collect<'a>(
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
struct RecordOffset {
    offset: u32,
    first_ordinal: u32,
}

#[derive(Debug, Clone, Copy)]
struct EntryOffset {
    offset: u32,
    record: u32,
}

/// The location of an entry in its segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryLocation {
    pub(crate) place: Place,
    /// Offsets in the segment.
    pub(crate) record_offset: usize,
    pub(crate) entry_offset: usize,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct SegmentIndex {
    first: Position,
    seed: u64,
    /// The end of the indexed records, as an offset in the segment.
    end_bytes: usize,
    records: Vec<RecordOffset>,
    entries: Vec<EntryOffset>,
    postings: PostingTable,
}

impl SegmentIndex {
    /// The index of an empty segment, in a log whose tags are hashed with `seed`.
    pub(crate) fn new(first: Position, seed: u64) -> Self {
        SegmentIndex {
            first,
            seed,
            end_bytes: HEADER_BYTES,
            records: Vec::new(),
            entries: Vec::new(),
            postings: PostingTable::new(),
        }
    }

    /// The end of the indexed records, as an offset in the segment.
    pub(crate) fn end_bytes(&self) -> usize {
        self.end_bytes
    }

    /// Indexes the records that follow the indexed ones. Records of `noted` that are already
    /// indexed are skipped.
    pub(crate) fn add(&mut self, noted: &RecordTags) {
        let known = noted.records.partition_point(|record| (record.offset as usize) < self.end_bytes);
        let (before, records) = noted.records.split_at(known);
        let (Some(first), Some(last)) = (records.first(), records.last()) else { return };
        let (entries_begin, tags_begin) = before.last().map_or((0, 0), |last| (last.entries_end, last.tags_end));
        let follow = |pair: &[RecordExtent]| pair[0].end == pair[1].offset;
        let gapless = first.offset as usize == self.end_bytes && noted.records.windows(2).all(follow);
        assert!(gapless, "records are indexed without a gap");
        debug_assert!(last.entries_end as usize <= noted.entries.len() && last.tags_end as usize <= noted.tags.len());
        self.end_bytes = last.end as usize;
        let first_ordinal = self.entries.len() as u32;
        let first_record = self.records.len() as u32;
        let mut begin = entries_begin;
        self.records.extend(records.iter().map(|record| {
            let first_ordinal = first_ordinal + (std::mem::replace(&mut begin, record.entries_end) - entries_begin);
            RecordOffset { offset: record.offset, first_ordinal }
        }));
        let entries = entries_begin as usize..last.entries_end as usize;
        // One loop over all records: most records have one entry.
        let mut at = 0;
        self.entries.extend((entries_begin..).zip(&noted.entries[entries.clone()]).map(|(number, (offset, _))| {
            while records[at].entries_end <= number {
                at += 1;
            }
            EntryOffset { offset: records[at].offset + offset, record: first_record + at as u32 }
        }));
        debug_assert_eq!(self.entries.len() - first_ordinal as usize, entries.len(), "each entry has an ordinal");
        debug_assert!(
            self.entries[first_ordinal as usize..].windows(2).all(|pair| pair[0].record <= pair[1].record),
            "ordinals follow the order of the records"
        );
        self.add_tags(noted, entries, tags_begin as usize, first_ordinal);
    }

    /// Adds the tags of these entries, whose ordinals begin at `first_ordinal`, to the postings.
    fn add_tags(&mut self, noted: &RecordTags, entries: Range<usize>, mut begin: usize, first_ordinal: u32) {
        let mut touched = begin;
        for (ordinal, (_, tags_end)) in (first_ordinal..).zip(&noted.entries[entries]) {
            let end = *tags_end as usize;
            if touched < end && noted.tags.len() > 1 {
                // Each tag lies elsewhere in memory: prefetching lets the loads overlap.
                let ahead = (end + TOUCHED_AHEAD).min(noted.tags.len());
                black_box(self.postings.touch(&noted.tags[touched..ahead]));
                touched = ahead;
            }
            noted.tags[begin..end].iter().for_each(|hash| self.postings.add(*hash, ordinal));
            debug_assert!(begin <= end, "the tags of ordinal {ordinal} end at {end}, before {begin}");
            begin = end;
        }
    }

    /// Indexes the rest of `segment`, the first bytes of the file up to the end of a record.
    pub(crate) fn read(&mut self, segment: &[u8]) {
        assert!(segment.len() >= self.end_bytes, "{} bytes, {} indexed", segment.len(), self.end_bytes);
        let mut offset = self.end_bytes;
        let mut noted = RecordTags::of_bytes(segment.len() - offset);
        // Consecutive records often carry the same tag.
        let mut last: Option<(Tag<'_>, TagHash)> = None;
        while offset < segment.len() {
            let length = RecordHeader::read(&segment[offset..]).length as usize;
            let hash = |tag| match last {
                Some((same, hash)) if same == tag => hash,
                _ => last.insert((tag, TagHash::of(tag, self.seed))).1,
            };
            noted.collect(RecordView::sealed(&segment[offset..offset + length]), hash, |_, _, _| {});
            noted.record(offset..offset + length);
            offset += length;
        }
        debug_assert_eq!(offset, segment.len(), "the segment ends with a whole record");
        self.add(&noted);
        debug_assert_eq!(self.end_bytes, segment.len());
    }

    /// The first ordinal at or after a place; the count of entries when no entry follows.
    pub(crate) fn ordinal_at(&self, place: Place) -> u32 {
        let Some(record) = place.position.get().checked_sub(self.first.get()) else { return 0 };
        let first_of = |record: u64| match usize::try_from(record).ok().and_then(|record| self.records.get(record)) {
            Some(record) => record.first_ordinal,
            None => self.entries.len() as u32,
        };
        let (begin, end) = (first_of(record), first_of(record.saturating_add(1)));
        begin.saturating_add(place.index).min(end)
    }

    /// The count of entries.
    pub(crate) fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Locates the entry with this ordinal.
    #[inline]
    pub(crate) fn locate(&self, ordinal: u32) -> Option<EntryLocation> {
        let entry = self.entries.get(ordinal as usize)?;
        let record = self.records[entry.record as usize];
        debug_assert!(record.first_ordinal <= ordinal, "ordinal {ordinal} comes before its record's entries");
        let position = Position::new(self.first.get() + u64::from(entry.record));
        Some(EntryLocation {
            place: Place::new(position, ordinal - record.first_ordinal),
            record_offset: record.offset as usize,
            entry_offset: entry.offset as usize,
        })
    }

    /// The offset of a record.
    pub(crate) fn record_offset(&self, position: Position) -> Option<usize> {
        let record = position.get().checked_sub(self.first.get())?;
        Some(self.records.get(usize::try_from(record).ok()?)?.offset as usize)
    }

    /// The position of the next record.
    pub(crate) fn end(&self) -> Position {
        Position::new(self.first.get() + self.records.len() as u64)
    }

    /// Finds the least ordinal at or after `from` that carries all `tags`; `from` itself without
    /// tags.
    pub(crate) fn next(&self, tags: &[TagHash], from: u32, candidates: &mut Candidates) -> TagSearch {
        if from as usize >= self.entries.len() {
            return TagSearch::Ended;
        }
        match tags {
            [] => TagSearch::Found(from),
            [tag] => {
                let list = self.postings.get(*tag);
                let found = list.get(list.partition_point(|ordinal| *ordinal < from));
                found.map_or(TagSearch::Ended, |found| TagSearch::Found(*found))
            }
            _ => self.with_lists(tags, |lists| next_of_all(lists, from, candidates)),
        }
    }

    /// Finds the least `most` ordinals from `from` on that carry all `tags`, as far as the
    /// candidates of one part reach.
    pub(crate) fn next_few(
        &self,
        tags: &[TagHash],
        from: u32,
        most: usize,
        candidates: &mut Candidates,
    ) -> Vec<EntryLocation> {
        let locate = |ordinal: u32| self.locate(ordinal).expect("a posting is the ordinal of an entry");
        let most = most.min(CANDIDATES_MAX as usize);
        if let [tag] = tags {
            let list = skip(self.postings.get(*tag), from);
            return list[..most.min(list.len())].iter().map(|ordinal| locate(*ordinal)).collect();
        }
        let end = self.entries.len() as u32;
        let mut found = Vec::with_capacity(most);
        self.with_lists(tags, |lists| {
            let mut from = from;
            while found.len() < most
                && from < end
                && let TagSearch::Found(next) = next_of_all(lists, from, candidates)
            {
                found.push(next);
                from = next + 1;
            }
        });
        debug_assert!(found.is_sorted_by(|a, b| a < b), "entries are found in log order");
        found.into_iter().map(locate).collect()
    }

    /// Finds the greatest ordinal below `before` that carries all `tags`.
    pub(crate) fn previous(&self, tags: &[TagHash], before: u32, candidates: &mut Candidates) -> TagSearch {
        let Some(newest) = before.min(self.entries.len() as u32).checked_sub(1) else { return TagSearch::Ended };
        self.with_lists(tags, |lists| previous_of_all(lists, newest, candidates))
    }

    /// Passes the ordinals of each tag to `search`, the shortest list first: the other lists are
    /// read only at its ordinals.
    fn with_lists<R>(&self, tags: &[TagHash], search: impl FnOnce(&mut [&[u32]]) -> R) -> R {
        let mut few: [&[u32]; FEW_TAGS] = [&[]; FEW_TAGS];
        let mut many = Vec::new();
        let lists = if tags.len() <= FEW_TAGS {
            few.iter_mut().zip(tags).for_each(|(list, tag)| *list = self.postings.get(*tag));
            &mut few[..tags.len()]
        } else {
            many.extend(tags.iter().map(|tag| self.postings.get(*tag)));
            &mut many[..]
        };
        lists.sort_unstable_by_key(|list| list.len());
        search(lists)
    }

    /// The ordinals of a tag, in order; empty when no entry carries it.
    pub(crate) fn postings(&self, tag: TagHash) -> &[u32] {
        self.postings.get(tag)
    }
}

/// Finds the least ordinal at or after `candidate` that is in all lists. Each list keeps its part
/// from that ordinal on.
fn next_of_all(lists: &mut [&[u32]], mut candidate: u32, candidates: &mut Candidates) -> TagSearch {
    // Leapfrog: each list in turn moves the candidate up to its own next ordinal, until all agree.
    'search: loop {
        for list in &mut *lists {
            *list = skip(list, candidate);
            match list.first() {
                None => return TagSearch::Ended,
                Some(next) if *next > candidate => {
                    candidate = *next;
                    if !candidates.take() {
                        return TagSearch::Paused(candidate);
                    }
                    continue 'search;
                }
                Some(_) => {}
            }
        }
        return TagSearch::Found(candidate);
    }
}

/// Finds the greatest ordinal at or before `candidate` that is in all lists. Each list keeps its
/// part up to that ordinal.
fn previous_of_all(lists: &mut [&[u32]], mut candidate: u32, candidates: &mut Candidates) -> TagSearch {
    'search: loop {
        for list in &mut *lists {
            *list = skip_back(list, candidate);
            match list.last() {
                None => return TagSearch::Ended,
                Some(previous) if *previous < candidate => {
                    candidate = *previous;
                    if !candidates.take() {
                        // The search continues before an ordinal.
                        return TagSearch::Paused(candidate + 1);
                    }
                    continue 'search;
                }
                Some(_) => {}
            }
        }
        return TagSearch::Found(candidate);
    }
}

/// Returns the rest of `list` from the first ordinal at or after `at`. Searches in doubling steps
/// from the front, so that a scan over the whole list costs one pass.
fn skip(list: &[u32], at: u32) -> &[u32] {
    let mut bound = 1;
    while bound < list.len() && list[bound - 1] < at {
        bound *= 2;
    }
    let (low, high) = (bound / 2, bound.min(list.len()));
    let rest = &list[low + list[low..high].partition_point(|ordinal| *ordinal < at)..];
    debug_assert!(rest.first().is_none_or(|ordinal| *ordinal >= at), "the search for {at} stops too early");
    rest
}

/// Returns the part of `list` up to the last ordinal at or before `at`. Searches in doubling steps
/// from the end.
fn skip_back(list: &[u32], at: u32) -> &[u32] {
    let mut bound = 1;
    while bound < list.len() && list[list.len() - bound] > at {
        bound *= 2;
    }
    let (low, high) = (list.len() - bound.min(list.len()), list.len() - bound / 2);
    let part = &list[..low + list[low..high].partition_point(|ordinal| *ordinal <= at)];
    debug_assert!(part.last().is_none_or(|ordinal| *ordinal <= at), "the search for {at} stops too early");
    part
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
        fn a_search_in_doubling_steps_skips_exactly_the_ordinals_before_or_after(list in proptest::collection::btree_set(0..200u32, 0..60), at in 0..210u32) {
            let list: Vec<u32> = list.into_iter().collect();
            let expected: Vec<u32> = list.iter().copied().filter(|ordinal| *ordinal >= at).collect();
            prop_assert_eq!(skip(&list, at), expected);
            let expected: Vec<u32> = list.iter().copied().filter(|ordinal| *ordinal <= at).collect();
            prop_assert_eq!(skip_back(&list, at), expected);
        }

        #[test]
        fn a_batch_equals_single_searches(
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
                // Adding a record twice indexes it once.
                if number % at_once == 0 {
                    index.add(&records);
                }
                if number % (2 * at_once) == 0 {
                    records.drop_finished();
                }
            }
            index.add(&records);
            let tags: Vec<TagHash> = tags.into_iter().map(TagHash).collect();
            let carries = |ordinal: &u32| {
                entries.get(*ordinal as usize).is_some_and(|own| tags.iter().all(|tag| own.contains(&tag.get())))
            };
            let (mut expected, mut next) = (Vec::new(), from);
            while expected.len() < most
                && let TagSearch::Found(found) = index.next(&tags, next, &mut Candidates::new())
            {
                prop_assert_eq!(Some(found), (next..64).find(carries));
                expected.push(index.locate(found).expect("it is there"));
                next = found + 1;
            }
            prop_assert_eq!(index.next_few(&tags, from, most, &mut Candidates::new()), expected);
            let before = (0..from).rfind(carries).map_or(TagSearch::Ended, TagSearch::Found);
            prop_assert_eq!(index.previous(&tags, from, &mut Candidates::new()), before);
        }
    }

    /// An index of entries that carry tag 1 and tag 2 in turn.
    fn alternating(entries: u32) -> SegmentIndex {
        let mut index = SegmentIndex::new(Position::new(1), 0);
        let mut records = RecordTags::default();
        for number in 0..entries {
            records.tag(TagHash(1 + u64::from(number % 2)));
            records.entry(0);
            let begin = HEADER_BYTES + number as usize * 100;
            records.record(begin..begin + 100);
        }
        index.add(&records);
        index
    }

    #[test]
    fn a_search_pauses_after_its_candidates_and_continues_there() {
        let (index, tags) = (alternating(1_000), [TagHash(1), TagHash(2)]);
        let (mut from, mut pauses) = (0, 0);
        while let TagSearch::Paused(at) = index.next(&tags, from, &mut Candidates::new()) {
            assert!(at > from && at <= from + CANDIDATES_MAX + 1, "the search from {from} pauses at {at}");
            (from, pauses) = (at, pauses + 1);
        }
        assert_eq!(pauses, 1_000 / CANDIDATES_MAX);
        let (mut before, mut pauses) = (1_000, 0);
        while let TagSearch::Paused(at) = index.previous(&tags, before, &mut Candidates::new()) {
            assert!(at < before && at + CANDIDATES_MAX + 1 >= before, "the search before {before} pauses at {at}");
            (before, pauses) = (at, pauses + 1);
        }
        assert_eq!(pauses, 1_000 / CANDIDATES_MAX);
        let mut candidates = Candidates::new();
        assert_eq!(index.next_few(&tags, 0, 16, &mut candidates), []);
        assert_eq!(candidates.steps(), u64::from(CANDIDATES_MAX) + 1);
    }
}
