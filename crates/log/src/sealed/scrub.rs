//! Verifying sealed segments before anybody needs them, a bounded number of bytes at a time.
//!
//! What was verified when it was first read is verified again: a page that was written back and read in anew may differ.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use quire_model::Position;

use crate::log::Shared;

/// How much is verified at once: about 50 µs of work.
const SLICE_BYTES: u64 = 256 << 10;

/// Where the scrub is.
#[derive(Debug, Default)]
pub(crate) struct Scrub {
    cursor: Mutex<Cursor>,
}

#[derive(Debug, Default)]
struct Cursor {
    /// Segments that end here or earlier are done, in this round.
    position: Position,
    /// The number of the next record within the segment.
    record: u32,
    scrubbed_bytes: u64,
}

impl Scrub {
    /// Verifies a slice; says how long to rest then, for so many bytes a second.
    pub(crate) fn slice(&self, shared: &Shared, bytes_per_second: u64) -> Duration {
        let mut cursor = self.cursor.lock().unwrap_or_else(PoisonError::into_inner);
        let segments = shared.segments();
        let at = segments.sealed.partition_point(|sealed| sealed.header.end <= cursor.position);
        let Some(sealed) = segments.sealed.get(at) else {
            // The round is over.
            (cursor.position, cursor.record) = (Position::ZERO, 0);
            return Duration::from_secs(1);
        };
        let (more, bytes) = shared.store().archive.scrub(sealed, cursor.record, SLICE_BYTES.min(bytes_per_second));
        cursor.record = more.unwrap_or(0);
        if more.is_none() {
            cursor.position = sealed.header.end;
        }
        cursor.scrubbed_bytes += bytes;
        Duration::from_secs_f64(bytes as f64 / bytes_per_second as f64)
    }

    /// How much was verified since the log was opened.
    pub(crate) fn scrubbed_bytes(&self) -> u64 {
        self.cursor.lock().unwrap_or_else(PoisonError::into_inner).scrubbed_bytes
    }
}

/// Verifies every sealed segment now.
pub(crate) fn scrub_all(shared: &Shared) {
    for sealed in shared.segments().sealed.iter() {
        let mut from = Some(0);
        while let Some(record) = from {
            from = shared.store().archive.scrub(sealed, record, u64::MAX).0;
        }
    }
}
