//! The only clock of the command: for progress and benchmarks, never for stored data.
//!
//! It reads the processor's counter where that is steady. A read of the system's clock takes a
//! tenth of the shortest operation that is measured.

use std::time::Duration;

use quanta::{Clock, Instant};

/// Measures from its start, or from the last lap.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch {
    last: Instant,
}

impl Stopwatch {
    /// Starts a stopwatch.
    pub fn start() -> Self {
        Stopwatch { last: Instant::now() }
    }

    /// The time since the start, or since the last lap.
    pub fn elapsed(&self) -> Duration {
        self.last.elapsed()
    }

    /// Returns the time of this lap and starts the next one. One read of the clock ends one
    /// measurement and starts the next.
    pub fn lap(&mut self) -> Duration {
        let now = Instant::now();
        now.duration_since(std::mem::replace(&mut self.last, now))
    }
}

/// The processor's counter, for processes of one machine that compare times.
#[derive(Debug, Clone, Default)]
pub struct CycleCounter {
    clock: Clock,
}

impl CycleCounter {
    /// The counter of this machine.
    pub fn new() -> Self {
        CycleCounter::default()
    }

    /// Reads the counter.
    pub fn read(&self) -> u64 {
        self.clock.raw()
    }

    /// The nanoseconds since the counter read `before`, on any processor.
    pub fn since_ns(&self, before: u64) -> u64 {
        self.clock.delta_as_nanos(before, self.clock.raw())
    }
}
