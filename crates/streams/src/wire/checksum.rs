//! The checksum of a batch: CRC-32C (Castagnoli) over everything from the attributes to the end.

use super::layout::ATTRIBUTES;

/// Up to so many bytes, crc-fast is the faster library, and crc32c beyond (see the log's checksum).
const FEW_BYTES: usize = 256;

/// The checksum that this batch ought to carry. The slice holds a whole header at least.
pub(super) fn checksum(batch: &[u8]) -> u32 {
    let covered = &batch[ATTRIBUTES..];
    if covered.len() <= FEW_BYTES { crc_fast::crc32_iscsi(covered) } else { ::crc32c::crc32c(covered) }
}
