//! Where threads sleep on a word, as the kernel's futex has it: whoever is about to sleep looks at the word in the queue's lock, which
//! whoever wakes takes, too.

use std::time::Duration;

use loom::sync::{Condvar, Mutex};

use super::{AtomicU32, Ordering, yield_now};

/// Those who sleep on one word.
#[derive(Debug, Default)]
pub struct Queue {
    lock: Mutex<()>,
    woken: Condvar,
}

impl Queue {
    /// Sleeps until it is woken, if `is_as_expected` says so of the word.
    pub fn wait(&self, is_as_expected: impl FnOnce() -> bool) {
        let lock = self.lock.lock().expect("no order panics within");
        if is_as_expected() {
            drop(self.woken.wait(lock).expect("no order panics within"));
        }
    }

    /// Wakes at most so many who sleep: 1, or any number for all.
    pub fn wake(&self, count: u32) {
        let _lock = self.lock.lock().expect("no order panics within");
        if count == 1 { self.woken.notify_one() } else { self.woken.notify_all() }
    }
}

/// A number that threads of this process sleep on.
#[derive(Debug, Default)]
pub struct Futex {
    number: AtomicU32,
    queue: Queue,
}

impl Futex {
    /// The number.
    pub fn load(&self, ordering: Ordering) -> u32 {
        self.number.load(ordering)
    }

    /// Adds to the number; gives what it was.
    pub fn fetch_add(&self, more: u32, ordering: Ordering) -> u32 {
        self.number.fetch_add(more, ordering)
    }

    /// Sleeps until it is woken, unless the number is not `expected` any more.
    pub fn wait(&self, expected: u32) {
        self.queue.wait(|| self.number.load(Ordering::Relaxed) == expected);
    }

    /// Gives way to others: the time may be over at any moment.
    pub fn wait_at_most(&self, _expected: u32, _time: Duration) {
        yield_now();
    }

    /// Wakes at most so many who sleep.
    pub fn wake(&self, count: u32) {
        self.queue.wake(count);
    }
}
