//! The result of a case: how many operations, in what time, and how long each took.

use std::time::{Duration, Instant};

use crate::Result;

/// The result of a case.
pub(crate) struct Measured {
    /// How many events an operation has.
    pub(crate) entries_per_op: usize,
    latencies: Vec<Duration>,
    elapsed: Duration,
    /// The bytes of the file for an event, if measured.
    pub(crate) disk_bytes_per_event: Option<f64>,
}

impl Measured {
    /// The operations of all clients, which together took `elapsed`.
    pub(crate) fn new(entries_per_op: usize, mut latencies: Vec<Duration>, elapsed: Duration) -> Self {
        latencies.sort_unstable();
        Measured { entries_per_op, latencies, elapsed, disk_bytes_per_event: None }
    }

    /// Runs `op` `count` times with a single client, without a warm-up.
    pub(crate) fn one(ops: u64, mut op: impl FnMut(u64) -> Result<()>) -> Result<Self> {
        let mut latencies = Vec::new();
        for number in 0..ops {
            let begun = Instant::now();
            op(number)?;
            latencies.push(begun.elapsed());
        }
        let elapsed = latencies.iter().sum();
        Ok(Measured::new(1, latencies, elapsed))
    }

    /// In the format of `quire-bench --json`.
    pub(crate) fn json(&self, case: &str) -> String {
        let ops = self.latencies.len();
        let rate = ops as f64 / self.elapsed.as_secs_f64();
        let (p50, p99, entries) = (self.quantile_ns(0.5), self.quantile_ns(0.99), self.entries_per_op);
        let also = self
            .disk_bytes_per_event
            .map_or(String::new(), |bytes| format!(r#","also":{{"disk_bytes_per_event":{bytes:.1}}}"#));
        format!(
            r#"{{"suite":"umadb","case":"{case}","entries_per_op":{entries},"ops":{ops},"ops_per_s":{rate:.1},"p50_ns":{p50},"p99_ns":{p99}{also}}}"#
        )
    }

    fn quantile_ns(&self, share: f64) -> u128 {
        let index = (self.latencies.len() as f64 * share) as usize;
        self.latencies.get(index).map_or(0, Duration::as_nanos)
    }
}
