//! The one place that measures time: for progress and benchmarks, never for what is stored.
//!
//! By the processor's own counter, where that is steady: to look at the system's clock takes a tenth of the shortest thing that is
//! measured.

use std::time::Duration;

use quanta::{Clock, Instant};

/// Measures from when it was started, or from the last lap.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch {
    last: Instant,
}

impl Stopwatch {
    /// Starts.
    pub(crate) fn start() -> Self {
        Stopwatch { last: Instant::now() }
    }

    /// How long it has been running since it was started, or since the last lap.
    pub(crate) fn elapsed(&self) -> Duration {
        self.last.elapsed()
    }

    /// The same, and the next lap begins: one look at the clock for the end of one thing and the start of the next.
    pub(crate) fn lap(&mut self) -> Duration {
        let now = Instant::now();
        now.duration_since(std::mem::replace(&mut self.last, now))
    }
}

/// The counter itself, for processes of one machine that tell each other when something was.
#[derive(Debug, Clone)]
pub(crate) struct Counter {
    clock: Clock,
}

impl Counter {
    /// That of this machine.
    pub(crate) fn new() -> Self {
        Counter { clock: Clock::new() }
    }

    /// What it shows.
    pub(crate) fn read(&self) -> u64 {
        self.clock.raw()
    }

    /// How many nanoseconds ago it showed this, on whatever processor.
    pub(crate) fn since_ns(&self, before: u64) -> u64 {
        self.clock.delta_as_nanos(before, self.clock.raw())
    }
}
