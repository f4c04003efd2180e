//! The one place that measures time: for progress and benchmarks, never for what is stored.

use std::time::{Duration, Instant};

/// Measures from when it was started, or from the last lap.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch {
    last: Instant,
}

impl Stopwatch {
    /// Starts.
    pub(crate) fn start() -> Self {
        Stopwatch { last: now() }
    }

    /// How long it has been running since it was started, or since the last lap.
    pub(crate) fn elapsed(&self) -> Duration {
        now().duration_since(self.last)
    }

    /// The same, and the next lap begins: one look at the clock for the end of one thing and the start of the next.
    pub(crate) fn lap(&mut self) -> Duration {
        let now = now();
        now.duration_since(std::mem::replace(&mut self.last, now))
    }
}

#[expect(clippy::disallowed_methods, reason = "a front end's measurement; nothing that is stored depends on it")]
fn now() -> Instant {
    Instant::now()
}
