//! The system's own: re-exported, but for the word that one sleeps on.

pub use std::hint::spin_loop;
pub use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
pub use std::sync::{Condvar, Mutex, MutexGuard, RwLock};
pub use std::thread::yield_now;

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::thread::futex::{self, Flags, Timespec};

/// A number that threads of this process sleep on.
#[derive(Debug, Default)]
pub struct Futex(AtomicU32);

impl Futex {
    /// The number.
    #[inline]
    pub fn load(&self, ordering: Ordering) -> u32 {
        self.0.load(ordering)
    }

    /// Adds to the number; gives what it was.
    #[inline]
    pub fn fetch_add(&self, more: u32, ordering: Ordering) -> u32 {
        self.0.fetch_add(more, ordering)
    }

    /// Sleeps until it is woken, unless the number is not `expected` any more. It may also return for no reason.
    pub fn wait(&self, expected: u32) {
        // Whatever the outcome, the number says whether there is something to wait for.
        let _ = futex::wait(&self.0, Flags::PRIVATE, expected, None);
    }

    /// As [`Futex::wait`], and for no longer than so.
    pub fn wait_at_most(&self, expected: u32, time: Duration) {
        // What is too long to be told is waited for without an end.
        let time = Timespec::try_from(time).ok();
        let _ = futex::wait(&self.0, Flags::PRIVATE, expected, time.as_ref());
    }

    /// Wakes at most so many who sleep.
    pub fn wake(&self, count: u32) {
        // The kernel takes the count for a signed number, and one below zero for 1.
        let _ = futex::wake(&self.0, Flags::PRIVATE, count.min(i32::MAX as u32));
    }
}
