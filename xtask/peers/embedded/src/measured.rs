//! The result of a case: how many operations, in what time, and how long each took.

use std::time::{Duration, Instant};

use crate::Result;

/// The result of a case.
pub(crate) struct Measured {
    /// How many entries an operation has.
    entries_per_op: usize,
    latencies: Vec<Duration>,
}

impl Measured {
    /// Runs `op` `count` times, after a tenth of that to warm up, which does not count.
    pub(crate) fn warm(ops: u64, entries_per_op: usize, mut op: impl FnMut(u64) -> Result<()>) -> Result<Self> {
        let warm_up = (ops / 10).min(10_000);
        (0..warm_up).try_for_each(&mut op)?;
        Measured::cold(ops, entries_per_op, |number| op(warm_up + number))
    }

    /// Runs `op` `count` times, from the first on.
    pub(crate) fn cold(ops: u64, entries_per_op: usize, mut op: impl FnMut(u64) -> Result<()>) -> Result<Self> {
        let mut latencies = Vec::new();
        for number in 0..ops {
            let begun = Instant::now();
            op(number)?;
            latencies.push(begun.elapsed());
        }
        Ok(Measured { entries_per_op, latencies })
    }

    /// In the format of `quire-bench --json`.
    pub(crate) fn json(mut self, case: &str) -> String {
        let ops = self.latencies.len();
        let seconds: f64 = self.latencies.iter().map(Duration::as_secs_f64).sum();
        self.latencies.sort_unstable();
        let quantile = |share: f64| self.latencies.get((ops as f64 * share) as usize).map_or(0, Duration::as_nanos);
        let (rate, p50, p99, entries) = (ops as f64 / seconds, quantile(0.5), quantile(0.99), self.entries_per_op);
        format!(
            r#"{{"case":"{case}","entries_per_op":{entries},"ops":{ops},"ops_per_s":{rate:.1},"p50_ns":{p50},"p99_ns":{p99}}}"#
        )
    }
}
