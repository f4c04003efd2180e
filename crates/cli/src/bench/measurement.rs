//! What was measured of a case: the form that every suite reports in.

use serde::Serialize;

use super::cases::{Case, PAYLOAD_BYTES};
use crate::latencies::Latencies;
use crate::stopwatch::Stopwatch;

/// The result of a case. The names and their order are the JSON form.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Measurement {
    pub(super) suite: &'static str,
    pub(super) case: &'static str,
    pub(super) payload_bytes: usize,
    pub(super) threads: u32,
    pub(super) processes: u32,
    pub(super) durability: String,
    pub(super) entries_per_op: usize,
    pub(super) ops: u64,
    pub(super) ops_per_s: f64,
    pub(super) ns_per_entry: f64,
    pub(super) mean_ns: f64,
    pub(super) p50_ns: u64,
    pub(super) p95_ns: u64,
    pub(super) p99_ns: u64,
    pub(super) p999_ns: u64,
    pub(super) max_ns: u64,
}

/// Times one operation after the other.
#[derive(Debug)]
pub(super) struct Recorder {
    watch: Stopwatch,
    latencies: Latencies,
}

impl Recorder {
    /// The first operation starts now.
    pub(super) fn start() -> Self {
        let latencies = Latencies::new();
        Recorder { watch: Stopwatch::start(), latencies }
    }

    /// An operation has ended, and the next starts.
    pub(super) fn lap(&mut self) {
        self.latencies.record(self.watch.lap());
    }

    /// What all of them come to.
    pub(super) fn finish(self, case: &Case) -> Measurement {
        let ops = self.latencies.count();
        let entries = case.operation.entries();
        let total_ns = self.latencies.total().as_nanos() as f64;
        let mean_ns = total_ns / ops as f64;
        Measurement {
            suite: case.suite,
            case: case.name,
            payload_bytes: PAYLOAD_BYTES,
            threads: 1,
            processes: 1,
            durability: case.durability.to_string(),
            entries_per_op: entries,
            ops,
            ops_per_s: round(1e9 / mean_ns),
            ns_per_entry: round(mean_ns / entries as f64),
            mean_ns: round(mean_ns),
            p50_ns: self.latencies.quantile_ns(0.5),
            p95_ns: self.latencies.quantile_ns(0.95),
            p99_ns: self.latencies.quantile_ns(0.99),
            p999_ns: self.latencies.quantile_ns(0.999),
            max_ns: self.latencies.max_ns(),
        }
    }
}

/// To a tenth: more digits than that are noise.
fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
