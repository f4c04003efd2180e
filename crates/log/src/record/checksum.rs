//! The checksums of a record.
//!
//! The record's checksum covers every byte after itself, with one exception. A part of a body that
//! came with its own checksum is represented by that checksum. A batch of messages is therefore
//! summed once, by its producer, and a reader verifies what the producer computed.

use std::ops::Range;

use super::{ALIGNMENT, EntryHeader, HEADER_BYTES, RecordFault, RecordHeader, RecordKind};
use crate::checksum::{crc32c, crc32c_append};

/// Returns the CRC of a record without `own_parts`, which are in order.
///
/// Zero padding after the last own part is left out, which saves one call for a few bytes.
#[inline]
pub(super) fn checksum(record: &[u8], own_parts: impl IntoIterator<Item = Range<usize>>) -> u32 {
    let mut crc = None;
    let mut from = size_of::<u32>();
    debug_assert!(record.len().is_multiple_of(ALIGNMENT), "{} bytes are not padded", record.len());
    for part in own_parts {
        debug_assert!(
            from <= part.start && part.start <= part.end && part.end <= record.len(),
            "part {part:?} is out of order or outside {} bytes",
            record.len()
        );
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

/// Verifies the checksums of a record; `record` holds all of its bytes.
pub(super) fn verify(header: &RecordHeader, record: &[u8]) -> Result<(), RecordFault> {
    debug_assert_eq!(header.length as usize, record.len(), "the checksums cover exactly one record");
    let same = |stored: u32, computed: u32| {
        if stored == computed { Ok(()) } else { Err(RecordFault::Checksum { stored, computed }) }
    };
    if !RecordHeader::has_own_checksums(record) {
        return same(header.crc, checksum(record, []));
    }
    same(header.crc, checksum(record, own_parts(header, record).map(|(part, _)| part)))?;
    own_parts(header, record).try_for_each(|(part, crc)| same(crc, crc32c(&record[part])))
}

/// Returns the parts of a record that carry their own checksums, up to the first unsound entry.
///
/// Before the record is verified, the parts are known only to be in order and within the record.
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
