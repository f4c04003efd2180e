//! A record as bytes: one atomic commit, its header and its entries.
//!
//! The layout is drawn in `docs/file-format.md`. Reading verifies before it interprets: a [`RecordView`] exists only of
//! bytes whose checksum is right.

mod entry;
mod header;
#[cfg(test)]
mod tests;

pub(crate) use entry::{EntryHeader, SEQUENCED_TAG_AT, entry_at, entry_bytes, write_entry};
pub(crate) use header::{Fault, HEADER_BYTES, RecordHeader};

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
        let header = RecordHeader::verify(bytes)?;
        let record = RecordView { header, bytes: &bytes[..header.length as usize] };
        let mut offset = HEADER_BYTES;
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

    /// The entries, each with its byte offset within the record.
    pub(crate) fn entries(self) -> impl Iterator<Item = (usize, Entry<'a>)> {
        let mut offset = HEADER_BYTES;
        (0..self.header.entries).map(move |index| {
            let at = offset;
            let place = Place::new(self.header.position, index);
            let (entry, length) = entry_at(&self.bytes[at..], place, self.header.time);
            offset += length;
            (at, entry)
        })
    }
}
