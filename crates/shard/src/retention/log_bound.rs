//! The bound of the log's disk space: topics give up their oldest records so that the log keeps to
//! it.
//!
//! Segments are given up from the oldest on. From then on a segment does not count towards the
//! bound until a compaction has rewritten it. The bytes that the compaction leaves count again: no
//! topic can give them up.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use quire_log::SegmentSize;
use quire_model::Position;

/// See the module.
#[derive(Debug)]
pub(crate) struct LogBound {
    /// Bytes of disk that the log may take; `None` for any number.
    bytes_max: Option<u64>,
    /// Topics keep their records from this commit on. It only rises.
    keep_from: Mutex<Position>,
    /// Bytes appended when the last check was requested.
    checked_at_bytes: AtomicU64,
}

/// Number of checks while as many bytes are appended as the log may take.
const CHECKS: u64 = 16;

impl LogBound {
    pub(crate) fn new(bytes_max: Option<u64>) -> Self {
        LogBound { bytes_max, keep_from: Mutex::default(), checked_at_bytes: AtomicU64::new(0) }
    }

    /// Gives up segments until the log keeps to its bound. Returns the commit from which on topics
    /// keep their records; `None` while they keep all.
    ///
    /// # Errors
    /// Those of `sizes`, which returns the sizes of the log's segments.
    pub(crate) fn enforce<E>(
        &self,
        sizes: impl FnOnce() -> Result<Vec<SegmentSize>, E>,
    ) -> Result<Option<Position>, E> {
        match self.bytes_max {
            Some(bytes_max) => Ok(self.give_up(&sizes()?, bytes_max)),
            None => Ok(None),
        }
    }

    fn give_up(&self, sizes: &[SegmentSize], bytes_max: u64) -> Option<Position> {
        let mut keep_from = self.keep_from.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *keep_from;
        let counts = |size: &&SegmentSize| size.compacted || size.first >= before;
        let mut bytes: u64 = sizes.iter().filter(counts).map(|size| size.bytes).sum();
        for pair in sizes.windows(2).filter(|pair| pair[0].first >= before) {
            if bytes <= bytes_max {
                break;
            }
            bytes -= pair[0].bytes;
            *keep_from = pair[1].first;
        }
        assert!(*keep_from >= before, "a topic's deleted records never return");
        (*keep_from > Position::ZERO).then_some(*keep_from)
    }

    /// Whether to check the log's size, now that this process has appended `appended_bytes`. Of
    /// several callers, one gets true.
    pub(crate) fn is_check_due(&self, appended_bytes: u64) -> bool {
        let Some(bytes_max) = self.bytes_max else { return false };
        let before = self.checked_at_bytes.load(Ordering::Relaxed);
        appended_bytes.saturating_sub(before) >= bytes_max / CHECKS
            && self
                .checked_at_bytes
                .compare_exchange(before, appended_bytes, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// Whether the log has exceeded its bound, so that topics gave up records.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.kept_from() > Position::ZERO
    }

    /// The commit from which on topics keep their records; [`Position::ZERO`] while they keep all.
    pub(crate) fn kept_from(&self) -> Position {
        *self.keep_from.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments of ten commits each, by their bytes; a negative number is that of a compacted
    /// segment.
    fn sizes(bytes: &[i64]) -> Vec<SegmentSize> {
        let size = |(number, bytes): (usize, &i64)| SegmentSize {
            first: Position::new(number as u64 * 10 + 1),
            bytes: bytes.unsigned_abs(),
            compacted: *bytes < 0,
        };
        bytes.iter().enumerate().map(size).collect()
    }

    #[test]
    fn a_check_is_due_whenever_a_sixteenth_of_the_bound_was_appended() {
        let bound = LogBound::new(Some(160));
        let checks = (0..=320_u64).filter(|bytes| bound.is_check_due(*bytes)).collect::<Vec<_>>();
        assert_eq!(checks, (1..=32).map(|part| part * 10).collect::<Vec<_>>());
    }

    #[test]
    fn segments_are_given_up_from_the_oldest_on_and_never_the_last() {
        let check = |bytes: &[i64], bytes_max, expected: Option<u64>| {
            let found = LogBound::new(None).give_up(&sizes(bytes), bytes_max);
            assert_eq!(found, expected.map(Position::new), "{bytes:?}");
        };
        check(&[100, 100, 100], 300, None);
        check(&[100, 100, 100], 299, Some(11));
        check(&[100, 100, 100], 150, Some(21));
        check(&[100, 100, 100], 0, Some(21));
        check(&[100], 0, None);
        check(&[-20, 100, 100], 210, Some(11));
        check(&[], 0, None);
    }

    #[test]
    fn a_segment_that_was_given_up_counts_again_once_it_is_compacted() {
        let bound = LogBound::new(None);
        assert!(!bound.is_exceeded());
        assert_eq!(bound.give_up(&sizes(&[100, 100, 100]), 250), Some(Position::new(11)));
        assert!(bound.is_exceeded());
        assert_eq!(bound.give_up(&sizes(&[100, 100, 100]), 250), Some(Position::new(11)));
        assert_eq!(bound.give_up(&sizes(&[-40, 100, 100]), 250), Some(Position::new(11)));
        assert_eq!(bound.give_up(&sizes(&[-60, 100, 100]), 250), Some(Position::new(21)));
        assert_eq!(bound.give_up(&sizes(&[-10]), 250), Some(Position::new(21)));
    }
}
