//! A sealed segment and its index, mapped: the access path of reads.
//!
//! A record is verified when it is first read, once while the segment is mapped. A read therefore
//! returns the written entry, or an error with the damage. In a packed segment, the frame of the
//! record is unpacked first.

use std::hint::black_box;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use quire_model::{Entry, Place, Position, Sequence, Tag};

use super::blocks::BadBlock;
use super::build::{BadRecord, RecordSource};
use super::image::SegmentImage;
use super::index::{GLANCE_BYTES, Postings, RecordLocation, SealedIndex};
use crate::record::{HEADER_BYTES, RecordFault, RecordView, entry_at};
use crate::search::{Candidates, TagSearch};
use crate::segment::{COMPACTED_HEADER_BYTES, TagHash};

/// The reason why a read of a sealed segment failed.
#[derive(Debug)]
pub(crate) enum Flaw {
    /// The index is damaged and must be rebuilt.
    Index(BadBlock),
    /// A record is damaged.
    Record(BadRecord),
}

impl From<BadBlock> for Flaw {
    fn from(bad: BadBlock) -> Self {
        Flaw::Index(bad)
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct OpenSegment {
    pub(super) image: SegmentImage,
    pub(super) index: SealedIndex,
    /// A bit for each record, set once the record was verified.
    verified: Vec<AtomicU64>,
    /// Whether a read began since the archive last looked for segments to close.
    pub(super) used: AtomicBool,
}

impl OpenSegment {
    pub(super) fn new(image: SegmentImage, index: SealedIndex) -> Self {
        debug_assert!(index.header.first <= index.header.end, "a segment ends after its first record");
        let verified = (0..index.header.records.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        OpenSegment { image, index, verified, used: AtomicBool::new(true) }
    }

    /// The count of entries.
    pub(crate) fn entries(&self) -> u32 {
        self.index.header.entries
    }

    /// The end of the records in the image.
    pub(crate) fn records_bytes(&self) -> u64 {
        u64::from(self.index.header.records_end)
    }

    pub(crate) fn is_packed(&self) -> bool {
        self.image.is_packed()
    }

    /// The length of the file, or of its image if it is packed.
    pub(crate) fn image_bytes(&self) -> u64 {
        self.image.bytes() as u64
    }

    /// The bytes up to the end of the records; `None` when the segment is packed.
    pub(crate) fn as_plain(&self) -> Option<&[u8]> {
        self.image.as_plain()
    }

    /// An image for one scan over the records. Its unpacked frames are released with it.
    pub(crate) fn detached(&self) -> SegmentImage {
        self.image.detached()
    }

    /// The entry at a place.
    pub(crate) fn entry_at(&self, place: Place) -> Result<Option<Entry<'_>>, Flaw> {
        let number = self.index.record_from(place.position)?;
        if place.index > 0 {
            // This prefetch overlaps with the load of the record's location.
            black_box(self.index.touch_entry_of(number, place.index));
        }
        let Some((at, record)) = self.record_of(place.position, number)? else { return Ok(None) };
        let entry = record.entries_before(place.index);
        if entry == record.header.entries || record.index_of(entry) != place.index {
            return Ok(None);
        }
        let ordinal = at.first_ordinal + entry;
        let offset = match entry {
            // Most records have one entry, whose offset is known without a lookup in the index.
            0 if !self.index.header.compacted => at.offset + HEADER_BYTES,
            _ => self.index.entry(ordinal)?.0,
        };
        Ok(Some(self.entry_of(ordinal, offset, at)?))
    }

    /// The record at a position, or the surviving part of it.
    pub(crate) fn record_at(&self, position: Position) -> Result<Option<RecordView<'_>>, Flaw> {
        Ok(self.record_of(position, self.index.record_from(position)?)?.map(|(_, record)| record))
    }

    /// Passes the entries from `from` on and before `before` to `visit`, in order, until `visit`
    /// breaks. Moves `from` to the record after the last one that was read, and to `before` at the
    /// end of the range. So a call after an error continues with the record of the error.
    pub(crate) fn scan<'a>(
        &'a self,
        from: &mut Place,
        before: Place,
        mut visit: impl FnMut(&Entry<'a>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Flaw> {
        let ordinal = self.ordinal_at(*from)?;
        if ordinal == self.entries() {
            return Ok(ControlFlow::Continue(()));
        }
        let (offset, first) = self.index.entry(ordinal)?;
        let mut begin = Some(offset);
        for number in first..self.index.header.records {
            let at = self.index.record(number)?;
            if Place::new(at.position, 0) >= before {
                *from = before;
                break;
            }
            let record = self.record(at)?;
            let offset = match begin.take() {
                Some(offset) => self.within(offset, at, record)?,
                None => record.entries_at(),
            };
            let visited =
                record.each_of(record.numbers_between(*from, before), offset, |_, entry| match visit(entry) {
                    ControlFlow::Continue(()) => Ok(()),
                    ControlFlow::Break(()) => Err(()),
                });
            if visited.is_err() {
                return Ok(ControlFlow::Break(()));
            }
            *from = Place::new(at.position.next(), 0);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Whether, for each of these tags, at least one of `one_of` entries has a tag of its hash.
    pub(crate) fn is_dense(&self, tags: &[TagHash], one_of: u32) -> Result<bool, Flaw> {
        for tag in tags {
            let count = self.index.postings(*tag)?.map_or(0, |postings| postings.count());
            if u64::from(count) * u64::from(one_of) < u64::from(self.entries()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Every record or surviving part of one, in order. Each is verified as it is read from
    /// `detached`.
    pub(crate) fn records<'a>(&self, detached: &'a SegmentImage) -> impl Iterator<Item = Result<RecordView<'a>, Flaw>> {
        (0..self.index.header.records).map(|number| self.verify_record(number, detached))
    }

    /// The record number `number`, verified in any case.
    pub(super) fn verify_record<'a>(&self, number: u32, detached: &'a SegmentImage) -> Result<RecordView<'a>, Flaw> {
        debug_assert!(number < self.index.header.records, "record {number} of {}", self.index.header.records);
        let at = self.index.record(number)?;
        self.verified(at, self.bytes_from(at, detached)?)
    }

    /// Verifies the numbers of the tags, which follow the records of a compacted segment. Only the
    /// rebuilding of an index reads them.
    pub(super) fn verify_numbers(&self, detached: &SegmentImage) -> Result<(), Flaw> {
        let header = &self.index.header;
        let mut offset = COMPACTED_HEADER_BYTES;
        if let Some(last) = header.records.checked_sub(1) {
            let at = self.index.record(last)?;
            // A damaged record was reported before, and its end is unknown.
            let Ok(record) = self.verified(at, self.bytes_from(at, detached)?) else { return Ok(()) };
            offset = at.offset + record.header.length as usize;
        }
        let numbers = detached.bytes_from(offset).and_then(RecordView::verify);
        let position = Position::new(header.end.get() - 1);
        let offset = self.image.byte_of(offset);
        numbers.map(|_| ()).map_err(|fault| Flaw::Record(BadRecord { offset, position, fault }))
    }

    /// The first ordinal at or after a place; the count of entries when no entry follows.
    pub(crate) fn ordinal_at(&self, place: Place) -> Result<u32, Flaw> {
        let number = self.index.record_from(place.position)?;
        if number == self.index.header.records {
            return Ok(self.index.header.entries);
        }
        let at = self.index.record(number)?;
        if at.position > place.position || place.index == 0 {
            return Ok(at.first_ordinal);
        }
        if self.index.header.compacted {
            return Ok(at.first_ordinal + self.record(at)?.entries_before(place.index));
        }
        // All entries of the commit are present, so the index alone has the answer.
        let end = if number + 1 < self.index.header.records {
            self.index.record(number + 1)?.first_ordinal
        } else {
            self.index.header.entries
        };
        Ok(at.first_ordinal.saturating_add(place.index).min(end))
    }

    /// The record at `position`. `number` is the number of the first record at or after `position`.
    fn record_of(&self, position: Position, number: u32) -> Result<Option<(RecordLocation, RecordView<'_>)>, Flaw> {
        debug_assert!(number <= self.index.header.records, "record {number} of {}", self.index.header.records);
        if number == self.index.header.records {
            return Ok(None);
        }
        let at = self.index.record(number)?;
        if at.position == position { Ok(Some((at, self.record(at)?))) } else { Ok(None) }
    }

    /// The first entry at or after ordinal `from` whose tags have these hashes, and its ordinal.
    pub(crate) fn next(
        &self,
        tags: &[TagHash],
        from: u32,
        candidates: &mut Candidates,
    ) -> Result<TagSearch<(u32, Entry<'_>)>, Flaw> {
        self.found(self.index.next(tags, from, candidates)?)
    }

    /// The last entry before ordinal `before` whose tags have these hashes, and its ordinal.
    pub(crate) fn previous(
        &self,
        tags: &[TagHash],
        before: u32,
        candidates: &mut Candidates,
    ) -> Result<TagSearch<(u32, Entry<'_>)>, Flaw> {
        self.found(self.index.previous(tags, before, candidates)?)
    }

    /// The first entry of a tag whose numbers exceed `sequence`, if it is in this segment.
    pub(crate) fn seek(&self, tag: Tag<'_>, hash: TagHash, sequence: Sequence) -> Result<Option<Entry<'_>>, Flaw> {
        // A search skips segments that end before the number. A short table of numbers shows that
        // without reading an entry.
        if self.index.ends_before(tag, sequence, GLANCE_BYTES)? {
            return Ok(None);
        }
        let Some(postings) = self.index.postings(hash)? else { return Ok(None) };
        // This prefetch overlaps with the search in the list.
        if let Some(expected) = postings.touch_number(sequence) {
            black_box(self.index.touch_entry(expected));
        }
        let found = postings.numbered_at_most(sequence)?;
        // Reading the last entry may unpack a frame, which takes longer than searching the table of
        // numbers.
        let is_last = found.map_or(postings.is_one(), |(_, is_last)| is_last);
        if is_last && self.is_packed() && self.index.ends_before(tag, sequence, usize::MAX)? {
            return Ok(None);
        }
        let begin = match found {
            Some((posting, _)) => {
                let entry = self.entry(posting.ordinal)?;
                match numbers(&entry, tag) {
                    true if entry.next_sequence() > sequence => return Ok(Some(entry)),
                    true => posting.ordinal + 1,
                    // Another tag has the same hash, which is very rare: check every entry.
                    false => 0,
                }
            }
            None => 0,
        };
        self.seek_from(postings, tag, sequence, begin)
    }

    fn seek_from(
        &self,
        postings: Postings<'_>,
        tag: Tag<'_>,
        sequence: Sequence,
        begin: u32,
    ) -> Result<Option<Entry<'_>>, Flaw> {
        let mut from = begin;
        while let Some(ordinal) = postings.next(from)? {
            let entry = self.entry(ordinal)?;
            if numbers(&entry, tag) && entry.next_sequence() > sequence {
                return Ok(Some(entry));
            }
            from = ordinal + 1;
        }
        Ok(None)
    }

    fn found(&self, search: TagSearch) -> Result<TagSearch<(u32, Entry<'_>)>, Flaw> {
        Ok(match search {
            TagSearch::Found(ordinal) => TagSearch::Found((ordinal, self.entry(ordinal)?)),
            TagSearch::Ended => TagSearch::Ended,
            TagSearch::Paused(at) => TagSearch::Paused(at),
        })
    }

    /// The entry with this ordinal.
    pub(crate) fn entry(&self, ordinal: u32) -> Result<Entry<'_>, Flaw> {
        let header = &self.index.header;
        if header.records == header.entries && !header.compacted {
            // Each record has one entry, so no lookup of its offset has to wait for memory.
            let at = self.index.record(ordinal)?;
            return self.entry_of(ordinal, at.offset + HEADER_BYTES, at);
        }
        let (offset, number) = self.index.entry(ordinal)?;
        self.entry_of(ordinal, offset, self.index.record(number)?)
    }

    fn entry_of(&self, ordinal: u32, offset: usize, at: RecordLocation) -> Result<Entry<'_>, Flaw> {
        let record = self.record(at)?;
        let within = self.within(offset, at, record)?;
        let number = ordinal.checked_sub(at.first_ordinal).filter(|number| *number < record.header.entries);
        let number = number.ok_or_else(|| self.index.blocks.bad(0, "an entry lies outside its record"))?;
        let place = Place::new(at.position, record.index_of(number));
        Ok(entry_at(record.bytes_from(within), place, record.header.time).0)
    }

    /// The offset of an entry within its record.
    fn within(&self, offset: usize, at: RecordLocation, record: RecordView<'_>) -> Result<usize, Flaw> {
        let within = offset.checked_sub(at.offset).filter(|within| *within < record.header.length as usize);
        Ok(within.ok_or_else(|| self.index.blocks.bad(0, "an entry lies outside its record"))?)
    }

    /// A record, verified when it is first read.
    fn record(&self, at: RecordLocation) -> Result<RecordView<'_>, Flaw> {
        debug_assert!(at.number < self.index.header.records, "record {} of {}", at.number, self.index.header.records);
        let bytes = self.bytes_from(at, &self.image)?;
        let (word, bit) = (&self.verified[at.number as usize / 64], 1_u64 << (at.number % 64));
        if word.load(Ordering::Relaxed) & bit != 0 {
            return Ok(RecordView::verified_before(bytes));
        }
        let record = self.verified(at, bytes)?;
        word.fetch_or(bit, Ordering::Relaxed);
        Ok(record)
    }

    fn verified<'a>(&self, at: RecordLocation, bytes: &'a [u8]) -> Result<RecordView<'a>, Flaw> {
        let bad = |fault| self.bad(at, fault);
        let record = RecordView::verify(bytes).map_err(bad)?;
        if record.header.position != at.position {
            return Err(bad(RecordFault::Position { found: record.header.position, expected: at.position }));
        }
        Ok(record)
    }

    fn bytes_from<'a>(&self, at: RecordLocation, image: &'a SegmentImage) -> Result<&'a [u8], Flaw> {
        image.bytes_from(at.offset).map_err(|fault| match fault {
            RecordFault::End if at.offset < self.index.header.records_end as usize => self.bad(at, fault),
            RecordFault::End => self.index.blocks.bad(0, "a record lies outside its segment").into(),
            fault => self.bad(at, fault),
        })
    }

    fn bad(&self, at: RecordLocation, fault: RecordFault) -> Flaw {
        Flaw::Record(BadRecord { offset: self.image.byte_of(at.offset), position: at.position, fault })
    }
}

/// Whether an entry takes numbers of this tag.
fn numbers(entry: &Entry<'_>, tag: Tag<'_>) -> bool {
    entry.sequence.is_some() && entry.tags.first() == Some(tag)
}
