//! A reader-writer lock that no waiting thread starves at.
//!
//! The system's lock is not fair. A thread that releases it can take it again before the woken
//! waiter runs, and a loop of reads or writes then keeps a writer waiting for seconds. Handing the
//! lock over at each release would be fair but slow: each transfer costs a switch of threads. This
//! lock has a barrier in front of the system's lock:
//!
//! ```text
//!  arrives ─▶ barrier ─▶ the system's lock
//!              │       ▲ writers that wait here are counted
//!              └ closed by a thread that passes a writer which has waited for the patience;
//!                opened by the last counted writer, once it has the lock
//! ```
//! While the barrier is closed, the writers inside take the lock one after the other. A waiting
//! writer is therefore passed for at most the patience of the lock, and then by the other writers
//! inside.
//!
//! Without contention, taking the lock costs two more loads.

use std::fmt;
use std::sync::{PoisonError, TryLockError};

use crate::{AtomicU64, AtomicUsize, Futex, Ordering, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// See the module. A panic of a holder does not close the lock: the holders know whether the value
/// is whole.
pub struct FairRwLock<T> {
    lock: RwLock<T>,
    patience: u64,
    /// The number of writers that wait inside. A writer lowers it while it holds the lock.
    waiting: AtomicUsize,
    /// When the first of the waiting writers began to wait.
    since: AtomicU64,
    /// Odd while the barrier is closed. Changed by a holder of the lock only.
    barrier: Futex,
    /// Whether the barrier is closed or about to be: of several readers, one closes it.
    closed: AtomicUsize,
}

impl<T> FairRwLock<T> {
    /// Creates a lock. `patience` is the time that a writer waits while other threads pass it, in
    /// the unit of the times that the callers pass. With 0, no thread passes a waiting writer
    /// twice.
    pub fn new(value: T, patience: u64) -> Self {
        FairRwLock {
            lock: RwLock::new(value),
            patience,
            waiting: AtomicUsize::new(0),
            since: AtomicU64::new(0),
            barrier: Futex::default(),
            closed: AtomicUsize::new(0),
        }
    }

    /// Locks for reading. `now` is called only when a writer waits.
    #[inline]
    pub fn read(&self, now: impl FnOnce() -> u64) -> RwLockReadGuard<'_, T> {
        if self.is_closed() {
            self.wait_at_barrier();
        }
        let guard = self.lock.read().unwrap_or_else(PoisonError::into_inner);
        self.note_passed(now);
        guard
    }

    /// Locks for writing. `now` is called only when this or another writer waits.
    #[inline]
    pub fn write(&self, now: impl Fn() -> u64) -> RwLockWriteGuard<'_, T> {
        match self.try_write(&now) {
            Some(guard) => guard,
            None => self.wait_to_write(now),
        }
    }

    /// Locks for writing, unless the lock is taken or the turn is another writer's. `now` is called
    /// only when a writer waits.
    #[inline]
    pub fn try_write(&self, now: impl FnOnce() -> u64) -> Option<RwLockWriteGuard<'_, T>> {
        if self.is_closed() {
            return None;
        }
        let guard = match self.lock.try_write() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        self.note_passed(now);
        Some(guard)
    }

    #[cold]
    fn wait_to_write(&self, now: impl Fn() -> u64) -> RwLockWriteGuard<'_, T> {
        self.wait_at_barrier();
        if self.waiting.fetch_add(1, Ordering::Relaxed) == 0 {
            self.since.store(now(), Ordering::Relaxed);
        }
        let guard = self.lock.write().unwrap_or_else(PoisonError::into_inner);
        // The lock orders these changes with those of `note_passed`.
        let is_last = self.waiting.fetch_sub(1, Ordering::Relaxed) == 1;
        if is_last && self.is_closed() {
            self.closed.store(0, Ordering::Relaxed);
            self.barrier.fetch_add(1, Ordering::Release);
            self.barrier.wake(u32::MAX);
        }
        guard
    }

    /// Closes the barrier if a writer has waited for too long. The caller holds the lock, so the
    /// counted writers still wait, and the last of them opens the barrier.
    #[inline]
    fn note_passed(&self, now: impl FnOnce() -> u64) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.note_waiting(now());
        }
    }

    #[cold]
    fn note_waiting(&self, now: u64) {
        let waited = now.saturating_sub(self.since.load(Ordering::Relaxed));
        if waited >= self.patience && self.closed.swap(1, Ordering::Relaxed) == 0 {
            self.barrier.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[inline]
    fn is_closed(&self) -> bool {
        is_closed(self.barrier.load(Ordering::Relaxed))
    }

    #[cold]
    fn wait_at_barrier(&self) {
        loop {
            let barrier = self.barrier.load(Ordering::Acquire);
            if !is_closed(barrier) {
                return;
            }
            self.barrier.wait(barrier);
        }
    }
}

fn is_closed(barrier: u32) -> bool {
    barrier % 2 == 1
}

impl<T: fmt::Debug> fmt::Debug for FairRwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FairRwLock").field("lock", &self.lock).field("patience", &self.patience).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64 as Clock;
    use std::thread;

    use super::*;

    /// Whether a writer waits inside.
    fn has_waiter<T>(lock: &FairRwLock<T>) -> bool {
        lock.waiting.load(Ordering::Relaxed) > 0
    }

    /// A writer waits while this thread takes the lock again and again, at a time that moves by 1
    /// with each turn. Returns how often this thread passed the writer.
    fn passes(patience: u64, take: impl Fn(&FairRwLock<u32>, u64)) -> u64 {
        let lock = Arc::new(FairRwLock::new(0, patience));
        let held = lock.write(|| 0);
        let waits = {
            let lock = Arc::clone(&lock);
            thread::spawn(move || *lock.write(|| 0) += 1)
        };
        while !has_waiter(&lock) {
            thread::yield_now();
        }
        drop(held);
        let mut now = 0;
        // Only the writer ends this thread's wait at the barrier: the count depends on no time.
        while *lock.lock.read().unwrap() == 0 {
            now += 1;
            take(&lock, now);
        }
        waits.join().unwrap();
        assert!(!lock.is_closed(), "the writer opens the barrier");
        now
    }

    #[test]
    fn writers_that_lock_again_at_once_pass_a_waiting_writer_for_its_patience() {
        let passes = passes(10, |lock, now| drop(lock.write(|| now)));
        assert!(passes <= 11, "{passes} writes passed a writer with a patience of 10");
    }

    #[test]
    fn readers_that_lock_again_at_once_pass_a_waiting_writer_for_its_patience() {
        let passes = passes(10, |lock, now| drop(lock.read(|| now)));
        assert!(passes <= 11, "{passes} reads passed a writer with a patience of 10");
    }

    #[test]
    fn a_closed_barrier_lets_every_waiting_writer_in_and_opens() {
        let (lock, clock) = (FairRwLock::new(0_u64, 3), Clock::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        *lock.write(|| clock.fetch_add(1, Ordering::Relaxed)) += 1;
                    }
                });
            }
            scope.spawn(|| (0..2_000).for_each(|_| drop(lock.read(|| clock.fetch_add(1, Ordering::Relaxed)))));
        });
        assert!(!lock.is_closed() && !has_waiter(&lock));
        assert_eq!(*lock.read(|| 0), 8_000);
    }

    #[test]
    fn a_lock_whose_holder_panicked_can_be_taken() {
        let lock = FairRwLock::new(1, 0);
        let panicked = thread::scope(|scope| scope.spawn(|| panic!("{}", lock.write(|| 0))).join());
        assert!(panicked.is_err());
        assert_eq!(lock.try_write(|| 0).map(|value| *value), Some(1));
        assert_eq!(*lock.write(|| 0), 1);
        assert_eq!(*lock.read(|| 0), 1);
    }
}

#[cfg(all(test, loom))]
mod explored {
    use std::sync::Arc;

    use loom::thread;

    use super::*;

    fn in_every_order(test: impl Fn() + Sync + Send + 'static) {
        let mut order = loom::model::Builder::new();
        order.preemption_bound = Some(3);
        order.check(test);
    }

    /// Takes the lock in a thread, `turns` times.
    fn writes(lock: &Arc<FairRwLock<u32>>, turns: u32) -> thread::JoinHandle<()> {
        let lock = Arc::clone(lock);
        thread::spawn(move || (0..turns).for_each(|_| *lock.write(|| 0) += 1))
    }

    #[test]
    fn every_writer_gets_the_lock_and_the_barrier_is_open_at_the_end() {
        in_every_order(|| {
            let lock = Arc::new(FairRwLock::new(0, 0));
            let threads = [writes(&lock, 1), writes(&lock, 2)];
            *lock.write(|| 0) += 1;
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert!(!lock.is_closed());
            assert_eq!(*lock.read(|| 0), 4);
        });
    }

    #[test]
    fn readers_that_pass_a_writer_together_close_the_barrier_once() {
        in_every_order(|| {
            let lock = Arc::new(FairRwLock::new(0, 0));
            let writer = writes(&lock, 1);
            let reader = {
                let lock = Arc::clone(&lock);
                thread::spawn(move || (0..2).for_each(|_| drop(lock.read(|| 0))))
            };
            (0..2).for_each(|_| drop(lock.read(|| 0)));
            writer.join().unwrap();
            reader.join().unwrap();
            assert!(!lock.is_closed());
            assert_eq!(*lock.read(|| 0), 1);
        });
    }
}
