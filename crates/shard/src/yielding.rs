//! A lock whose holder may be in a call of the kernel.
//!
//! Who waits for such a one in the way of the standard library goes to sleep after a microsecond, and whoever lets go has to wake it,
//! which takes longer than the commit: of threads that a sync has just answered, every seventh slept twice. Giving the processor to
//! the holder, which may have lost it, takes a fifth of that. With commits that only store to memory it is the other way round: who
//! sleeps leaves the caches to the holder. (Sixty-four threads in a `sync` database: 130 -> 162 k/s; eight in an `os` one: 3.7 -> 3.4 M/s;
//! two processors, Linux 6.18.)

use std::hint::spin_loop;
use std::sync::{PoisonError, RwLock, RwLockWriteGuard, TryLockError};
use std::thread::yield_now;

/// How often the processor is given away before who waits goes to sleep after all.
const YIELDS: u32 = 8;

/// How often it is looked before that.
const LOOKS: u32 = 20;

/// Locks for writing; a lock that somebody panicked under is as good as any.
pub(crate) fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    for _ in 0..YIELDS {
        for _ in 0..LOOKS {
            match lock.try_write() {
                Ok(guard) => return guard,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => spin_loop(),
            }
        }
        yield_now();
    }
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn who_waits_gets_the_lock_whether_it_is_held_for_long_or_not() {
        let count = RwLock::new(0_u64);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1_000).for_each(|_| *write(&count) += 1));
            }
            let held = count.read().unwrap();
            (0..10_000).for_each(|_| yield_now());
            drop(held);
        });
        assert_eq!(count.into_inner().unwrap(), 4_000);
    }

    #[test]
    fn a_lock_that_somebody_panicked_under_is_had() {
        let lock = RwLock::new(1);
        let panicked = thread::scope(|scope| scope.spawn(|| panic!("{}", write(&lock))).join());
        assert!(panicked.is_err() && lock.is_poisoned());
        assert_eq!(*write(&lock), 1);
    }
}
