//! A sealed segment and its index, mapped: what reads go through.
//!
//! A record is verified when it is first read, once for as long as the segment is mapped; so what is returned was found as
//! it was written, or an error says what was met. Of a packed segment, the frame that holds the record is unpacked before.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use quire_model::{Entry, Place, Position, Sequence, Tag};

use super::blocks::BadBlock;
use super::build::{BadRecord, Records};
use super::image::Image;
use super::index::{GLANCE_BYTES, Index, Postings, RecordAt};
use crate::record::{Fault, HEADER_BYTES, RecordView, entry_at};
use crate::segment::{COMPACTED_HEADER_BYTES, TagHash};

/// Why a read of a sealed segment failed.
#[derive(Debug)]
pub(crate) enum Flaw {
    /// The index is not as it was written: it is to be made anew.
    Index(BadBlock),
    /// A record is not as it was written.
    Record(BadRecord),
}

impl From<BadBlock> for Flaw {
    fn from(bad: BadBlock) -> Self {
        Flaw::Index(bad)
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Open {
    pub(super) image: Image,
    pub(super) index: Index,
    /// A bit for each record: set once it was found as written.
    verified: Vec<AtomicU64>,
    /// Whether somebody began to read it since the archive last looked for what to close.
    pub(super) used: AtomicBool,
}

impl Open {
    pub(super) fn new(image: Image, index: Index) -> Self {
        let verified = (0..index.header.records.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Open { image, index, verified, used: AtomicBool::new(true) }
    }

    /// How many entries it has.
    pub(crate) fn entries(&self) -> u32 {
        self.index.header.entries
    }

    /// How many bytes its records take, unpacked.
    pub(crate) fn records_bytes(&self) -> u64 {
        u64::from(self.index.header.records_end)
    }

    pub(crate) fn is_packed(&self) -> bool {
        self.image.is_packed()
    }

    /// How many bytes its file has, or would have if it were not packed.
    pub(crate) fn image_bytes(&self) -> u64 {
        self.image.bytes() as u64
    }

    /// Its bytes up to the end of its records, where they are not packed.
    pub(crate) fn as_plain(&self) -> Option<&[u8]> {
        self.image.as_plain()
    }

    /// Its bytes, for one who goes through its records once: what is unpacked for that goes with them.
    pub(crate) fn apart(&self) -> Image {
        self.image.apart()
    }

    /// The entry at a place.
    pub(crate) fn entry_at(&self, place: Place) -> Result<Option<Entry<'_>>, Flaw> {
        let number = self.index.record_from(place.position)?;
        if place.index > 0 {
            // What is looked at one behind the other is fetched at once.
            black_box(self.index.touch_entry_of(number, place.index));
        }
        let Some((at, record)) = self.record_of(place.position, number)? else { return Ok(None) };
        let entry = record.entries_before(place.index);
        if entry == record.header.entries || record.index_of(entry) != place.index {
            return Ok(None);
        }
        let ordinal = at.first_ordinal + entry;
        let offset = match entry {
            // The index need not be asked: most records have one entry, and its look would wait for memory.
            0 if !self.index.header.compacted => at.offset + HEADER_BYTES,
            _ => self.index.entry(ordinal)?.0,
        };
        Ok(Some(self.entry_of(ordinal, offset, at)?))
    }

    /// The record at a position, or what is left of it.
    pub(crate) fn record_at(&self, position: Position) -> Result<Option<RecordView<'_>>, Flaw> {
        Ok(self.record_of(position, self.index.record_from(position)?)?.map(|(_, record)| record))
    }

    /// Every record, or what is left of it, in order, each verified as it is read from bytes that were set [apart](Open::apart).
    pub(crate) fn records<'a>(&self, apart: &'a Image) -> impl Iterator<Item = Result<RecordView<'a>, Flaw>> {
        (0..self.index.header.records).map(|number| self.record_apart(number, apart))
    }

    /// The record with this number, verified whether or not it was before.
    pub(super) fn record_apart<'a>(&self, number: u32, apart: &'a Image) -> Result<RecordView<'a>, Flaw> {
        let at = self.index.record(number)?;
        self.verified(at, self.bytes_from(at, apart)?)
    }

    /// Verifies what a compacted segment has behind its records: the numbers that tags had reached, which only an index that is made anew
    /// is read from.
    pub(super) fn verify_numbers(&self, apart: &Image) -> Result<(), Flaw> {
        let header = &self.index.header;
        let mut offset = COMPACTED_HEADER_BYTES;
        if let Some(last) = header.records.checked_sub(1) {
            let at = self.index.record(last)?;
            // One that is damaged has been told, and does not say where it ends.
            let Ok(record) = self.verified(at, self.bytes_from(at, apart)?) else { return Ok(()) };
            offset = at.offset + record.header.length as usize;
        }
        let numbers = apart.bytes_from(offset).and_then(RecordView::verify);
        let position = Position::new(header.end.get() - 1);
        let offset = self.image.byte_of(offset);
        numbers.map(|_| ()).map_err(|fault| Flaw::Record(BadRecord { offset, position, fault }))
    }

    /// The first ordinal at or after a place; the count of entries when there is none.
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
        // No entry is gone: the index alone tells.
        let end = if number + 1 < self.index.header.records {
            self.index.record(number + 1)?.first_ordinal
        } else {
            self.index.header.entries
        };
        Ok(at.first_ordinal.saturating_add(place.index).min(end))
    }

    /// The record at a position, when it is the one with this number, the first at or behind the position.
    fn record_of(&self, position: Position, number: u32) -> Result<Option<(RecordAt, RecordView<'_>)>, Flaw> {
        if number == self.index.header.records {
            return Ok(None);
        }
        let at = self.index.record(number)?;
        if at.position == position { Ok(Some((at, self.record(at)?))) } else { Ok(None) }
    }

    /// The first entry at or behind an ordinal whose tags have these hashes, and its ordinal.
    pub(crate) fn next(&self, tags: &[TagHash], from: u32) -> Result<Option<(u32, Entry<'_>)>, Flaw> {
        self.found(self.index.next(tags, from)?)
    }

    /// The last entry before an ordinal whose tags have these hashes, and its ordinal.
    pub(crate) fn previous(&self, tags: &[TagHash], before: u32) -> Result<Option<(u32, Entry<'_>)>, Flaw> {
        self.found(self.index.previous(tags, before)?)
    }

    /// The first entry of a tag whose numbers reach beyond `sequence`, if it stands here.
    pub(crate) fn seek(&self, tag: Tag<'_>, hash: TagHash, sequence: Sequence) -> Result<Option<Entry<'_>>, Flaw> {
        // A search passes by segments that end before the number: a glance saves reading what they end with.
        if self.index.ends_before(tag, sequence, GLANCE_BYTES)? {
            return Ok(None);
        }
        let Some(postings) = self.index.postings(hash)? else { return Ok(None) };
        // What is looked at one behind the other is fetched at once.
        if let Some(expected) = postings.touch_number(sequence) {
            black_box(self.index.touch_entry(expected));
        }
        let found = postings.numbered_at_most(sequence)?;
        // What they end with may have to be unpacked, which takes longer than to look through what the index says of any number of tags.
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
                    // Another tag with the same hash is in between: look at each, once in a very long while.
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

    fn found(&self, ordinal: Option<u32>) -> Result<Option<(u32, Entry<'_>)>, Flaw> {
        ordinal.map(|ordinal| Ok((ordinal, self.entry(ordinal)?))).transpose()
    }

    /// The entry with this ordinal.
    pub(crate) fn entry(&self, ordinal: u32) -> Result<Entry<'_>, Flaw> {
        let header = &self.index.header;
        if header.records == header.entries && !header.compacted {
            // A record each: where its entry stands need not be looked up, and that would wait for memory once more.
            let at = self.index.record(ordinal)?;
            return self.entry_of(ordinal, at.offset + HEADER_BYTES, at);
        }
        let (offset, number) = self.index.entry(ordinal)?;
        self.entry_of(ordinal, offset, self.index.record(number)?)
    }

    fn entry_of(&self, ordinal: u32, offset: usize, at: RecordAt) -> Result<Entry<'_>, Flaw> {
        let record = self.record(at)?;
        let within = offset.checked_sub(at.offset).filter(|within| *within < record.header.length as usize);
        let within = within.ok_or_else(|| self.index.blocks.bad(0, "an entry lies outside of its record"))?;
        let number = ordinal.checked_sub(at.first_ordinal).filter(|number| *number < record.header.entries);
        let number = number.ok_or_else(|| self.index.blocks.bad(0, "an entry lies outside of its record"))?;
        let place = Place::new(at.position, record.index_of(number));
        Ok(entry_at(record.bytes_from(within), place, record.header.time).0)
    }

    /// A record, verified when it is first looked at.
    fn record(&self, at: RecordAt) -> Result<RecordView<'_>, Flaw> {
        let bytes = self.bytes_from(at, &self.image)?;
        let (word, bit) = (&self.verified[at.number as usize / 64], 1_u64 << (at.number % 64));
        if word.load(Ordering::Relaxed) & bit != 0 {
            return Ok(RecordView::verified_before(bytes));
        }
        let record = self.verified(at, bytes)?;
        word.fetch_or(bit, Ordering::Relaxed);
        Ok(record)
    }

    fn verified<'a>(&self, at: RecordAt, bytes: &'a [u8]) -> Result<RecordView<'a>, Flaw> {
        let bad = |fault| self.bad(at, fault);
        let record = RecordView::verify(bytes).map_err(bad)?;
        if record.header.position != at.position {
            return Err(bad(Fault::Position { found: record.header.position, expected: at.position }));
        }
        Ok(record)
    }

    fn bytes_from<'a>(&self, at: RecordAt, image: &'a Image) -> Result<&'a [u8], Flaw> {
        image.bytes_from(at.offset).map_err(|fault| match fault {
            Fault::End if at.offset < self.index.header.records_end as usize => self.bad(at, fault),
            Fault::End => self.index.blocks.bad(0, "a record lies outside of its segment").into(),
            fault => self.bad(at, fault),
        })
    }

    fn bad(&self, at: RecordAt, fault: Fault) -> Flaw {
        Flaw::Record(BadRecord { offset: self.image.byte_of(at.offset), position: at.position, fault })
    }
}

/// Whether an entry takes numbers of this tag.
fn numbers(entry: &Entry<'_>, tag: Tag<'_>) -> bool {
    entry.sequence.is_some() && entry.tags.first() == Some(tag)
}
