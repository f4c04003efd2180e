//! Where a log gets its time from: the one place in the core that may read the system's clock.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use quire_model::Timestamp;

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
        #[expect(clippy::disallowed_methods, reason = "this is the component that everyone else is to use")]
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Within 64 bits all along: every commit looks at the clock.
        let micros = since_epoch.as_secs().saturating_mul(1_000_000);
        Timestamp::from_micros(micros.saturating_add(since_epoch.subsec_micros().into()))
    }

    fn monotonic_ns(&self) -> u64 {
        static BEGINNING: OnceLock<Instant> = OnceLock::new();
        #[expect(clippy::disallowed_methods, reason = "this is the component that everyone else is to use")]
        let now = Instant::now();
        u64::try_from(now.duration_since(*BEGINNING.get_or_init(|| now)).as_nanos()).unwrap_or(u64::MAX)
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
