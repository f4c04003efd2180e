//! Durations counted in buckets that double: a percentile is right to a factor of two, and taking one in costs two adds.

/// How many buckets there are.
pub(super) const BUCKETS: usize = 40;

/// Durations by size. Bucket 0 counts those of 0 ns, bucket `n` those of at least 2^(n-1) and less than 2^n ns; the last one
/// also counts all longer ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    /// How many fell into each bucket.
    pub buckets: [u64; BUCKETS],
    /// All of them together, in nanoseconds.
    pub total_ns: u64,
}

impl Histogram {
    /// How many there are.
    pub fn count(&self) -> u64 {
        // What a damaged page counts may add up to more than there can be.
        self.buckets.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Their mean in nanoseconds; 0 when there is none.
    pub fn mean_ns(&self) -> u64 {
        self.total_ns.checked_div(self.count()).unwrap_or(0)
    }

    /// A duration in nanoseconds that this share of them does not exceed, and at most twice the smallest such; 0 when there
    /// is none. 0.99 asks for the 99th percentile.
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

    /// What was taken in since `earlier`.
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        let difference = |bucket: usize| self.buckets[bucket].saturating_sub(earlier.buckets[bucket]);
        Histogram { buckets: std::array::from_fn(difference), total_ns: self.total_ns.saturating_sub(earlier.total_ns) }
    }
}

/// The bucket of a duration.
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
    fn a_percentile_is_never_less_than_the_truth_nor_twice_as_much() {
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
    fn a_difference_holds_what_came_later() {
        let (early, late) = (of(&[10, 1_000]), of(&[10, 10, 1_000, 70]));
        assert_eq!(late.since(&early), of(&[10, 70]));
    }
}
