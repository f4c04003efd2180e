//! A histogram of durations that many threads record in, and the durations of commits.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use quire_log::Clock;
use quire_model::Timestamp;

/// The upper bounds of the buckets, in microseconds. A longer duration counts in the last bucket,
/// which has no bound.
const BOUNDS_US: [u64; 21] = [
    10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000,
];

/// A histogram of durations. Recording costs two relaxed additions on neighbouring words.
///
/// ```
/// use std::time::Duration;
///
/// let durations = quire::Durations::default();
/// durations.record(Duration::from_millis(3));
/// let counts = durations.counts();
/// assert_eq!((counts.count(), counts.total), (1, Duration::from_millis(3)));
/// let at_most_5_ms = counts.up_to().find(|(bound, _)| *bound == Duration::from_millis(5));
/// assert_eq!(at_most_5_ms.map(|(_, count)| count), Some(1));
/// ```
#[derive(Debug, Default)]
pub struct Durations {
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    total_ns: AtomicU64,
}

/// The counts of [`Durations`] at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DurationCounts {
    buckets: [u64; BOUNDS_US.len() + 1],
    /// The sum of all durations.
    pub total: Duration,
}

impl Durations {
    /// Records a duration.
    #[inline]
    pub fn record(&self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_US.partition_point(|bound_us| bound_us * 1_000 < ns);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.total_ns.fetch_add(ns, Relaxed);
    }

    /// Returns the counts.
    pub fn counts(&self) -> DurationCounts {
        let buckets = std::array::from_fn(|bucket| self.buckets[bucket].load(Relaxed));
        DurationCounts { buckets, total: Duration::from_nanos(self.total_ns.load(Relaxed)) }
    }
}

impl DurationCounts {
    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the bounds in rising order, each with the number of durations up to that bound.
    pub fn up_to(&self) -> impl Iterator<Item = (Duration, u64)> {
        let mut count = 0;
        BOUNDS_US.into_iter().zip(self.buckets).map(move |(bound_us, bucket)| {
            count += bucket;
            (Duration::from_micros(bound_us), count)
        })
    }
}

/// The least time between two timed commits, in microseconds. Reading the clock twice costs as much
/// as a small commit.
const BETWEEN_TIMED_US: u64 = 64;

/// Times commits, from before the decision until the result may leave the database. Of many commits
/// in a short time, only some are timed.
#[derive(Debug, Default)]
pub(crate) struct CommitTimer {
    timed_at_us: AtomicU64,
    durations: Durations,
}

/// A commit that is timed.
#[derive(Debug)]
pub(crate) struct TimedCommit {
    timer: Arc<CommitTimer>,
    begun_ns: u64,
}

impl CommitTimer {
    /// Begins to time a commit at `now`, if it is timed.
    #[inline]
    pub(crate) fn begin(self: &Arc<Self>, now: Timestamp, clock: &dyn Clock) -> Option<TimedCommit> {
        let now_us = now.as_micros();
        if now_us.saturating_sub(self.timed_at_us.load(Relaxed)) < BETWEEN_TIMED_US {
            return None;
        }
        self.timed_at_us.store(now_us, Relaxed);
        Some(TimedCommit { timer: Arc::clone(self), begun_ns: clock.monotonic_ns() })
    }

    /// The durations of the timed commits.
    pub(crate) fn counts(&self) -> DurationCounts {
        self.durations.counts()
    }
}

impl TimedCommit {
    /// Records the duration of the commit.
    pub(crate) fn end(self, clock: &dyn Clock) {
        let ns = clock.monotonic_ns().saturating_sub(self.begun_ns);
        self.timer.durations.record(Duration::from_nanos(ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_from_the_first_bound_that_is_not_below_it() {
        let durations = Durations::default();
        for ns in [0, 10_000, 10_001, 60_000_000_000, 60_000_000_001, u64::MAX / 2] {
            durations.record(Duration::from_nanos(ns));
        }
        let counts = durations.counts();
        let up_to: Vec<u64> = counts.up_to().map(|(_, count)| count).collect();
        assert_eq!((up_to[0], up_to[1], up_to[19], up_to[20], counts.count()), (2, 3, 3, 4, 6));
        assert!(counts.up_to().is_sorted(), "bounds and counts rise");
    }
}
