//! Which of the operations were measured while nothing from outside slowed the processor down.
//!
//! On a machine that is shared, the other hardware thread of a core may work for somebody else: the same instructions then take
//! half as long again, for some 100 ms, and nothing in this machine tells of it. A loop that needs all of a core's arithmetic, and no
//! memory, is slowed down alike. It is run between the stretches of operations; a stretch counts as undisturbed when it ran
//! at its best at both ends.

use std::hint::black_box;
use std::time::Duration;

use crate::latencies::Latencies;
use crate::stopwatch::Stopwatch;

/// About 20 µs: long enough to tell a hundredth, short beside a stretch.
const PULSE_ROUNDS: u32 = 8_000;

/// How many pulses are looked at for the best one before anything is measured.
const PULSES_BEFORE: u32 = 200;

/// A pulse that takes longer than the best one by more than this share of it is slowed down: more than a pulse varies by itself.
const TOLERANCE: u32 = 100;

/// See the module.
#[derive(Debug)]
pub(super) struct Undisturbed {
    best: Duration,
    last: Duration,
    latencies: Latencies,
}

impl Undisturbed {
    /// The first stretch begins now.
    pub(super) fn begin() -> Self {
        let pulses = (0..PULSES_BEFORE).map(|_| pulse());
        let best = pulses.min().expect("there are some");
        Undisturbed { best, last: pulse(), latencies: Latencies::new() }
    }

    /// A stretch of operations has ended, which took this; the next one begins.
    pub(super) fn end_stretch(&mut self, latencies: &[Duration]) {
        self.take(latencies, pulse());
    }

    fn take(&mut self, latencies: &[Duration], pulse: Duration) {
        if is_slower(self.best, pulse) {
            // What was taken for the best was disturbed itself, and so was all that was held against it.
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

/// Six independent xorshift generators (Marsaglia, 2003): more instructions at a time than a core has room for.
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
        let mut undisturbed = Undisturbed { best: micros(100), last: micros(100), latencies: Latencies::new() };
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
