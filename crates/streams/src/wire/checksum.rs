//! The checksum of a batch: CRC-32C (Castagnoli) over everything from the attributes to the end.

use super::layout::ATTRIBUTES;

/// The checksum that this batch ought to carry. The slice holds a whole header at least.
pub(super) fn checksum(batch: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(&batch[ATTRIBUTES..])
}
