//! The filters of many segments, checked together.

use std::hint::black_box;
use std::sync::Arc;

use crate::sealed::SealedSegment;
use crate::segment::TagHash;

/// The segments of a range whose filters report a tag as absent. The filters are checked together,
/// so that their cache misses overlap.
#[derive(Debug, Default)]
pub(crate) struct FilteredRange {
    begin: usize,
    end: usize,
    /// One bit per segment.
    rejected: u32,
}

impl FilteredRange {
    /// Whether the filter of segment `at` reports the first tag as absent. A segment without a
    /// loaded filter is not rejected.
    pub(crate) fn rejects(&mut self, at: usize, sealed: &[Arc<SealedSegment>], hashes: &[TagHash]) -> bool {
        let Some(hash) = hashes.first() else { return false };
        if !(self.begin..self.end).contains(&at) {
            let stretch = &sealed[at..sealed.len().min(at + u32::BITS as usize)];
            (self.begin, self.end, self.rejected) = (at, at + stretch.len(), 0);
            // A few instructions per segment, so that the processor loads the memory of all
            // segments at the same time.
            debug_assert!(!stretch.is_empty() && stretch.len() <= u32::BITS as usize, "one bit per segment");
            black_box(stretch.iter().fold(0, |sum, sealed| sum ^ sealed.touch(*hash)));
            for (bit, sealed) in stretch.iter().enumerate() {
                self.rejected |= u32::from(sealed.may_hold(*hash) == Some(false)) << bit;
            }
        }
        debug_assert!((self.begin..self.end).contains(&at), "segment {at} is in {}..{}", self.begin, self.end);
        self.rejected >> (at - self.begin) & 1 == 1
    }
}
