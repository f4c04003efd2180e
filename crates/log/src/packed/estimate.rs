//! An estimate of the bytes that packing a segment saves, from samples of its records.

use zstd::bulk::Compressor;

use super::{FRAME_BYTES, LEVEL, SAVED_PERCENT_MIN};

/// The count of samples, evenly spread. Compressing them takes about a millisecond, once for an
/// open segment.
const PIECES: usize = 8;

/// Whether packing `bytes` bytes into `packed` bytes saves enough.
pub(crate) fn is_worth(bytes: u64, packed: u64) -> bool {
    bytes.saturating_sub(packed) * 100 >= bytes * SAVED_PERCENT_MIN && packed < bytes
}

/// Estimates the bytes of `records` after packing.
pub(crate) fn estimate(records: &[u8]) -> u64 {
    let Ok(mut compressor) = Compressor::new(LEVEL) else { return records.len() as u64 };
    let (mut looked, mut left) = (0, 0);
    for piece in 0..PIECES {
        let at = records.len() / PIECES * piece;
        let piece = &records[at..records.len().min(at + FRAME_BYTES)];
        looked += piece.len();
        left += compressor.compress(piece).map_or(piece.len(), |compressed| compressed.len().min(piece.len()));
    }
    debug_assert!(left <= looked, "a piece that grows is stored as it is");
    let estimate = (records.len() as u128 * left as u128 / looked.max(1) as u128) as u64;
    assert!(estimate <= records.len() as u64, "{estimate} bytes estimated for {}", records.len());
    estimate
}
