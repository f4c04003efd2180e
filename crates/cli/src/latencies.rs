//! Latencies as a histogram with three significant digits: a percentile is exact to 0.1 %.

use std::time::Duration;

use hdrhistogram::Histogram;

/// A histogram of latencies, and their sum.
#[derive(Debug)]
pub struct Latencies {
    nanos: Histogram<u64>,
    total: Duration,
}

impl Default for Latencies {
    fn default() -> Self {
        Latencies::new()
    }
}

impl Latencies {
    /// An empty histogram.
    pub fn new() -> Self {
        let nanos = Histogram::new(3).expect("three significant digits are a valid precision");
        Latencies { nanos, total: Duration::ZERO }
    }

    /// Records a latency.
    pub fn record(&mut self, latency: Duration) {
        self.total += latency;
        // In 64 bits, for speed: this is part of the measured time.
        let nanos = latency.as_secs().saturating_mul(1_000_000_000).saturating_add(latency.subsec_nanos().into());
        self.nanos.record(nanos).expect("the histogram grows as it must");
    }

    /// Adds the latencies of `other`.
    pub fn add(&mut self, other: &Latencies) {
        self.total += other.total;
        self.nanos.add(&other.nanos).expect("the histogram grows as it must");
    }

    /// The number of latencies.
    pub fn count(&self) -> u64 {
        self.nanos.len()
    }

    /// The sum of the latencies.
    pub fn total(&self) -> Duration {
        self.total
    }

    /// The latency, in nanoseconds, that a share of all latencies does not exceed. A share of 0.99
    /// is the 99th percentile.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        self.nanos.value_at_quantile(share)
    }

    /// The longest latency, in nanoseconds.
    pub fn max_ns(&self) -> u64 {
        self.nanos.max()
    }
}
