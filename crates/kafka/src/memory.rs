//! The memory that all large requests and answers have together.
//!
//! A request that does not fit waits, its connection unread, until others are handled; an answer to a fetch is made as small as
//! there is room for, but for its first batch. Neither holds anything while it waits, so they can't wait for each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What is not larger than this is not counted: there is at most one of it for each connection, and of those there is a limit.
pub(crate) const SMALL_BYTES: usize = 64 << 10;

/// What a permit stands for: a semaphore has not enough for every byte.
const PERMIT_BYTES: usize = 1 << 10;

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    permits: Arc<Semaphore>,
    /// How many requests wait for some.
    waiting: Arc<AtomicUsize>,
}

/// A request that waits; it no longer does when this is dropped.
struct Waiter<'m>(&'m AtomicUsize);

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A part of the memory, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Held(OwnedSemaphorePermit);

impl Memory {
    pub(crate) fn new(bytes: u64) -> Self {
        let permits = usize::try_from(bytes).unwrap_or(usize::MAX) / PERMIT_BYTES;
        Memory { permits: Arc::new(Semaphore::new(permits)), waiting: Arc::default() }
    }

    /// Whether a request waits for some that is held.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Waits until there is so much, in the order of asking.
    pub(crate) async fn take(&self, bytes: usize) -> Held {
        let permits = permits(bytes);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiter = Waiter(&self.waiting);
        Held(Arc::clone(&self.permits).acquire_many_owned(permits).await.expect("the semaphore is never closed"))
    }

    /// Takes at most so much, at once: as much as there is. Nothing at all when others are taking it at this moment.
    pub(crate) fn take_up_to(&self, bytes: usize) -> Option<Held> {
        let permits = permits(bytes).min(u32::try_from(self.permits.available_permits()).unwrap_or(u32::MAX));
        Arc::clone(&self.permits).try_acquire_many_owned(permits).ok().map(Held)
    }
}

impl Held {
    pub(crate) fn bytes(&self) -> usize {
        self.0.num_permits() * PERMIT_BYTES
    }

    /// Gives back all but so much; `None` when that is too little to be counted.
    pub(crate) fn shrink(mut self, bytes: usize) -> Option<Self> {
        if bytes <= SMALL_BYTES {
            return None;
        }
        let more = self.0.num_permits().saturating_sub(permits(bytes) as usize);
        drop(self.0.split(more));
        Some(self)
    }
}

fn permits(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_what_others_lack_and_comes_back() {
        let memory = Memory::new(200 << 10);
        let all = memory.take_up_to(usize::MAX).expect("nobody else takes any");
        assert_eq!(all.bytes(), 200 << 10);
        assert_eq!(memory.take_up_to(1 << 20).map(|held| held.bytes()), Some(0));
        let some = all.shrink(100 << 10).expect("it counts");
        assert_eq!(memory.take_up_to(1 << 20).map(|held| held.bytes()), Some(100 << 10));
        assert!(some.shrink(SMALL_BYTES).is_none());
        assert_eq!(memory.take_up_to(1 << 20).map(|held| held.bytes()), Some(200 << 10));
    }
}
