//! The system's time, asked for once a millisecond: in between, the processor's counter says how much has passed.
//!
//! To ask the system takes 23 ns, most of them to wait until everything before it is done, and every commit wants to know (AMD EPYC of the
//! fourth Zen generation, Linux 6.18; the counter alone takes 8).
//!
//! How many nanoseconds a tick takes is measured between two readings of the system's clock, and believed when two such measurements in a
//! row agree: so a clock that was set between them, a machine that slept, or one that was moved has the system asked until two agree
//! again. Whatever became of the counter, the time that is told is that of the last reading or up to a millisecond later. So it is wrong by a
//! millisecond at most, but that it may be behind a pause of the machine, as a reading would be that was made before it.

use std::cell::Cell;

/// For how long a reading is gone on from.
const WINDOW_NS: u64 = 1_000_000;

/// A reading of the system's clock during which more ticks passed says too little of when it was: the thread was interrupted. A reading
/// takes some 60, or a thousand where it is a call of the kernel.
const READING_TICKS_MAX: u64 = 4096;

/// Between readings that are farther apart the pace is not measured, so that its product fits a word: 2 s.
const MEASURED_NS_MAX: u64 = 1 << 31;

/// A pace is a fixed-point number: nanoseconds a tick, times two to the power of this.
const PACE_BITS: u32 = 32;

/// Two paces agree that differ by no more than this part of one, a 1024th: a clock that is being corrected runs up to 500 ppm faster or
/// slower (`adjtimex(2)`), and 100 ns that a reading may be off are another 100 ppm of a window.
const AGREES_SHIFT: u32 = 10;

/// What the time is read from.
pub(crate) trait Sources {
    /// What the processor's counter shows.
    fn ticks(&self) -> u64;

    /// Whether it goes on at one pace.
    fn has_steady_ticks(&self) -> bool;

    /// Nanoseconds since the epoch, as the system says.
    fn nanos(&self) -> u64;
}

/// What a thread knows of the time.
#[derive(Debug)]
pub(crate) struct Paced {
    last: Cell<Reading>,
}

/// A reading of the system's clock.
#[derive(Debug, Clone, Copy)]
struct Reading {
    /// What the counter showed at it.
    ticks: u64,
    /// What it said.
    nanos: u64,
    /// The pace that was measured last, up to it.
    pace: u64,
    /// For so many ticks behind it the time is told by it: 0 when its pace is not believed.
    lasts: u64,
}

impl Paced {
    /// Nothing yet.
    pub(crate) const fn new() -> Self {
        Paced { last: Cell::new(Reading { ticks: 0, nanos: 0, pace: 0, lasts: 0 }) }
    }

    /// Nanoseconds since the epoch.
    #[inline]
    pub(crate) fn now(&self, sources: &impl Sources) -> u64 {
        let last = self.last.get();
        let passed = sources.ticks().wrapping_sub(last.ticks);
        if passed >= last.lasts {
            return self.read(sources);
        }
        last.nanos.saturating_add((passed * last.pace) >> PACE_BITS)
    }

    /// Asks the system.
    #[cold]
    fn read(&self, sources: &impl Sources) -> u64 {
        let (before, nanos, after) = (sources.ticks(), sources.nanos(), sources.ticks());
        if !sources.has_steady_ticks() {
            return nanos;
        }
        let last = self.last.get();
        if after.wrapping_sub(before) > READING_TICKS_MAX {
            self.last.set(Reading { lasts: 0, ..last });
            return nanos;
        }
        let passed = nanos.checked_sub(last.nanos).filter(|passed| *passed <= MEASURED_NS_MAX);
        let counted = before.wrapping_sub(last.ticks);
        match passed {
            // Too soon to measure: that reading is gone on from, or waited with.
            Some(..WINDOW_NS) => {}
            Some(passed) if counted > 0 => {
                let pace = (passed << PACE_BITS) / counted;
                let agrees = pace > 0 && pace.abs_diff(last.pace) <= last.pace >> AGREES_SHIFT;
                let lasts = if agrees { (WINDOW_NS << PACE_BITS) / pace } else { 0 };
                self.last.set(Reading { ticks: before, nanos, pace, lasts });
            }
            _ => self.last.set(Reading { ticks: before, nanos, pace: last.pace, lasts: 0 }),
        }
        nanos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: u64 = 1_000_000;

    /// A machine whose counter ticks 2.5 times a nanosecond.
    struct Machine {
        has_steady_ticks: bool,
        ticks: Cell<u64>,
        nanos: Cell<u64>,
        asked: Cell<u64>,
        /// How many nanoseconds pass while the clock is read.
        reading_ns: Cell<u64>,
        paced: Paced,
    }

    impl Machine {
        /// One whose counter has been believed already, and shows so much.
        fn running(ticks: u64) -> Self {
            let machine = Machine::begun(ticks);
            machine.settle();
            machine
        }

        fn begun(ticks: u64) -> Self {
            let [asked, reading_ns] = [const { Cell::new(0) }; 2];
            let (ticks, nanos) = (Cell::new(ticks), Cell::new(1_000 * MILLISECOND));
            Machine { has_steady_ticks: true, ticks, nanos, asked, reading_ns, paced: Paced::new() }
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

        /// Whether the system is asked after so long, whose time is told in either case, to a microsecond.
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
    fn a_counter_that_passes_its_end_goes_on() {
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
    fn where_the_counter_has_no_pace_the_system_is_always_asked() {
        let machine = Machine { has_steady_ticks: false, ..Machine::begun(7) };
        for _ in 0..100 {
            assert!(machine.asks_at(100_000));
        }
    }

    #[test]
    fn a_counter_that_stands_still_is_not_believed() {
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
    fn a_counter_that_jumps_misleads_for_a_millisecond_at_most() {
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
    fn a_machine_that_sleeps_is_asked_when_it_wakes_whether_the_counter_slept_or_not() {
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
    fn a_reading_that_was_interrupted_is_not_gone_on_from() {
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
