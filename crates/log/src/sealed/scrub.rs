//! Background verification of sealed segments, with a limited number of bytes at a time.
//!
//! The scrub verifies records again even after a read has verified them. The kernel may have
//! dropped a page and read it again, with other content.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use quire_model::Position;

use crate::read::segments::Segments;
use crate::sealed::Archive;

/// Bytes that are verified at once, in about 50 µs.
const SLICE_BYTES: u64 = 256 << 10;

/// The progress of the scrub.
#[derive(Debug, Default)]
pub(crate) struct Scrub {
    cursor: Mutex<ScrubCursor>,
}

#[derive(Debug, Default)]
struct ScrubCursor {
    /// Segments that end at or before this position are done, in this round.
    position: Position,
    /// The number of the next record within the segment.
    record: u32,
    scrubbed_bytes: u64,
}

impl Scrub {
    /// Verifies a slice. Returns the time to rest, for `bytes_per_second`.
    pub(crate) fn slice(&self, segments: &Segments, archive: &Archive, bytes_per_second: u64) -> Duration {
        assert!(bytes_per_second > 0, "a scrub of 0 bytes a second is off");
        let mut cursor = self.cursor.lock().unwrap_or_else(PoisonError::into_inner);
        let at = segments.sealed.partition_point(|sealed| sealed.header.end <= cursor.position);
        let Some(sealed) = segments.sealed.get(at) else {
            // The round is over.
            (cursor.position, cursor.record) = (Position::ZERO, 0);
            return Duration::from_secs(1);
        };
        let (more, bytes) = archive.scrub(sealed, cursor.record, SLICE_BYTES.min(bytes_per_second));
        debug_assert!(more.is_none_or(|more| more >= cursor.record), "a scrub only moves forward");
        cursor.record = more.unwrap_or(0);
        if more.is_none() {
            cursor.position = sealed.header.end;
        }
        cursor.scrubbed_bytes += bytes;
        Duration::from_secs_f64(bytes as f64 / bytes_per_second as f64)
    }

    /// The bytes that were verified since the log was opened.
    pub(crate) fn scrubbed_bytes(&self) -> u64 {
        self.cursor.lock().unwrap_or_else(PoisonError::into_inner).scrubbed_bytes
    }
}

/// Verifies every sealed segment now.
pub(crate) fn scrub_all(segments: &Segments, archive: &Archive) {
    for sealed in segments.sealed.iter() {
        let mut from = Some(0);
        while let Some(record) = from {
            from = archive.scrub(sealed, record, u64::MAX).0;
        }
    }
}
