//! Finds the operations that were measured while no other program slowed the processor down.
//!
//! On a shared machine, another tenant may use the second hardware thread of a core. The same
//! instructions then take half as long again, for about 100 ms, and this machine has no counter for
//! it. A loop that needs all of a core's arithmetic units, and no memory, slows down as well. It
//! runs between the stretches of operations. A stretch counts as undisturbed when the loop ran at
//! its best at both ends.

use std::hint::black_box;
use std::time::Duration;

use quire_cli::latencies::Latencies;
use quire_cli::stopwatch::Stopwatch;

/// About 20 µs: long enough to resolve one percent, and short compared with a stretch.
const PULSE_ROUNDS: u32 = 8_000;

/// The number of pulses from which the best is taken before the measurement.
const PULSES_BEFORE: u32 = 200;

/// The share by which a disturbed pulse exceeds the best one. Undisturbed pulses vary by less.
const TOLERANCE: u32 = 100;

/// See the module.
#[derive(Debug)]
pub(super) struct DisturbanceFilter {
    best: Duration,
    last: Duration,
    latencies: Latencies,
}

impl DisturbanceFilter {
    /// Starts the first stretch.
    pub(super) fn begin() -> Self {
        let pulses = (0..PULSES_BEFORE).map(|_| pulse());
        let best = pulses.min().expect("the filter has pulses");
        DisturbanceFilter { best, last: pulse(), latencies: Latencies::new() }
    }

    /// Ends a stretch of operations that took `latencies`, and starts the next one.
    pub(super) fn end_stretch(&mut self, latencies: &[Duration]) {
        self.take(latencies, pulse());
    }

    fn take(&mut self, latencies: &[Duration], pulse: Duration) {
        if is_slower(self.best, pulse) {
            // The former best pulse was disturbed itself, and so were the judgements by it.
            self.latencies = Latencies::new();
        }
        self.best = self.best.min(pulse);
        let before = std::mem::replace(&mut self.last, pulse);
        if !is_slower(before.max(pulse), self.best) {
            latencies.iter().for_each(|latency| self.latencies.record(*latency));
        }
    }

    /// The operations of the undisturbed stretches.
    pub(super) fn latencies(&self) -> &Latencies {
        &self.latencies
    }
}

fn is_slower(pulse: Duration, than: Duration) -> bool {
    pulse > than + than / TOLERANCE
}

/// Six independent xorshift generators (Marsaglia, 2003): more instructions at a time than a core
/// can run.
fn pulse() -> Duration {
    let watch = Stopwatch::start();
    let mut numbers: [u64; 6] = black_box([1, 2, 3, 4, 5, 6]);
    for _ in 0..PULSE_ROUNDS {
        for number in &mut numbers {
            *number ^= *number << 13;
            *number ^= *number >> 7;
            *number ^= *number << 17;
        }
    }
    black_box(numbers);
    watch.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn a_stretch_counts_when_the_pulses_at_both_ends_are_at_their_best() {
        let mut undisturbed = DisturbanceFilter { best: micros(100), last: micros(100), latencies: Latencies::new() };
        let mut counts_after = |pulse| {
            let before = undisturbed.latencies().count();
            undisturbed.take(&[micros(1), micros(2)], micros(pulse));
            undisturbed.latencies().count() - before
        };
        assert_eq!([101, 102, 100, 100, 100].map(&mut counts_after), [2, 0, 0, 2, 2]);
        undisturbed.take(&[micros(1)], micros(80));
        assert_eq!(undisturbed.latencies().count(), 0, "it was disturbed all along");
        undisturbed.take(&[micros(1)], micros(80));
        assert_eq!(undisturbed.latencies().count(), 1);
    }
}
