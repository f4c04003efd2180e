//! A wake-up signal for threads of one process (event count). A woken thread continues without a
//! lock that all other woken threads also need.

use std::time::Duration;

use quire_threads::{Futex, Ordering};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct WakeSignal {
    count: Futex,
}

impl WakeSignal {
    /// Returns the number of signals so far. A caller reads the number before it checks for a
    /// reason to sleep.
    pub(crate) fn count(&self) -> u32 {
        self.count.load(Ordering::SeqCst)
    }

    /// Sleeps until the number of signals differs from `seen`.
    pub(crate) fn sleep(&self, seen: u32) {
        while self.count() == seen {
            self.count.wait(seen);
        }
    }

    /// Sleeps until the number of signals differs from `seen`, for at most `time`. The sleep may
    /// end early. Returns whether the number differs.
    pub(crate) fn sleep_at_most(&self, seen: u32, time: Duration) -> bool {
        if self.count() == seen {
            self.count.wait_at_most(seen, time);
        }
        self.count() != seen
    }

    /// Wakes every sleeper.
    pub(crate) fn wake_all(&self) {
        self.wake(u32::MAX);
    }

    /// Wakes one sleeper, and every thread that is about to sleep.
    pub(crate) fn wake_one(&self) {
        self.wake(1);
    }

    fn wake(&self, sleepers_max: u32) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.count.wake(sleepers_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sleeper_wakes_at_the_next_signal() {
        let signal = WakeSignal::default();
        let seen = signal.count();
        std::thread::scope(|scope| {
            let sleepers = [(); 3].map(|()| scope.spawn(|| signal.sleep(seen)));
            signal.wake_all();
            sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
        });
        signal.sleep(seen);
        assert!(signal.sleep_at_most(seen, Duration::MAX));
    }

    #[test]
    fn a_sleep_with_a_time_limit_ends_without_a_signal() {
        let signal = WakeSignal::default();
        assert!(!signal.sleep_at_most(signal.count(), Duration::from_millis(1)));
    }
}
