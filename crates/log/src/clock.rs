//! Where a log gets its time from: the one place in the core that may read the system's clock.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use quire_model::Timestamp;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// A source of time. It may step backwards; the log does not, and goes on at its pace: see [`SteadyClock`](crate::SteadyClock).
pub trait Clock: fmt::Debug + Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;

    /// Nanoseconds since some moment, never running backwards: how much time passes, whatever the clock is set to.
    fn monotonic_ns(&self) -> u64;
}

/// The system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        // Every commit looks at the clock: what the system says is taken as it is, for `SystemTime` takes 20 ns to say how long
        // ago its epoch was.
        let (seconds, nanos) = parts(clock_gettime(ClockId::Realtime));
        Timestamp::from_micros(seconds.saturating_mul(1_000_000).saturating_add(nanos / 1000))
    }

    fn monotonic_ns(&self) -> u64 {
        let (seconds, nanos) = parts(clock_gettime(ClockId::Monotonic));
        seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
    }
}

/// Seconds and nanoseconds; a clock that is set before 1970 stands there.
#[inline]
fn parts(time: Timespec) -> (u64, u64) {
    match (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec)) {
        (Ok(seconds), Ok(nanos)) => (seconds, nanos),
        _ => (0, 0),
    }
}

/// A clock that stands until it is set, for tests and simulations.
#[derive(Debug, Default)]
pub struct ManualClock {
    micros: AtomicU64,
    passed_micros: AtomicU64,
}

impl ManualClock {
    /// A clock that shows this time.
    pub fn new(now: Timestamp) -> Self {
        ManualClock { micros: AtomicU64::new(now.as_micros()), passed_micros: AtomicU64::new(0) }
    }

    /// Has time pass until it is so late; to an earlier time, the clock steps.
    pub fn set(&self, now: Timestamp) {
        let before = self.micros.swap(now.as_micros(), Ordering::SeqCst);
        self.passed_micros.fetch_add(now.as_micros().saturating_sub(before), Ordering::SeqCst);
    }

    /// Sets the clock, forwards or backwards, while no time passes.
    pub fn step(&self, now: Timestamp) {
        self.micros.store(now.as_micros(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.micros.load(Ordering::SeqCst))
    }

    fn monotonic_ns(&self) -> u64 {
        self.passed_micros.load(Ordering::SeqCst).saturating_mul(1000)
    }
}
