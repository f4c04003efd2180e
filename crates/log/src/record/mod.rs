//! A record as bytes: one atomic commit, its header and its entries.
//!
//! The layout is drawn in `docs/file-format.md`. Reading verifies before it interprets: a [`RecordView`] exists only of
//! bytes whose checksum is right.

mod checksum;
mod entry;
mod header;
#[cfg(test)]
mod tests;

pub(crate) use entry::{EntryHeader, EntryLayout, entry_at};
pub(crate) use header::{Fault, HEADER_BYTES, RecordHeader, RecordKind};

use std::ops::Range;

use quire_model::{Entry, Place};

/// Zero bytes that follow the last record, so that a scan ends there.
pub(crate) const TERMINATOR_BYTES: usize = 8;

/// What a record takes beyond its entries at most: header, padding, terminator.
pub(crate) const RECORD_OVERHEAD_MAX: usize = HEADER_BYTES + 8 + TERMINATOR_BYTES;

/// What a record takes at least: its header and one entry without tags and body, padded.
pub(crate) const RECORD_BYTES_MIN: usize = HEADER_BYTES + 16;

/// A record's length is a multiple of this many bytes.
pub(crate) const ALIGNMENT: usize = 8;

/// A verified record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordView<'a> {
    pub(crate) header: RecordHeader,
    bytes: &'a [u8],
}

impl<'a> RecordView<'a> {
    /// Verifies the record that these bytes begin with; more may follow it.
    ///
    /// # Errors
    /// What is wrong with it, first things first: length, checksum, entries.
    pub(crate) fn verify(bytes: &'a [u8]) -> Result<Self, Fault> {
        let header = RecordHeader::framed(bytes)?;
        let record = RecordView { header, bytes: &bytes[..header.length as usize] };
        checksum::verify(&header, record.bytes)?;
        RecordHeader::kind(record.bytes)?;
        if record.kind() == RecordKind::Numbers {
            return if header.entries == 0 { Ok(record) } else { Err(Fault::Entries) };
        }
        let mut offset = record.entries_at();
        if offset > record.bytes.len() || !record.indexes_rise() {
            return Err(Fault::Entries);
        }
        for _ in 0..header.entries {
            offset += EntryHeader::parse(&record.bytes[offset..]).ok_or(Fault::Entries)?.length;
        }
        let padding = record.bytes.len() - offset;
        if padding < ALIGNMENT { Ok(record) } else { Err(Fault::Entries) }
    }

    /// The record that was just sealed in these bytes, padding included.
    pub(crate) fn sealed(bytes: &'a [u8]) -> Self {
        RecordView { header: RecordHeader::read(bytes), bytes }
    }

    /// The record that these bytes begin with, which was verified before; more may follow it.
    pub(crate) fn verified_before(bytes: &'a [u8]) -> Self {
        let header = RecordHeader::read(bytes);
        RecordView { header, bytes: &bytes[..header.length as usize] }
    }

    /// Its bytes, from one on.
    pub(crate) fn bytes_from(self, offset: usize) -> &'a [u8] {
        &self.bytes[offset..]
    }

    /// The bytes of the entry that begins at this one.
    pub(crate) fn entry_bytes(self, offset: usize) -> &'a [u8] {
        let bytes = &self.bytes[offset..];
        let length = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
        &bytes[..length as usize]
    }

    /// The bytes of the entry at `offset` which carry a checksum of their own, as they are numbered where it stands at `to`.
    pub(crate) fn own_part_at(self, offset: usize, to: usize) -> Option<Range<usize>> {
        let header = EntryHeader::parse(&self.bytes[offset..]).expect("the entries of a record are verified with it");
        header.own_part(to).map(|(part, _)| part)
    }

    /// Whether it is whole, or what a compaction left of it.
    pub(crate) fn kind(self) -> RecordKind {
        RecordHeader::kind(self.bytes).expect("the kind of a record is verified with it")
    }

    /// The numbers of the tags of a compacted segment, in a record of that kind.
    pub(crate) fn numbers(self) -> &'a [u8] {
        let (length, rest) = self.bytes[HEADER_BYTES..].split_first_chunk::<4>().unwrap_or((&[0; 4], &[]));
        rest.get(..u32::from_le_bytes(*length) as usize).unwrap_or_default()
    }

    /// The index, within the commit, of its entry number `entry`.
    pub(crate) fn index_of(self, entry: u32) -> u32 {
        if self.kind() == RecordKind::Commit {
            return entry;
        }
        let at = HEADER_BYTES + entry as usize * 4;
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().expect("four bytes"))
    }

    /// How many of its entries have a lower index within the commit than this.
    pub(crate) fn entries_before(self, index: u32) -> u32 {
        if self.kind() == RecordKind::Commit {
            return index.min(self.header.entries);
        }
        let (mut low, mut high) = (0, self.header.entries);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.index_of(middle) < index { low = middle + 1 } else { high = middle }
        }
        low
    }

    fn indexes_rise(self) -> bool {
        self.kind() == RecordKind::Commit
            || (1..self.header.entries).all(|entry| self.index_of(entry - 1) < self.index_of(entry))
    }

    /// Where its entries begin: behind the header, and behind the indexes of those that are left.
    fn entries_at(self) -> usize {
        match self.kind() {
            RecordKind::Commit => HEADER_BYTES,
            _ => HEADER_BYTES + self.header.entries as usize * 4,
        }
    }

    /// Passes on the entries, each with its byte offset within the record, up to the first error. Each is made where it is looked at: an
    /// iterator would hand it on from one place to another, and an append wait for that.
    #[inline]
    pub(crate) fn each<E>(self, mut take: impl FnMut(usize, &Entry<'a>) -> Result<(), E>) -> Result<(), E> {
        let mut offset = self.entries_at();
        for number in 0..self.header.entries {
            let (entry, length) = self.entry(number, offset);
            take(offset, &entry)?;
            offset += length;
        }
        Ok(())
    }

    /// The entries, each with its byte offset within the record.
    pub(crate) fn entries(self) -> impl Iterator<Item = (usize, Entry<'a>)> {
        let mut offset = self.entries_at();
        (0..self.header.entries).map(move |number| {
            let at = offset;
            let (entry, length) = self.entry(number, at);
            offset += length;
            (at, entry)
        })
    }

    /// Its entry with this number, which stands at byte `offset`, and how many bytes it takes.
    // Where it is called, the entry would be handed on through memory, and waited for.
    #[inline(always)]
    fn entry(self, number: u32, offset: usize) -> (Entry<'a>, usize) {
        let place = Place::new(self.header.position, self.index_of(number));
        entry_at(&self.bytes[offset..], place, self.header.time)
    }
}
