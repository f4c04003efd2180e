//! A queue of threads that sleep on a word, as in the kernel's futex. A thread that is about to
//! sleep reads the word while it holds the queue's lock. A thread that wakes others takes the same
//! lock.

use std::time::Duration;

use loom::sync::{Condvar, Mutex};

use super::{AtomicU32, Ordering, yield_now};

/// The threads that sleep on one word.
#[derive(Debug, Default)]
pub struct Sleepers {
    lock: Mutex<()>,
    woken: Condvar,
}

impl Sleepers {
    /// Sleeps until it is woken, if `is_as_expected` accepts the word.
    pub fn wait(&self, is_as_expected: impl FnOnce() -> bool) {
        let lock = self.lock.lock().expect("the lock is not poisoned");
        if is_as_expected() {
            drop(self.woken.wait(lock).expect("the lock is not poisoned"));
        }
    }

    /// Wakes at most `count` sleepers: 1, or any number for all.
    pub fn wake(&self, count: u32) {
        let _lock = self.lock.lock().expect("the lock is not poisoned");
        if count == 1 { self.woken.notify_one() } else { self.woken.notify_all() }
    }
}

/// A number that threads of this process sleep on.
#[derive(Debug, Default)]
pub struct Futex {
    number: AtomicU32,
    queue: Sleepers,
}

impl Futex {
    /// Creates a futex with this number.
    pub fn load(&self, ordering: Ordering) -> u32 {
        self.number.load(ordering)
    }

    /// Adds to the number and returns its previous value.
    pub fn fetch_add(&self, more: u32, ordering: Ordering) -> u32 {
        self.number.fetch_add(more, ordering)
    }

    /// Sleeps until it is woken, unless the number is no longer `expected`.
    pub fn wait(&self, expected: u32) {
        self.queue.wait(|| self.number.load(Ordering::Relaxed) == expected);
    }

    /// Yields: the timeout may expire at any moment.
    pub fn wait_at_most(&self, _expected: u32, _time: Duration) {
        yield_now();
    }

    /// Wakes at most `count` sleepers.
    pub fn wake(&self, count: u32) {
        self.queue.wake(count);
    }
}
