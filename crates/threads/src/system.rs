//! The system's own primitives, re-exported, and a word to sleep on.

pub use std::hint::spin_loop;
pub use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
pub use std::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use std::thread::yield_now;

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::thread::futex::{self, Flags, Timespec};

/// A number that threads of this process sleep on.
#[derive(Debug, Default)]
pub struct Futex(AtomicU32);

impl Futex {
    /// Creates a futex with this number.
    #[inline]
    pub fn load(&self, ordering: Ordering) -> u32 {
        self.0.load(ordering)
    }

    /// Adds to the number and returns its previous value.
    #[inline]
    pub fn fetch_add(&self, more: u32, ordering: Ordering) -> u32 {
        self.0.fetch_add(more, ordering)
    }

    /// Sleeps until it is woken, unless the number is no longer `expected`. It may also return
    /// spuriously.
    pub fn wait(&self, expected: u32) {
        // The result is ignored, because the caller reads the number again.
        let _ = futex::wait(&self.0, Flags::PRIVATE, expected, None);
    }

    /// Like [`Futex::wait`], for at most `timeout`.
    pub fn wait_at_most(&self, expected: u32, time: Duration) {
        // A timeout that is too long for the system call is treated as no timeout.
        let time = Timespec::try_from(time).ok();
        let _ = futex::wait(&self.0, Flags::PRIVATE, expected, time.as_ref());
    }

    /// Wakes at most `count` sleepers.
    pub fn wake(&self, count: u32) {
        // The kernel reads the count as a signed number, and a negative one as 1.
        let _ = futex::wake(&self.0, Flags::PRIVATE, count.min(i32::MAX as u32));
    }
}
