//! Searches of indexes: a search along tags in bounded parts, and a search of one sorted sequence.
//!
//! The search of a sequence starts at an expected position and widens in doubling steps. A
//! guess that is off by `d` costs about 2 log₂ `d` comparisons. An exact guess costs two.
//!
//! Source: Bentley and Yao, "An almost optimal algorithm for unbounded searching", Information
//! Processing Letters 5 (1976).

/// The most candidates of one part of a search along tags. A search holds the lock of a live
/// segment's index for one part, which takes some 10 µs.
pub(crate) const CANDIDATES_MAX: u32 = 256;

/// Where a part of a search along tags ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TagSearch<T = u32> {
    /// This ordinal carries all tags.
    Found(T),
    /// No further ordinal carries all tags.
    Ended,
    /// The part used up its candidates. The search continues at, or before, this ordinal.
    Paused(u32),
}

/// The candidates of one part of a search.
#[derive(Debug)]
pub(crate) struct Candidates(u32);

impl Candidates {
    pub(crate) fn new() -> Self {
        Candidates(CANDIDATES_MAX)
    }

    /// Takes a candidate. Returns whether the part continues.
    #[inline]
    pub(crate) fn take(&mut self) -> bool {
        debug_assert!(self.0 <= CANDIDATES_MAX, "candidates are only taken");
        self.0 = self.0.saturating_sub(1);
        self.0 > 0
    }

    /// The number of candidates taken, and one for the part itself.
    pub(crate) fn steps(&self) -> u64 {
        u64::from(CANDIDATES_MAX - self.0) + 1
    }
}

/// Returns the number of leading items, of `count`, for which `holds` returns true. `holds` must be
/// true for a prefix of the items and false for all later items. `guess` is the expected result and
/// may have any value.
///
/// # Errors
/// The errors of `holds`.
#[inline]
pub(crate) fn count_while<E>(
    count: usize,
    guess: usize,
    mut holds: impl FnMut(usize) -> Result<bool, E>,
) -> Result<usize, E> {
    // Invariant: `holds` is true for every item before `low` and false for every item from `high`
    // on.
    let (mut low, mut high) = (0, count);
    let mut step = 1;
    let mut at = guess.min(count.saturating_sub(1));
    if low < high && holds(at)? {
        low = at + 1;
        while high - low >= step {
            at = low + step - 1;
            if !holds(at)? {
                high = at;
                break;
            }
            (low, step) = (at + 1, 2 * step);
        }
    } else {
        high = at;
        while high - low >= step {
            at = high - step;
            if holds(at)? {
                low = at + 1;
                break;
            }
            (high, step) = (at, 2 * step);
        }
    }
    debug_assert!(low <= high && high <= count, "{low}..{high} of {count}");
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle)? { low = middle + 1 } else { high = middle }
    }
    Ok(low)
}

/// Returns the index at which a value is expected among `count` sorted values. The first value is
/// `first`, the last is `last`, and the others are assumed to be evenly spaced.
#[inline]
pub(crate) fn expected(value: u64, first: u64, last: u64, count: usize) -> usize {
    if value <= first || last <= first {
        return 0;
    }
    // A guess may be inexact. A division of 128 bits takes longer than two comparisons.
    ((value - first) as f64 / (last - first) as f64 * count.saturating_sub(1) as f64) as usize
}

#[cfg(test)]
mod tests {
    use core::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_guess_leads_to_the_same_result(
            mut values in proptest::collection::vec(0..200_u64, 0..300),
            wanted in 0..210_u64,
            guess in 0..400_usize,
        ) {
            values.sort_unstable();
            let below = |at: usize| Ok::<_, Infallible>(values[at] < wanted);
            let Ok(found) = count_while(values.len(), guess, below);
            prop_assert_eq!(found, values.partition_point(|value| *value < wanted));
        }

        #[test]
        fn the_number_of_comparisons_grows_with_the_logarithm_of_the_error(at in 0..100_000_usize, off in 0..1_000_usize) {
            let mut looks = 0;
            let mut below = |other: usize| { looks += 1; Ok::<_, Infallible>(other < at) };
            let Ok(found) = count_while(100_000, at.saturating_sub(off), &mut below);
            prop_assert_eq!(found, at);
            prop_assert!(looks <= 2 + 2 * (off + 1).ilog2(), "{} looks", looks);
        }

        #[test]
        fn evenly_spaced_values_are_expected_at_their_index(first in 0..u64::from(u32::MAX), step in 1..1_000_u64, count in 2..5_000_usize) {
            let value = |at: usize| first + at as u64 * step;
            for at in [0, 1, count / 2, count - 1] {
                let expected = expected(value(at), first, value(count - 1), count);
                prop_assert!(expected.abs_diff(at) <= 1, "{} instead of {}", expected, at);
            }
        }
    }

    #[test]
    fn values_out_of_range_are_expected_at_an_end() {
        assert_eq!([expected(3, 5, 9, 10), expected(7, 7, 7, 10), expected(0, 0, 0, 0)], [0; 3]);
        assert!(expected(u64::MAX, 5, 6, 10) >= 9);
    }
}
