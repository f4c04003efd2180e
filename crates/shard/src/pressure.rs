//! The bound of what the log takes of the disk: from which commit on topics keep their records, so that it takes no more.
//!
//! Segments go from the oldest on. One whose records topics have let go of does not count any more from then on: a compaction is to rewrite it. What that
//! leaves counts again, for it is what nobody lets go of.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use quire_log::SegmentSize;
use quire_model::Position;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    /// From this commit on topics keep their records.
    keep_from: Mutex<Position>,
    /// How much was appended when a look was last asked for.
    looked_at_bytes: AtomicU64,
}

/// How often topics are looked at while as much is appended as the log is to take.
const LOOKS: u64 = 16;

impl Pressure {
    /// From which commit on topics keep their records, of a log with segments of these sizes that is to have at most so many bytes;
    /// `None` while they keep all. What they once let go of they don't get back.
    pub(crate) fn keep_from(&self, sizes: &[SegmentSize], bytes_max: u64) -> Option<Position> {
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
        (*keep_from > Position::ZERO).then_some(*keep_from)
    }

    /// Whether topics are to be looked at, now that so much was appended to a log that is to have at most `bytes_max`. Says so to one of those
    /// who ask.
    pub(crate) fn is_to_look(&self, appended_bytes: u64, bytes_max: u64) -> bool {
        let before = self.looked_at_bytes.load(Ordering::Relaxed);
        appended_bytes.saturating_sub(before) >= bytes_max / LOOKS
            && self
                .looked_at_bytes
                .compare_exchange(before, appended_bytes, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// Whether topics had to let go of anything.
    pub(crate) fn is_on(&self) -> bool {
        self.kept_from() > Position::ZERO
    }

    /// From which commit on topics keep their records by now.
    pub(crate) fn kept_from(&self) -> Position {
        *self.keep_from.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments of ten commits each, by their bytes; those with a minus are compacted.
    fn sizes(bytes: &[i64]) -> Vec<SegmentSize> {
        let size = |(number, bytes): (usize, &i64)| SegmentSize {
            first: Position::new(number as u64 * 10 + 1),
            bytes: bytes.unsigned_abs(),
            compacted: *bytes < 0,
        };
        bytes.iter().enumerate().map(size).collect()
    }

    #[test]
    fn topics_are_looked_at_whenever_a_part_of_the_bound_was_appended() {
        let pressure = Pressure::default();
        let looks = (0..=320_u64).filter(|bytes| pressure.is_to_look(*bytes, 160)).collect::<Vec<_>>();
        assert_eq!(looks, (1..=32).map(|part| part * 10).collect::<Vec<_>>());
    }

    #[test]
    fn segments_go_from_the_oldest_on_and_never_the_last() {
        let check = |bytes: &[i64], bytes_max, expected: Option<u64>| {
            let found = Pressure::default().keep_from(&sizes(bytes), bytes_max);
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
    fn what_was_let_go_of_counts_no_more_and_what_a_compaction_leaves_of_it_counts_again() {
        let pressure = Pressure::default();
        assert!(!pressure.is_on());
        assert_eq!(pressure.keep_from(&sizes(&[100, 100, 100]), 250), Some(Position::new(11)));
        assert!(pressure.is_on());
        assert_eq!(pressure.keep_from(&sizes(&[100, 100, 100]), 250), Some(Position::new(11)));
        assert_eq!(pressure.keep_from(&sizes(&[-40, 100, 100]), 250), Some(Position::new(11)));
        assert_eq!(pressure.keep_from(&sizes(&[-60, 100, 100]), 250), Some(Position::new(21)));
        assert_eq!(pressure.keep_from(&sizes(&[-10]), 250), Some(Position::new(21)));
    }
}
