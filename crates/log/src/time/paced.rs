//! The system's time, read once a millisecond. In between, the processor's counter measures the
//! time.
//!
//! Reading the system's clock takes 23 ns, and every commit needs the time. Reading the counter
//! takes 8 ns (AMD EPYC of the fourth Zen generation, Linux 6.18).
//!
//! The nanoseconds per tick are measured between two readings of the system's clock, and trusted
//! when two successive measurements agree. After a clock change, a suspend or a migration,
//! measurements disagree, and every call reads the system's clock until two agree again. Whatever
//! the counter does, the returned time is the last reading plus at most a millisecond. A pause of
//! the machine between a reading and its use can make the time older, as with any clock.

use std::cell::Cell;

/// The maximum time for which a reading is extended by the counter.
const WINDOW_NS: u64 = 1_000_000;

/// The maximum number of ticks during a valid reading of the system's clock. More ticks mean that
/// the thread was interrupted. A reading takes about 60 ticks, or 1,000 where it is a system call.
const READING_TICKS_MAX: u64 = 4096;

/// The maximum time between two readings that measure the pace: 2 s, so that the product fits a
/// word.
const MEASURED_NS_MAX: u64 = 1 << 31;

/// The fraction bits of a pace, a fixed-point number of nanoseconds per tick.
const PACE_BITS: u32 = 32;
const _: () = assert!(MEASURED_NS_MAX <= u64::MAX >> PACE_BITS && WINDOW_NS < MEASURED_NS_MAX);

/// Two paces agree when they differ by at most a 1024th. A clock under correction runs up to 500
/// ppm faster or slower (`adjtimex(2)`). An error of 100 ns in a reading adds 100 ppm of a window.
const AGREES_SHIFT: u32 = 10;

/// The sources of the time.
pub(crate) trait Sources {
    /// Reads the processor's counter.
    fn ticks(&self) -> u64;

    /// Whether the counter has a constant rate.
    fn has_steady_ticks(&self) -> bool;

    /// Reads the system's clock in nanoseconds since the epoch.
    fn nanos(&self) -> u64;
}

/// The time of a thread.
#[derive(Debug)]
pub(crate) struct PacedClock {
    last: Cell<ClockReading>,
}

/// A reading of the system's clock.
#[derive(Debug, Clone, Copy)]
struct ClockReading {
    /// The counter at the reading.
    ticks: u64,
    /// The system's time at the reading, in nanoseconds.
    nanos: u64,
    /// The last measured pace.
    pace: u64,
    /// The number of ticks after the reading during which the counter extends it; 0 while the pace
    /// is not trusted.
    lasts: u64,
}

impl PacedClock {
    /// Creates the state without a reading.
    pub(crate) const fn new() -> Self {
        PacedClock { last: Cell::new(ClockReading { ticks: 0, nanos: 0, pace: 0, lasts: 0 }) }
    }

    /// Returns the nanoseconds since the epoch.
    #[inline]
    pub(crate) fn now(&self, sources: &impl Sources) -> u64 {
        let last = self.last.get();
        let passed = sources.ticks().wrapping_sub(last.ticks);
        if passed >= last.lasts {
            return self.read(sources);
        }
        debug_assert!(last.pace > 0, "a trusted pace is measured");
        last.nanos.saturating_add((passed * last.pace) >> PACE_BITS)
    }

    /// Reads the system's clock.
    #[cold]
    fn read(&self, sources: &impl Sources) -> u64 {
        let (before, nanos, after) = (sources.ticks(), sources.nanos(), sources.ticks());
        if !sources.has_steady_ticks() {
            return nanos;
        }
        let last = self.last.get();
        if after.wrapping_sub(before) > READING_TICKS_MAX {
            self.last.set(ClockReading { lasts: 0, ..last });
            return nanos;
        }
        let passed = nanos.checked_sub(last.nanos).filter(|passed| *passed <= MEASURED_NS_MAX);
        let counted = before.wrapping_sub(last.ticks);
        match passed {
            // Too soon to measure: the last reading stays in use.
            Some(..WINDOW_NS) => {}
            Some(passed) if counted > 0 => {
                let pace = (passed << PACE_BITS) / counted;
                let agrees = pace > 0 && pace.abs_diff(last.pace) <= last.pace >> AGREES_SHIFT;
                let lasts = if agrees { (WINDOW_NS << PACE_BITS) / pace } else { 0 };
                self.last.set(ClockReading { ticks: before, nanos, pace, lasts });
            }
            _ => self.last.set(ClockReading { ticks: before, nanos, pace: last.pace, lasts: 0 }),
        }
        nanos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: u64 = 1_000_000;

    /// A machine whose counter advances 2.5 ticks per nanosecond.
    struct Machine {
        has_steady_ticks: bool,
        ticks: Cell<u64>,
        nanos: Cell<u64>,
        asked: Cell<u64>,
        /// The nanoseconds that pass during a reading.
        reading_ns: Cell<u64>,
        paced: PacedClock,
    }

    impl Machine {
        /// Creates a machine whose counter is trusted and shows `ticks`.
        fn running(ticks: u64) -> Self {
            let machine = Machine::begun(ticks);
            machine.settle();
            machine
        }

        fn begun(ticks: u64) -> Self {
            let [asked, reading_ns] = [const { Cell::new(0) }; 2];
            let (ticks, nanos) = (Cell::new(ticks), Cell::new(1_000 * MILLISECOND));
            Machine { has_steady_ticks: true, ticks, nanos, asked, reading_ns, paced: PacedClock::new() }
        }

        fn settle(&self) {
            for _ in 0..3 {
                self.now();
                self.pass(MILLISECOND);
            }
            self.now();
            assert!(!self.asks_at(0), "two measurements agree");
        }

        fn pass(&self, nanos: u64) {
            self.ticks.set(self.ticks.get().wrapping_add(nanos * 5 / 2));
            self.nanos.set(self.nanos.get() + nanos);
        }

        fn now(&self) -> u64 {
            self.paced.now(self)
        }

        /// Lets `nanos` pass, checks the time to a microsecond, and returns whether the system's
        /// clock was read.
        fn asks_at(&self, nanos: u64) -> bool {
            self.pass(nanos);
            let before = self.asked.get();
            assert!(self.now().abs_diff(self.nanos.get()) < 1_000);
            self.asked.get() > before
        }
    }

    impl Sources for Machine {
        fn ticks(&self) -> u64 {
            self.ticks.get()
        }

        fn has_steady_ticks(&self) -> bool {
            self.has_steady_ticks
        }

        fn nanos(&self) -> u64 {
            self.asked.set(self.asked.get() + 1);
            self.pass(self.reading_ns.get());
            self.nanos.get()
        }
    }

    #[test]
    fn the_system_is_asked_once_a_millisecond() {
        let machine = Machine::running(7);
        machine.asked.set(0);
        for _ in 0..100_000 {
            machine.asks_at(100);
        }
        assert_eq!(machine.asked.get(), 10);
    }

    #[test]
    fn a_counter_that_wraps_around_continues() {
        let machine = Machine::running(u64::MAX - 10 * MILLISECOND);
        machine.asked.set(0);
        for _ in 0..100_000 {
            machine.asks_at(100);
        }
        assert!(machine.asked.get() <= 11);
    }

    #[test]
    fn until_two_measurements_agree_the_system_is_asked() {
        let machine = Machine::begun(7);
        for _ in 0..=20 {
            assert!(machine.asks_at(100_000));
        }
        assert!(!machine.asks_at(100_000));
    }

    #[test]
    fn without_a_constant_rate_the_system_is_always_asked() {
        let machine = Machine { has_steady_ticks: false, ..Machine::begun(7) };
        for _ in 0..100 {
            assert!(machine.asks_at(100_000));
        }
    }

    #[test]
    fn a_stopped_counter_is_not_trusted() {
        let machine = Machine::begun(0);
        for _ in 0..100 {
            machine.nanos.set(machine.nanos.get() + 100_000);
            assert_eq!(machine.now(), machine.nanos.get());
        }
    }

    #[test]
    fn a_clock_that_is_set_is_followed_within_a_millisecond() {
        for (by, sets) in [(1, 1_000), (-1, 900), (1, 3_600_000), (-1, 1)] {
            let machine = Machine::running(7);
            machine.nanos.set(machine.nanos.get().checked_add_signed(by * sets * MILLISECOND as i64).unwrap());
            machine.pass(MILLISECOND + 1);
            assert_eq!(machine.now(), machine.nanos.get());
            machine.settle();
        }
    }

    #[test]
    fn a_jump_of_the_counter_causes_an_error_of_at_most_a_millisecond() {
        for jump in [1, 1_000_000, 2_400_000, 1 << 40, u64::MAX, u64::MAX - 1_000_000, u64::MAX - (1 << 40)] {
            let machine = Machine::running(1 << 50);
            machine.ticks.set(machine.ticks.get().wrapping_add(jump));
            for _ in 0..100 {
                machine.pass(100_000);
                assert!(machine.now().abs_diff(machine.nanos.get()) <= MILLISECOND);
            }
            machine.settle();
        }
    }

    #[test]
    fn the_system_is_asked_after_a_suspend_of_the_machine() {
        for counts in [0, 5_000 * MILLISECOND * 5 / 2] {
            let machine = Machine::running(7);
            machine.pass(MILLISECOND);
            machine.nanos.set(machine.nanos.get() + 5_000 * MILLISECOND);
            machine.ticks.set(machine.ticks.get() + counts);
            assert_eq!(machine.now(), machine.nanos.get());
            machine.settle();
        }
    }

    #[test]
    fn an_interrupted_reading_is_not_extended() {
        let machine = Machine::running(7);
        machine.reading_ns.set(READING_TICKS_MAX);
        machine.pass(MILLISECOND);
        assert!(machine.asks_at(0), "this one is interrupted");
        assert!(machine.asks_at(0), "so another is made");
        machine.reading_ns.set(0);
        assert!(machine.asks_at(0));
        assert!(!machine.asks_at(0), "which was not");
    }
}
