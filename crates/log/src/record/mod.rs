//! A record as bytes: one atomic commit, its header and its entries.
//!
//! `docs/file-format.md` draws the layout. Reading verifies before it interprets: a [`RecordView`]
//! exists only for bytes whose checksum matches.

mod checksum;
mod entry;
mod header;
#[cfg(test)]
mod tests;

pub(crate) use entry::{EntryHeader, EntryLayout, entry_at};
pub(crate) use header::{HEADER_BYTES, RecordFault, RecordHeader, RecordKind};

use std::cmp::Ordering;
use std::ops::Range;

use quire_model::{Entry, Place, Sequence, Tag};

/// Zero bytes after the last record, at which a scan ends.
pub(crate) const TERMINATOR_BYTES: usize = 8;

/// Most bytes of a record beyond its entries: header, padding, terminator.
pub(crate) const RECORD_OVERHEAD_MAX: usize = HEADER_BYTES + 8 + TERMINATOR_BYTES;

/// Fewest bytes of a record: its header and one entry without tags and body, padded.
pub(crate) const RECORD_BYTES_MIN: usize = HEADER_BYTES + 16;

/// A record's length is a multiple of this many bytes.
pub(crate) const ALIGNMENT: usize = 8;

const _: () = assert!(RECORD_BYTES_MIN.is_multiple_of(ALIGNMENT) && TERMINATOR_BYTES.is_multiple_of(ALIGNMENT));

/// A verified record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordView<'a> {
    pub(crate) header: RecordHeader,
    bytes: &'a [u8],
}

impl<'a> RecordView<'a> {
    /// Verifies the record at the start of `bytes`; other bytes may follow.
    ///
    /// # Errors
    /// The first fault found, in the order length, checksum, entries.
    pub(crate) fn verify(bytes: &'a [u8]) -> Result<Self, RecordFault> {
        let header = RecordHeader::framed(bytes)?;
        let record = RecordView { header, bytes: &bytes[..header.length as usize] };
        checksum::verify(&header, record.bytes)?;
        RecordHeader::kind(record.bytes)?;
        if record.kind() == RecordKind::Numbers {
            return if header.entries == 0 { Ok(record) } else { Err(RecordFault::Entries) };
        }
        let mut offset = record.entries_at();
        if offset > record.bytes.len() || !record.indexes_rise() {
            return Err(RecordFault::Entries);
        }
        for _ in 0..header.entries {
            offset += EntryHeader::parse(&record.bytes[offset..]).ok_or(RecordFault::Entries)?.length;
        }
        let padding = record.bytes.len() - offset;
        if padding < ALIGNMENT { Ok(record) } else { Err(RecordFault::Entries) }
    }

    /// Passes the numbers that the entries of a damaged record state to `visit`: the tag, the first
    /// number and the count. Nothing verifies them, and reading ends at the first unsound entry.
    pub(crate) fn stated_numbers(bytes: &'a [u8], mut visit: impl FnMut(Tag<'a>, Sequence, u32)) {
        let Ok(header) = RecordHeader::framed(bytes) else { return };
        if RecordHeader::kind(bytes) != Ok(RecordKind::Commit) {
            return;
        }
        let record = &bytes[..header.length as usize];
        let mut offset = HEADER_BYTES;
        while let Some(entry) = record.get(offset..).and_then(EntryHeader::parse) {
            let (read, length) = entry_at(&record[offset..], Place::new(header.position, 0), header.time);
            if let (Some(first), Some(tag)) = (read.sequence, read.tags.first()) {
                visit(tag, first, read.count);
            }
            debug_assert_eq!(entry.length, length, "both read the same header");
            offset += length;
        }
    }

    /// Returns the record that was just sealed in `bytes`, padding included.
    pub(crate) fn sealed(bytes: &'a [u8]) -> Self {
        let header = RecordHeader::read(bytes);
        debug_assert_eq!(header.length as usize, bytes.len(), "the bytes are those of one record");
        RecordView { header, bytes }
    }

    /// Returns the record at the start of `bytes`, which was verified before; other bytes may
    /// follow.
    pub(crate) fn verified_before(bytes: &'a [u8]) -> Self {
        let header = RecordHeader::read(bytes);
        RecordView { header, bytes: &bytes[..header.length as usize] }
    }

    /// Returns the first entry of a commit.
    pub(crate) fn first_entry(self) -> Entry<'a> {
        let place = Place::new(self.header.position, 0);
        entry_at(&self.bytes[self.entries_at()..], place, self.header.time).0
    }

    /// Returns the bytes of the record from `offset` on.
    pub(crate) fn bytes_from(self, offset: usize) -> &'a [u8] {
        &self.bytes[offset..]
    }

    /// Returns the bytes of the entry at `offset`.
    pub(crate) fn entry_bytes(self, offset: usize) -> &'a [u8] {
        debug_assert!(offset >= self.entries_at(), "byte {offset} lies before the entries");
        let bytes = &self.bytes[offset..];
        let length = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
        &bytes[..length as usize]
    }

    /// Returns the part of the entry at `offset` that carries its own checksum, as a range that
    /// counts from `to` as the beginning of the entry.
    pub(crate) fn own_part_at(self, offset: usize, to: usize) -> Option<Range<usize>> {
        let header = EntryHeader::parse(&self.bytes[offset..]).expect("the entries of a record are verified with it");
        header.own_part(to).map(|(part, _)| part)
    }

    /// Returns the kind of the record.
    pub(crate) fn kind(self) -> RecordKind {
        RecordHeader::kind(self.bytes).expect("the kind of a record is verified with it")
    }

    /// Returns the numbers of the tags of a compacted segment, from a record of that kind.
    pub(crate) fn numbers(self) -> &'a [u8] {
        let (length, rest) = self.bytes[HEADER_BYTES..].split_first_chunk::<4>().unwrap_or((&[0; 4], &[]));
        rest.get(..u32::from_le_bytes(*length) as usize).unwrap_or_default()
    }

    /// Returns the index within the commit of the record's entry number `entry`.
    pub(crate) fn index_of(self, entry: u32) -> u32 {
        debug_assert!(entry < self.header.entries, "entry {entry} of {}", self.header.entries);
        if self.kind() == RecordKind::Commit {
            return entry;
        }
        let at = HEADER_BYTES + entry as usize * 4;
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().expect("four bytes"))
    }

    /// Returns the count of entries with a lower index within the commit than `index`.
    pub(crate) fn entries_before(self, index: u32) -> u32 {
        if self.kind() == RecordKind::Commit {
            return index.min(self.header.entries);
        }
        let (mut low, mut high) = (0, self.header.entries);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.index_of(middle) < index { low = middle + 1 } else { high = middle }
        }
        debug_assert!(low == 0 || self.index_of(low - 1) < index, "the entries before {index} are those below");
        debug_assert!(low == self.header.entries || self.index_of(low) >= index, "entry {low} is at or after {index}");
        low
    }

    fn indexes_rise(self) -> bool {
        self.kind() == RecordKind::Commit
            || (1..self.header.entries).all(|entry| self.index_of(entry - 1) < self.index_of(entry))
    }

    /// Returns the offset of the first entry: after the header, and after the indexes of a record
    /// of surviving entries.
    pub(crate) fn entries_at(self) -> usize {
        match self.kind() {
            RecordKind::Commit => HEADER_BYTES,
            _ => HEADER_BYTES + self.header.entries as usize * 4,
        }
    }

    /// Passes the entries to `take`, each with its offset within the record, up to the first error.
    /// An append calls this closure form because an iterator would copy each entry through memory.
    #[inline]
    pub(crate) fn each<E>(self, take: impl FnMut(usize, &Entry<'a>) -> Result<(), E>) -> Result<(), E> {
        self.each_of(0..self.header.entries, self.entries_at(), take)
    }

    /// As [`RecordView::each`], for the entries with these numbers. `offset` is the offset of the
    /// first of them within the record.
    #[inline]
    pub(crate) fn each_of<E>(
        self,
        numbers: Range<u32>,
        mut offset: usize,
        mut take: impl FnMut(usize, &Entry<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        debug_assert!(numbers.end <= self.header.entries, "entries {numbers:?} of {}", self.header.entries);
        for number in numbers {
            let (entry, length) = self.entry(number, offset);
            take(offset, &entry)?;
            offset += length;
        }
        debug_assert!(offset <= self.bytes.len(), "the entries end at {offset} of {} bytes", self.bytes.len());
        Ok(())
    }

    /// Returns the numbers of the entries whose places are in `from..before`.
    pub(crate) fn numbers_between(self, from: Place, before: Place) -> Range<u32> {
        let position = self.header.position;
        let below = |place: Place| match position.cmp(&place.position) {
            Ordering::Less => self.header.entries,
            Ordering::Equal => self.entries_before(place.index),
            Ordering::Greater => 0,
        };
        below(from)..below(before)
    }

    /// Returns the entries, each with its offset within the record.
    pub(crate) fn entries(self) -> impl Iterator<Item = (usize, Entry<'a>)> {
        let mut offset = self.entries_at();
        (0..self.header.entries).map(move |number| {
            let at = offset;
            let (entry, length) = self.entry(number, at);
            offset += length;
            (at, entry)
        })
    }

    /// Returns the entry number `number`, which begins at `offset`, and its length.
    // Without inlining, the entry is passed through memory, and the append waits for it.
    #[inline(always)]
    fn entry(self, number: u32, offset: usize) -> (Entry<'a>, usize) {
        let place = Place::new(self.header.position, self.index_of(number));
        entry_at(&self.bytes[offset..], place, self.header.time)
    }
}
