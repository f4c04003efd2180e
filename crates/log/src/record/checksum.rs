//! The checksums of a record.
//!
//! The record's own covers every byte behind it, but for the parts of bodies that came with a checksum: of those it covers the
//! checksum. So a batch of messages is gone through once, by whoever put it together or took it off the wire, and what its
//! producer computed is what a reader verifies.

use std::ops::Range;

use super::{ALIGNMENT, EntryHeader, Fault, HEADER_BYTES, RecordHeader, RecordKind};
use crate::checksum::{crc32c, crc32c_append};

/// The CRC of a record without `own_parts`, which are in order.
///
/// Padding behind the last of them is left out as long as it is zero, which saves going through a few bytes.
#[inline]
pub(super) fn checksum(record: &[u8], own_parts: impl IntoIterator<Item = Range<usize>>) -> u32 {
    let mut crc = None;
    let mut from = size_of::<u32>();
    for part in own_parts {
        let piece = &record[from..part.start];
        crc = Some(crc.map_or_else(|| crc32c(piece), |crc| crc32c_append(crc, piece)));
        from = part.end;
    }
    let rest = &record[from..];
    match crc {
        None => crc32c(rest),
        Some(crc) if rest.len() < ALIGNMENT && rest.iter().all(|byte| *byte == 0) => crc,
        Some(crc) => crc32c_append(crc, rest),
    }
}

/// Verifies the checksums of a record, all of whose bytes these are.
pub(super) fn verify(header: &RecordHeader, record: &[u8]) -> Result<(), Fault> {
    let same = |stored: u32, computed: u32| {
        if stored == computed { Ok(()) } else { Err(Fault::Checksum { stored, computed }) }
    };
    if !RecordHeader::has_own_checksums(record) {
        return same(header.crc, checksum(record, []));
    }
    same(header.crc, checksum(record, own_parts(header, record).map(|(part, _)| part)))?;
    own_parts(header, record).try_for_each(|(part, crc)| same(crc, crc32c(&record[part])))
}

/// The parts of a record that carry checksums of their own, as far as its entries are sound. Before the record is verified,
/// nothing more is known of them than that they are in order and within it.
fn own_parts(header: &RecordHeader, record: &[u8]) -> impl Iterator<Item = (Range<usize>, u32)> {
    let mut offset = match RecordHeader::kind(record) {
        Ok(RecordKind::Commit) => HEADER_BYTES,
        _ => HEADER_BYTES.saturating_add((header.entries as usize).saturating_mul(4)),
    };
    let entries = (0..header.entries).map_while(move |_| {
        let entry = EntryHeader::parse(record.get(offset..)?)?;
        let part = entry.own_part(offset);
        offset += entry.length;
        Some(part)
    });
    entries.flatten()
}
