//! How much smaller a segment would get by being packed, as far as some pieces of it tell.

use zstd::bulk::Compressor;

use super::{FRAME_BYTES, LEVEL, SAVED_PERCENT_MIN};

/// How many pieces are looked at, evenly spread: about a millisecond of work, done once for a segment while it is open.
const PIECES: usize = 8;

/// Whether `packed` bytes are enough less than these.
pub(crate) fn is_worth(bytes: u64, packed: u64) -> bool {
    bytes.saturating_sub(packed) * 100 >= bytes * SAVED_PERCENT_MIN && packed < bytes
}

/// How many bytes would be left of these records.
pub(crate) fn estimate(records: &[u8]) -> u64 {
    let Ok(mut compressor) = Compressor::new(LEVEL) else { return records.len() as u64 };
    let (mut looked, mut left) = (0, 0);
    for piece in 0..PIECES {
        let at = records.len() / PIECES * piece;
        let piece = &records[at..records.len().min(at + FRAME_BYTES)];
        looked += piece.len();
        left += compressor.compress(piece).map_or(piece.len(), |compressed| compressed.len().min(piece.len()));
    }
    (records.len() as u128 * left as u128 / looked.max(1) as u128) as u64
}
