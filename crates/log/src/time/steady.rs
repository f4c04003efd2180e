//! The time of a log: that of a clock which may be set, made to go on at its pace however the clock is set.
//!
//! A step forwards is followed. Behind a step back the time goes on from where it was, as fast as the clock's monotonic
//! counter, until the clock has caught up: leases end and schedules come after the time that was asked for, also on a machine
//! whose clock was an hour ahead when the last record was written.

use std::sync::{Arc, PoisonError};

use quire_model::Timestamp;
use quire_threads::{AtomicU64, Mutex, Ordering};

use crate::time::clock::Clock;

/// Less than this is no step back, but two threads that read the clock one after the other and came here the other way round,
/// or a correction that is over in a moment: the time stands still for so long at most.
const STEP_MICROS: u64 = 10_000;

/// What stands for the latest time while the clock is behind: no clock shows it.
const BEHIND: u64 = u64::MAX;

/// See the module. It is the clock that a log, and whoever opened it, tells the time by.
#[derive(Debug)]
pub struct SteadyClock {
    clock: Arc<dyn Clock>,
    /// The latest time that was told, in microseconds; [`BEHIND`] when `behind` says what it was.
    last: AtomicU64,
    behind: Mutex<Option<Since>>,
}

/// Where the time goes on from while the clock is behind.
#[derive(Debug, Clone, Copy)]
struct Since {
    micros: u64,
    /// What the monotonic counter was then.
    ns: u64,
}

impl SteadyClock {
    /// A time that follows `clock`, and does not begin before `last`: the time of the last record of a log.
    pub(crate) fn new(clock: Arc<dyn Clock>, last: Timestamp) -> Self {
        // The end of time is no time to go on from.
        let last = AtomicU64::new(last.as_micros().min(BEHIND - 1));
        SteadyClock { clock, last, behind: Mutex::new(None) }
    }

    /// Has the time be no earlier than this from now on: that of a record that another process appended.
    pub(crate) fn not_before(&self, time: Timestamp) {
        let micros = time.as_micros();
        if self.now().as_micros() < micros {
            let mut behind = self.behind.lock().unwrap_or_else(PoisonError::into_inner);
            let since = self.since(*behind);
            // Another thread may have been told of a later record.
            *behind = Some(Since { micros: since.micros.max(micros), ..since });
        }
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

    /// What the time is now, by what `behind` says under its lock; from then on it is what says so.
    fn since(&self, behind: Option<Since>) -> Since {
        let last = self.last.swap(BEHIND, Ordering::Relaxed);
        let ns = self.clock.monotonic_ns();
        let passed = |since: Since| {
            let micros = ns.saturating_sub(since.ns) / 1000;
            // What is less than a microsecond is not lost.
            Since { micros: since.micros.saturating_add(micros), ns: since.ns + micros * 1000 }
        };
        behind.map_or(Since { micros: last, ns }, passed)
    }
}

impl Clock for SteadyClock {
    #[inline]
    fn now(&self) -> Timestamp {
        let now = self.clock.now().as_micros();
        let mut last = self.last.load(Ordering::Relaxed);
        while last < now {
            // Of two threads that race the later has the last word: whoever reads the time behind another reads no earlier one.
            match self.last.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => last = now,
                Err(meanwhile) => last = meanwhile,
            }
        }
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

    /// A time that begins at 1000 s, over a clock that shows 1000 s.
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
    fn behind_a_step_back_the_time_goes_on_until_the_clock_has_caught_up() {
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
    fn it_begins_no_earlier_than_it_is_told() {
        let clock = Arc::new(ManualClock::new(at(10)));
        let steady = SteadyClock::new(Arc::clone(&clock) as _, at(1000));
        assert_eq!(steady.now(), at(1000));
        clock.set(at(11));
        assert_eq!(steady.now(), at(1001));
    }

    #[test]
    fn a_second_step_back_counts_from_where_the_clock_was_followed_to() {
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
    fn it_is_no_earlier_than_a_record_of_another_process() {
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
    fn a_moment_back_is_waited_for() {
        let (clock, steady) = steady();
        clock.step(Timestamp::from_micros(at(1000).as_micros() - STEP_MICROS));
        assert_eq!(steady.now(), at(1000));
        clock.set(Timestamp::from_micros(at(1000).as_micros() - 1));
        assert_eq!(steady.now(), at(1000));
        clock.set(at(1001));
        assert_eq!(steady.now(), at(1001));
    }
}
