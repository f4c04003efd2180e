//! The result of a case: how many messages, in what time, and, if measured, how long each took.

use std::time::Duration;

/// The result of a case.
pub(crate) struct Measured {
    messages: u64,
    elapsed: Duration,
    latencies: Vec<Duration>,
}

impl Measured {
    /// `messages` messages in `seconds`, with a latency for each, or none.
    pub(crate) fn new(messages: u64, elapsed: Duration, mut latencies: Vec<Duration>) -> Self {
        latencies.sort_unstable();
        Measured { messages, elapsed, latencies }
    }

    /// In the format of `quire-bench --json`.
    pub(crate) fn json(&self, case: &str) -> String {
        let rate = self.messages as f64 / self.elapsed.as_secs_f64();
        let (p50, p99) = (self.quantile_ns(0.5), self.quantile_ns(0.99));
        let ops = self.messages;
        format!(
            r#"{{"suite":"librdkafka","case":"{case}","ops":{ops},"ops_per_s":{rate:.1},"p50_ns":{p50},"p99_ns":{p99}}}"#
        )
    }

    fn quantile_ns(&self, share: f64) -> u128 {
        let index = (self.latencies.len() as f64 * share) as usize;
        self.latencies.get(index).map_or(0, Duration::as_nanos)
    }
}
