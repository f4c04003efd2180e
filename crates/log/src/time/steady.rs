//! The time of a log: a clock that may be set, made monotonic.
//!
//! The time follows a step forwards. After a step back, the time continues at the rate of the
//! monotonic counter until the clock has caught up. So leases end and schedules start at most as
//! late as requested, even if the clock was an hour ahead at the last record.

use std::sync::{Arc, PoisonError};

use quire_model::Timestamp;
use quire_threads::{AtomicU64, Mutex, Ordering};

use crate::time::clock::Clock;

/// A smaller difference is not a step back. It comes from two threads that read the clock in the
/// other order, or from a short correction. The time then stands still for at most this long.
const STEP_MICROS: u64 = 10_000;

/// The value of `last` while the clock is behind. No clock shows this time.
const BEHIND: u64 = u64::MAX;

/// The monotonic clock of a log and of its user. See the module.
#[derive(Debug)]
pub struct SteadyClock {
    clock: Arc<dyn Clock>,
    /// The latest returned time in microseconds; [`BEHIND`] while `behind` holds the time.
    last: AtomicU64,
    behind: Mutex<Option<SteadyTime>>,
}

/// The time from which the counter continues while the clock is behind.
#[derive(Debug, Clone, Copy)]
struct SteadyTime {
    micros: u64,
    /// The monotonic counter at that time.
    ns: u64,
}

impl SteadyClock {
    /// Creates a time that follows `clock` and starts no earlier than `last`, the time of the last
    /// record.
    pub(crate) fn new(clock: Arc<dyn Clock>, last: Timestamp) -> Self {
        // `BEHIND` itself is reserved.
        let last = AtomicU64::new(last.as_micros().min(BEHIND - 1));
        SteadyClock { clock, last, behind: Mutex::new(None) }
    }

    /// Advances the time to at least `time`, the time of a record of another process.
    pub(crate) fn not_before(&self, time: Timestamp) {
        let micros = time.as_micros();
        if self.now().as_micros() < micros {
            let mut behind = self.behind.lock().unwrap_or_else(PoisonError::into_inner);
            let since = self.since(*behind);
            // Another thread may have advanced the time to a later record.
            *behind = Some(SteadyTime { micros: since.micros.max(micros), ..since });
        }
    }

    /// Returns how far this time is ahead of its clock, in microseconds. It is ahead after a step
    /// back of the clock, or when the last record came from a machine with a later time.
    pub fn ahead_micros(&self) -> u64 {
        self.now().as_micros().saturating_sub(self.clock.now().as_micros())
    }

    #[cold]
    fn behind(&self, clock_micros: u64) -> u64 {
        let mut behind = self.behind.lock().unwrap_or_else(PoisonError::into_inner);
        let since = self.since(*behind);
        if clock_micros >= since.micros {
            *behind = None;
            self.last.store(clock_micros, Ordering::Relaxed);
            return clock_micros;
        }
        *behind = Some(since);
        since.micros
    }

    /// Returns the current time derived from `behind`, whose lock the caller holds. From then on,
    /// `behind` holds the time.
    fn since(&self, behind: Option<SteadyTime>) -> SteadyTime {
        let last = self.last.swap(BEHIND, Ordering::Relaxed);
        assert_eq!(behind.is_some(), last == BEHIND, "one of both fields holds the time");
        let ns = self.clock.monotonic_ns();
        let passed = |since: SteadyTime| {
            let micros = ns.saturating_sub(since.ns) / 1000;
            // The remainder below a microsecond stays in `ns`.
            SteadyTime { micros: since.micros.saturating_add(micros), ns: since.ns + micros * 1000 }
        };
        behind.map_or(SteadyTime { micros: last, ns }, passed)
    }
}

impl Clock for SteadyClock {
    #[inline]
    fn now(&self) -> Timestamp {
        let now = self.clock.now().as_micros();
        let mut last = self.last.load(Ordering::Relaxed);
        while last < now {
            // Of two racing threads, the later time wins: a thread that reads the time after
            // another never reads an earlier time.
            match self.last.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => last = now,
                Err(meanwhile) => last = meanwhile,
            }
        }
        debug_assert!(last >= now, "the latest time includes the time of this thread");
        let steady = if last - now <= STEP_MICROS { last } else { self.behind(now) };
        Timestamp::from_micros(steady)
    }

    fn monotonic_ns(&self) -> u64 {
        self.clock.monotonic_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ManualClock;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    /// Creates a time that starts at 1000 s, over a clock that shows 1000 s.
    fn steady() -> (Arc<ManualClock>, SteadyClock) {
        let clock = Arc::new(ManualClock::new(at(1000)));
        (Arc::clone(&clock), SteadyClock::new(clock, at(1000)))
    }

    #[test]
    fn a_step_forwards_is_followed() {
        let (clock, steady) = steady();
        clock.step(at(5000));
        assert_eq!(steady.now(), at(5000));
    }

    #[test]
    fn after_a_step_back_the_time_continues_until_the_clock_has_caught_up() {
        let (clock, steady) = steady();
        clock.step(at(500));
        assert_eq!(steady.now(), at(1000));
        clock.set(at(530));
        assert_eq!(steady.now(), at(1030), "thirty seconds have passed");
        clock.step(at(200));
        assert_eq!(steady.now(), at(1030), "and none in a step");
        clock.step(at(1000));
        clock.set(at(1060));
        assert_eq!(steady.now(), at(1090));
        clock.step(at(1091));
        assert_eq!(steady.now(), at(1091), "the clock has caught up");
    }

    #[test]
    fn it_begins_no_earlier_than_the_last_record() {
        let clock = Arc::new(ManualClock::new(at(10)));
        let steady = SteadyClock::new(Arc::clone(&clock) as _, at(1000));
        assert_eq!(steady.now(), at(1000));
        clock.set(at(11));
        assert_eq!(steady.now(), at(1001));
    }

    #[test]
    fn a_second_step_back_continues_from_the_latest_time() {
        let (clock, steady) = steady();
        clock.step(at(500));
        assert_eq!(steady.now(), at(1000));
        clock.step(at(4000));
        assert_eq!(steady.now(), at(4000));
        clock.step(at(100));
        assert_eq!(steady.now(), at(4000));
        clock.set(at(107));
        assert_eq!(steady.now(), at(4007));
    }

    #[test]
    fn the_paced_time_is_no_earlier_than_a_record_of_another_process() {
        let (clock, steady) = steady();
        steady.not_before(at(900));
        assert_eq!(steady.now(), at(1000));
        steady.not_before(at(2000));
        assert_eq!(steady.now(), at(2000));
        clock.set(at(1060));
        assert_eq!(steady.now(), at(2060));
        steady.not_before(at(3000));
        clock.step(at(2999));
        assert_eq!(steady.now(), at(3000));
        clock.set(at(3001));
        assert_eq!(steady.now(), at(3002));
    }

    #[test]
    fn the_time_does_not_advance_during_a_short_step_back() {
        let (clock, steady) = steady();
        clock.step(Timestamp::from_micros(at(1000).as_micros() - STEP_MICROS));
        assert_eq!(steady.now(), at(1000));
        clock.set(Timestamp::from_micros(at(1000).as_micros() - 1));
        assert_eq!(steady.now(), at(1000));
        clock.set(at(1001));
        assert_eq!(steady.now(), at(1001));
    }
}
