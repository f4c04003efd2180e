//! A histogram of durations with doubling buckets. A percentile is exact to a factor of two, and
//! recording a duration costs two additions.

/// The number of buckets.
pub(super) const BUCKETS: usize = 40;
const _: () = assert!(BUCKETS <= u64::BITS as usize, "the bound of every bucket is a u64");

/// A histogram of durations. Bucket 0 counts durations of 0 ns, and bucket `n` those from 2^(n-1)
/// to below 2^n ns. The last bucket also counts all longer durations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    /// The count of each bucket.
    pub buckets: [u64; BUCKETS],
    /// The sum of all durations, in nanoseconds.
    pub total_ns: u64,
}

impl Histogram {
    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        // The counts of a damaged page can overflow the sum.
        self.buckets.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Returns the mean duration in nanoseconds, or 0 without durations.
    pub fn mean_ns(&self) -> u64 {
        self.total_ns.checked_div(self.count()).unwrap_or(0)
    }

    /// Returns an upper bound of a percentile in nanoseconds, at most twice the exact value, or 0
    /// without durations. For example, a `share` of 0.99 returns the 99th percentile.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        let wanted = ((self.count() as f64 * share).ceil() as u64).min(self.count());
        let mut seen: u64 = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen = seen.saturating_add(*count);
            if *count > 0 && seen >= wanted {
                return (1 << bucket) - 1;
            }
        }
        0
    }

    /// Returns the durations recorded since `earlier`.
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        let difference = |bucket: usize| self.buckets[bucket].saturating_sub(earlier.buckets[bucket]);
        Histogram { buckets: std::array::from_fn(difference), total_ns: self.total_ns.saturating_sub(earlier.total_ns) }
    }
}

/// Returns the bucket of a duration.
pub(super) fn bucket_of(ns: u64) -> usize {
    ((u64::BITS - ns.leading_zeros()) as usize).min(BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(durations: &[u64]) -> Histogram {
        let mut histogram = Histogram { buckets: [0; BUCKETS], total_ns: 0 };
        for ns in durations {
            histogram.buckets[bucket_of(*ns)] += 1;
            histogram.total_ns = histogram.total_ns.saturating_add(*ns);
        }
        histogram
    }

    #[test]
    fn a_percentile_is_between_one_and_two_times_the_exact_value() {
        for exact in [1, 2, 3, 4, 100, 127, 128, 1_000_000, (1 << 38) - 1] {
            let found = of(&[exact]).quantile_ns(0.5);
            assert!(found >= exact && found < 2 * exact, "{exact} became {found}");
        }
        assert_eq!(of(&[0]).quantile_ns(0.99), 0);
        assert_eq!(of(&[]).quantile_ns(0.5), 0);
        assert_eq!(of(&[u64::MAX]).count(), 1);
    }

    #[test]
    fn percentiles_count_from_the_shortest() {
        let histogram = of(&[[10; 98].as_slice(), &[1_000, 100_000]].concat());
        assert_eq!([0.5, 0.98, 0.99, 1.0].map(|share| histogram.quantile_ns(share)), [15, 15, 1023, 131_071]);
        assert_eq!((histogram.count(), histogram.mean_ns()), (100, 1019));
    }

    #[test]
    fn a_difference_holds_the_later_durations() {
        let (early, late) = (of(&[10, 1_000]), of(&[10, 10, 1_000, 70]));
        assert_eq!(late.since(&early), of(&[10, 70]));
    }
}
