//! Lookups in a sealed index: the location of a record, the entries of a tag, the entry of a
//! number.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use quire_mapped::Appender;
use quire_model::{Position, Sequence, Tag};

use super::blocks::{BadBlock, IndexBlocks, checksums};
use super::build::{BuiltIndex, NUMBERED};
use super::filter::TagFilter;
use super::header::{ENTRY_BYTES, IndexHeader, RECORD_BYTES, TAG_BYTES};
use super::lists::{Posting, PostingList};
use crate::search::{Candidates, TagSearch, count_while};
use crate::segment::TagHash;

/// An index with a verified header. Its body is verified as it is read.
#[derive(Debug)]
pub(super) struct SealedIndex {
    pub(super) header: IndexHeader,
    pub(super) blocks: IndexBlocks,
    /// Rows of recently found tags by their hashes, because a scan looks up the same tags
    /// repeatedly.
    hints: [AtomicU32; HINTS],
}

const HINTS: usize = 64;

/// Scales a hash to a row of a table of `tags` rows.
fn scaled(of: u64, tags: u32) -> u32 {
    let row = ((u128::from(of) * u128::from(tags)) >> 64) as u32;
    debug_assert!(row < tags.max(1), "row {row} of {tags}");
    row
}

/// The location of a record in a sealed segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordLocation {
    pub(super) number: u32,
    pub(super) position: Position,
    pub(super) offset: usize,
    pub(super) first_ordinal: u32,
}

/// The entries of a tag.
#[derive(Debug, Clone, Copy)]
pub(super) enum Postings<'a> {
    One(u32),
    Many(PostingList<'a>),
}

/// Most bytes of the table of numbers that are searched to avoid reading an entry: those of several
/// dozen tags.
pub(super) const GLANCE_BYTES: usize = 4 << 10;

/// The numbers that the entries of a segment take from a tag.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TagNumbers<'a> {
    pub(crate) tag: Tag<'a>,
    /// The first number in the segment, and the number after the last.
    pub(crate) first: Sequence,
    pub(crate) next: Sequence,
    /// The position of the first entry.
    pub(crate) position: Position,
}

impl SealedIndex {
    /// The index that was just built, without a file.
    pub(super) fn in_memory(built: &BuiltIndex) -> io::Result<Self> {
        assert_eq!(built.body.len() as u64, built.header.body_bytes(), "the header states the length of the body");
        let mut body = Appender::in_memory(built.body.len())?;
        body.bytes_mut(0..built.body.len()).copy_from_slice(&built.body);
        body.settle(built.body.len());
        let blocks = IndexBlocks::new(body.view(), 0, built.body.len(), checksums(&built.body).collect());
        Ok(SealedIndex::new(built.header, blocks))
    }

    pub(super) fn new(header: IndexHeader, blocks: IndexBlocks) -> Self {
        SealedIndex { header, blocks, hints: [const { AtomicU32::new(u32::MAX) }; HINTS] }
    }

    /// The record number `number` of the segment.
    pub(super) fn record(&self, number: u32) -> Result<RecordLocation, BadBlock> {
        let at = number as usize * RECORD_BYTES;
        let fixed = self.part(0..self.header.entries_at(), at, RECORD_BYTES)?;
        let u32_at = |at: usize| u32::from_le_bytes(fixed[at..at + 4].try_into().expect("four bytes"));
        let position = Position::new(self.header.first.get() + u64::from(u32_at(0)));
        Ok(RecordLocation { number, position, offset: u32_at(4) as usize, first_ordinal: u32_at(8) })
    }

    /// The number of the first record at or after a position; the count of records if none follows.
    pub(super) fn record_from(&self, position: Position) -> Result<u32, BadBlock> {
        let above = position.get().saturating_sub(self.header.first.get());
        let above = u32::try_from(above).unwrap_or(u32::MAX).min(self.header.records);
        if u64::from(self.header.records) == self.header.end.get() - self.header.first.get() {
            return Ok(above);
        }
        // Some records were dropped, so a record can only lie earlier than its position suggests.
        let (mut low, mut high) = (0, above);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.record(middle)?.position < position { low = middle + 1 } else { high = middle }
        }
        debug_assert!(low <= self.header.records, "record {low} of {}", self.header.records);
        Ok(low)
    }

    /// The offset of an entry, and the number of its record.
    pub(super) fn entry(&self, ordinal: u32) -> Result<(usize, u32), BadBlock> {
        let at = self.header.entries_at() + ordinal as usize * ENTRY_BYTES;
        let fixed = self.part(self.header.entries_at()..self.header.tags_at(), at, ENTRY_BYTES)?;
        let u32_at = |at: usize| u32::from_le_bytes(fixed[at..at + 4].try_into().expect("four bytes"));
        Ok((u32_at(0) as usize, u32_at(4)))
    }

    /// Prefetches the memory that locates an entry. The result has no meaning.
    pub(super) fn touch_entry(&self, ordinal: u32) -> u8 {
        let header = &self.header;
        let record = u64::from(ordinal) * u64::from(header.records) / u64::from(header.entries.max(1));
        let entry_at = header.entries_at() + ordinal as usize * ENTRY_BYTES;
        self.blocks.touch(record as usize * RECORD_BYTES) ^ self.blocks.touch(entry_at)
    }

    /// As [`SealedIndex::touch_entry`], for an entry of a record, on the assumption of equally long
    /// records.
    pub(super) fn touch_entry_of(&self, record: u32, index: u32) -> u8 {
        let header = &self.header;
        let before = u64::from(record) * u64::from(header.entries) / u64::from(header.records.max(1));
        self.blocks.touch(header.entries_at() + (before as usize + index as usize) * ENTRY_BYTES)
    }

    /// The entries with a tag of this hash.
    pub(super) fn postings(&self, tag: TagHash) -> Result<Option<Postings<'_>>, BadBlock> {
        let Some(at) = self.find_tag(tag.get())? else { return Ok(None) };
        let at = self.header.tags_at() + at as usize * TAG_BYTES;
        let (count, value) = (self.blocks.u32(at + 8)?, self.blocks.u32(at + 12)?);
        if count == 1 {
            return Ok(Some(Postings::One(value)));
        }
        Ok(Some(Postings::Many(PostingList {
            blocks: &self.blocks,
            at: self.header.lists_at() + value as usize,
            end: self.header.numbered_at(),
            count: count & !NUMBERED,
            numbered: count & NUMBERED != 0,
        })))
    }

    /// The row of a hash in the table of tags. Tries the row of the last search first. Hashes are
    /// spread evenly, so the search interpolates twice and then widens from there.
    fn find_tag(&self, hash: u64) -> Result<Option<u32>, BadBlock> {
        let tags = self.header.tags;
        let hash_at = |at: u32| self.blocks.u64(self.header.tags_at() + at as usize * TAG_BYTES);
        let hint = &self.hints[hash as usize % HINTS];
        let hinted = hint.load(Ordering::Relaxed);
        if hinted < tags && hash_at(hinted)? == hash {
            return Ok(Some(hinted));
        }
        if tags == 0 {
            return Ok(None);
        }
        let mut expected = scaled(hash, tags);
        let there = hash_at(expected)?;
        expected = if there <= hash {
            expected.saturating_add(scaled(hash - there, tags)).min(tags - 1)
        } else {
            expected.saturating_sub(scaled(there - hash, tags))
        };
        let found = count_while(tags as usize, expected as usize, |at| Ok(hash_at(at as u32)? < hash))? as u32;
        if found == tags || hash_at(found)? != hash {
            return Ok(None);
        }
        hint.store(found, Ordering::Relaxed);
        Ok(Some(found))
    }

    /// Finds the least ordinal at or after `from` that carries all `tags`; `from` itself without
    /// tags.
    pub(super) fn next(&self, tags: &[TagHash], from: u32, candidates: &mut Candidates) -> Result<TagSearch, BadBlock> {
        let mut candidate = from;
        if candidate >= self.header.entries {
            return Ok(TagSearch::Ended);
        }
        // Leapfrog: each list in turn moves the candidate up to its own next ordinal, until all
        // agree.
        let (mut agree, mut turn) = (0, 0);
        while agree < tags.len() {
            let Some(postings) = self.postings(tags[turn])? else { return Ok(TagSearch::Ended) };
            let Some(found) = postings.next(candidate)? else { return Ok(TagSearch::Ended) };
            let is_new = found > candidate;
            agree = if is_new { 1 } else { agree + 1 };
            candidate = found;
            turn = if turn + 1 == tags.len() { 0 } else { turn + 1 };
            if is_new && agree < tags.len() && !candidates.take() {
                return Ok(TagSearch::Paused(candidate));
            }
        }
        Ok(TagSearch::Found(candidate))
    }

    /// Finds the greatest ordinal below `before` that carries all `tags`.
    pub(super) fn previous(
        &self,
        tags: &[TagHash],
        before: u32,
        candidates: &mut Candidates,
    ) -> Result<TagSearch, BadBlock> {
        let Some(mut candidate) = before.min(self.header.entries).checked_sub(1) else { return Ok(TagSearch::Ended) };
        let (mut agree, mut turn) = (0, 0);
        while agree < tags.len() {
            let Some(postings) = self.postings(tags[turn])? else { return Ok(TagSearch::Ended) };
            let Some(found) = postings.previous(candidate)? else { return Ok(TagSearch::Ended) };
            let is_new = found < candidate;
            agree = if is_new { 1 } else { agree + 1 };
            candidate = found;
            turn = if turn + 1 == tags.len() { 0 } else { turn + 1 };
            if is_new && agree < tags.len() && !candidates.take() {
                return Ok(TagSearch::Paused(candidate + 1));
            }
        }
        Ok(TagSearch::Found(candidate))
    }

    /// The numbers of each tag with sequences, in the order of the tags' bytes.
    pub(super) fn numbered(&self) -> Result<Vec<TagNumbers<'_>>, BadBlock> {
        let at = self.header.numbered_at();
        let mut bytes = self.blocks.bytes(at..self.header.filter_at())?;
        let mut all = Vec::new();
        while !bytes.is_empty() {
            let (numbered, rest) =
                TagNumbers::split(bytes).ok_or_else(|| self.blocks.bad(at, "invalid numbers of a tag"))?;
            all.push(numbered);
            bytes = rest;
        }
        Ok(all)
    }

    /// Whether all numbers of a tag in the segment lie before `number`. Returns `false` without a
    /// search when the table of numbers exceeds `bytes_max`.
    pub(super) fn ends_before(&self, tag: Tag<'_>, number: Sequence, bytes_max: usize) -> Result<bool, BadBlock> {
        let numbered = self.header.numbered_at()..self.header.filter_at();
        if numbered.len() > bytes_max {
            return Ok(false);
        }
        let mut bytes = self.blocks.bytes(numbered)?;
        while let Some((numbered, rest)) = TagNumbers::split(bytes) {
            if numbered.tag == tag {
                return Ok(numbered.next <= number);
            }
            bytes = rest;
        }
        Ok(false)
    }

    pub(super) fn filter(&self) -> Result<TagFilter, BadBlock> {
        let at = self.header.filter_at();
        let bytes = self.blocks.bytes(at..at + self.header.filter_bytes as usize)?;
        TagFilter::decode(bytes).ok_or_else(|| self.blocks.bad(at, "invalid filter"))
    }

    /// Bytes of a part of the body. A range beyond the part comes from an invalid reference.
    fn part(&self, part: Range<usize>, at: usize, bytes: usize) -> Result<&[u8], BadBlock> {
        debug_assert!(part.start <= at, "byte {at} lies before {part:?}");
        if at + bytes > part.end {
            return Err(self.blocks.bad(part.start, "invalid reference to an entry or a record"));
        }
        self.blocks.bytes(at..at + bytes)
    }
}

impl Postings<'_> {
    /// The first ordinal at or after `ordinal`.
    pub(super) fn next(&self, ordinal: u32) -> Result<Option<u32>, BadBlock> {
        match self {
            Postings::One(only) => Ok(Some(*only).filter(|only| *only >= ordinal)),
            Postings::Many(list) => Ok(list.next(ordinal)?.map(|posting| posting.ordinal)),
        }
    }

    /// The last ordinal at or before `ordinal`.
    pub(super) fn previous(&self, ordinal: u32) -> Result<Option<u32>, BadBlock> {
        match self {
            Postings::One(only) => Ok(Some(*only).filter(|only| *only <= ordinal)),
            Postings::Many(list) => Ok(list.previous(ordinal)?.map(|posting| posting.ordinal)),
        }
    }

    /// The count of entries.
    pub(super) fn count(&self) -> u32 {
        match self {
            Postings::One(_) => 1,
            Postings::Many(list) => list.count,
        }
    }

    pub(super) fn is_one(&self) -> bool {
        matches!(self, Postings::One(_))
    }

    /// Estimates the ordinal of a number; see [`PostingList::touch_number`].
    pub(super) fn touch_number(&self, number: Sequence) -> Option<u32> {
        match self {
            Postings::Many(list) => list.touch_number(number.get()),
            Postings::One(_) => None,
        }
    }

    /// The last entry of a numbered list with at most this number, and whether it is the last of
    /// all. `None` also for a list without numbers.
    pub(super) fn numbered_at_most(&self, number: Sequence) -> Result<Option<(Posting, bool)>, BadBlock> {
        match self {
            Postings::Many(list) if list.numbered => list.numbered_at_most(number.get()),
            _ => Ok(None),
        }
    }
}

impl<'a> TagNumbers<'a> {
    /// Reads the numbers of all tags, up to the first that is invalid.
    pub(crate) fn decoded(mut bytes: &'a [u8]) -> impl Iterator<Item = Self> {
        std::iter::from_fn(move || {
            let (numbered, rest) = TagNumbers::split(bytes)?;
            bytes = rest;
            Some(numbered)
        })
    }

    fn split(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (length, rest) = bytes.split_first_chunk::<2>()?;
        let (tag, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        let (fixed, rest) = rest.split_first_chunk::<24>()?;
        let u64_at = |at: usize| u64::from_le_bytes(fixed[at..at + 8].try_into().expect("eight bytes"));
        if tag.is_empty() || tag.len() > quire_model::TAG_BYTES_MAX {
            return None;
        }
        let numbered = TagNumbers {
            tag: Tag::new(tag),
            first: Sequence::new(u64_at(0)),
            next: Sequence::new(u64_at(8)),
            position: Position::new(u64_at(16)),
        };
        Some((numbered, rest))
    }
}
