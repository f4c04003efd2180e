//! A bell on which threads of this process sleep: whoever is woken goes on without a lock that all the others want, too.

use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::futex::{self, Flags};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rings: AtomicU32,
}

impl Bell {
    /// How often it has rung; to be taken before it is looked whether there is anything to sleep for.
    pub(crate) fn rings(&self) -> u32 {
        self.rings.load(Ordering::SeqCst)
    }

    /// Sleeps until it rings once more than was `heard`.
    pub(crate) fn sleep(&self, heard: u32) {
        while self.rings() == heard {
            // Whatever the outcome, the number says whether it has rung.
            let _ = futex::wait(&self.rings, Flags::PRIVATE, heard, None);
        }
    }

    /// Wakes everyone who sleeps.
    pub(crate) fn ring(&self) {
        // The kernel takes the count for a signed number.
        self.wake(i32::MAX as u32);
    }

    /// Wakes one who sleeps, and all who are about to.
    pub(crate) fn ring_one(&self) {
        self.wake(1);
    }

    fn wake(&self, sleepers_max: u32) {
        self.rings.fetch_add(1, Ordering::SeqCst);
        let _ = futex::wake(&self.rings, Flags::PRIVATE, sleepers_max);
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
    }
}
