//! The clock of a log, and the only place in the core that reads the system's clock.

use std::fmt;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use quire_mapped::{has_steady_ticks, ticks};
use quire_model::Timestamp;
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::time::paced::{PacedClock, Sources};

/// A source of time. The clock may step backwards; the time of a log does not, see
/// [`SteadyClock`](crate::SteadyClock).
pub trait Clock: fmt::Debug + Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Timestamp;

    /// Returns the nanoseconds since some fixed moment. The value never decreases and is
    /// independent of clock changes.
    fn monotonic_ns(&self) -> u64;
}

/// The system's clock. It follows a change of the system time within a millisecond.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

thread_local! {
    static PACED: PacedClock = const { PacedClock::new() };
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(PACED.with(|paced| paced.now(self)) / 1000)
    }

    fn monotonic_ns(&self) -> u64 {
        nanos(ClockId::Monotonic)
    }
}

impl Sources for SystemClock {
    #[inline]
    fn ticks(&self) -> u64 {
        ticks()
    }

    fn has_steady_ticks(&self) -> bool {
        static HAS_STEADY_TICKS: LazyLock<bool> = LazyLock::new(has_steady_ticks);
        *HAS_STEADY_TICKS
    }

    fn nanos(&self) -> u64 {
        nanos(ClockId::Realtime)
    }
}

/// Reads a clock of the system in nanoseconds. A time before 1970 becomes 0.
fn nanos(clock: ClockId) -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
    match (u64::try_from(tv_sec), u64::try_from(tv_nsec)) {
        (Ok(seconds), Ok(nanos)) => seconds.saturating_mul(1_000_000_000).saturating_add(nanos),
        _ => 0,
    }
}

/// A clock that changes only when it is set, for tests and simulations.
#[derive(Debug, Default)]
pub struct ManualClock {
    micros: AtomicU64,
    passed_micros: AtomicU64,
}

impl ManualClock {
    /// Creates a clock that shows `now`.
    pub fn new(now: Timestamp) -> Self {
        ManualClock { micros: AtomicU64::new(now.as_micros()), passed_micros: AtomicU64::new(0) }
    }

    /// Sets the clock to `now` and lets the time in between pass. To an earlier time, the clock
    /// steps back.
    pub fn set(&self, now: Timestamp) {
        let before = self.micros.swap(now.as_micros(), Ordering::SeqCst);
        self.passed_micros.fetch_add(now.as_micros().saturating_sub(before), Ordering::SeqCst);
    }

    /// Sets the clock, forwards or backwards, without time passing.
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
