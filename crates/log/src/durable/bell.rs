//! A wake-up signal for threads of this process. A woken thread continues without a lock that all
//! the other threads want, too.

use std::time::Duration;

use quire_threads::{Futex, Ordering};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rings: Futex,
}

impl Bell {
    /// Returns the number of rings so far. A caller reads it before it checks for a reason to
    /// sleep.
    pub(crate) fn rings(&self) -> u32 {
        self.rings.load(Ordering::SeqCst)
    }

    /// Sleeps until the bell rings once more than `heard`.
    pub(crate) fn sleep(&self, heard: u32) {
        while self.rings() == heard {
            self.rings.wait(heard);
        }
    }

    /// Sleeps until the bell rings once more than `heard`, for at most `time`. The sleep may end
    /// early. Returns whether the bell rang.
    pub(crate) fn sleep_at_most(&self, heard: u32, time: Duration) -> bool {
        if self.rings() == heard {
            self.rings.wait_at_most(heard, time);
        }
        self.rings() != heard
    }

    /// Wakes every sleeper.
    pub(crate) fn ring(&self) {
        self.wake(u32::MAX);
    }

    /// Wakes one sleeper, and every thread that is about to sleep.
    pub(crate) fn ring_one(&self) {
        self.wake(1);
    }

    fn wake(&self, sleepers_max: u32) {
        self.rings.fetch_add(1, Ordering::SeqCst);
        self.rings.wake(sleepers_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_sleeps_wakes_at_the_next_ring() {
        let bell = Bell::default();
        let heard = bell.rings();
        std::thread::scope(|scope| {
            let sleepers = [(); 3].map(|()| scope.spawn(|| bell.sleep(heard)));
            bell.ring();
            sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
        });
        bell.sleep(heard);
        assert!(bell.sleep_at_most(heard, Duration::MAX));
    }

    #[test]
    fn a_sleep_with_an_end_ends_without_a_ring() {
        let bell = Bell::default();
        assert!(!bell.sleep_at_most(bell.rings(), Duration::from_millis(1)));
    }
}
