//! Latencies as a histogram with three significant digits, so that a percentile is right to a tenth of a percent.

use std::time::Duration;

use hdrhistogram::Histogram;

/// How long things took.
#[derive(Debug)]
pub(crate) struct Latencies {
    nanos: Histogram<u64>,
    total: Duration,
}

impl Latencies {
    /// None yet.
    pub(crate) fn new() -> Self {
        let nanos = Histogram::new(3).expect("three significant digits are a valid precision");
        Latencies { nanos, total: Duration::ZERO }
    }

    /// Takes one in.
    pub(crate) fn record(&mut self, latency: Duration) {
        self.total += latency;
        // In 64 bits, for speed: this is part of what is measured.
        let nanos = latency.as_secs().saturating_mul(1_000_000_000).saturating_add(latency.subsec_nanos().into());
        self.nanos.record(nanos).expect("the histogram grows as it must");
    }

    /// Takes in all of another's.
    pub(crate) fn add(&mut self, other: &Latencies) {
        self.total += other.total;
        self.nanos.add(&other.nanos).expect("the histogram grows as it must");
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.nanos.len()
    }

    /// All of them together.
    pub(crate) fn total(&self) -> Duration {
        self.total
    }

    /// The latency, in nanoseconds, that this share of them does not exceed: 0.99 is the 99th percentile.
    pub(crate) fn quantile_ns(&self, share: f64) -> u64 {
        self.nanos.value_at_quantile(share)
    }

    /// The longest, in nanoseconds.
    pub(crate) fn max_ns(&self) -> u64 {
        self.nanos.max()
    }
}
