//! The memory budget of all large requests and responses.
//!
//! A request that exceeds the free memory waits, with its connection unread, until others are
//! finished. A fetch response is made as small as the free memory. When not even its first batch
//! fits, it waits in the same queue, up to a timeout. Neither holds memory while it waits. A fetch
//! may wait for the memory of the next request of its own connection, which was read ahead. That is
//! why its wait has a timeout.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// Requests and responses up to this size are not counted: each connection has at most one, and
/// connections are limited.
pub(crate) const SMALL_BYTES: usize = 64 << 10;

/// The bytes of one permit: a semaphore does not have enough permits for every byte.
const PERMIT_BYTES: usize = 1 << 10;

/// The memory budget; see the module.
#[derive(Debug, Clone)]
pub(crate) struct MemoryBudget {
    permits: Arc<Semaphore>,
    /// The total number of permits.
    all: u32,
    /// How many requests and fetches wait for memory.
    waiting: Arc<AtomicUsize>,
}

/// Counts as waiting until it is dropped.
struct WaitCount<'m>(&'m AtomicUsize);

impl Drop for WaitCount<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A part of the memory, returned when it is dropped.
#[derive(Debug)]
pub(crate) struct HeldMemory(OwnedSemaphorePermit);

impl MemoryBudget {
    pub(crate) fn new(bytes: u64) -> Self {
        let all = u32::try_from(bytes / PERMIT_BYTES as u64).unwrap_or(u32::MAX);
        MemoryBudget { permits: Arc::new(Semaphore::new(all as usize)), all, waiting: Arc::default() }
    }

    /// Whether any request or fetch waits for memory.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Waits for `bytes` of memory, in the order of the calls; for all of it when `bytes` exceeds
    /// the total.
    pub(crate) async fn take(&self, bytes: usize) -> HeldMemory {
        let permits = permits(bytes).min(self.all);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiter = WaitCount(&self.waiting);
        HeldMemory(Arc::clone(&self.permits).acquire_many_owned(permits).await.expect("the semaphore is never closed"))
    }

    /// Takes memory for a response, and waits at most `timeout` for the memory of its first batch.
    pub(crate) fn turn(&self, patience: Duration) -> MemoryTurn<'_> {
        MemoryTurn { memory: self, patience, until: None, reserved: None, is_over: false }
    }

    /// Takes up to `bytes` of memory at once, as much as is free. Returns nothing when another
    /// caller takes memory at this moment.
    fn take_up_to(&self, bytes: usize) -> HeldMemory {
        let permits = permits(bytes).min(u32::try_from(self.permits.available_permits()).unwrap_or(u32::MAX));
        self.take_now(permits).or_else(|| self.take_now(0)).expect("the semaphore is never closed")
    }

    fn take_now(&self, permits: u32) -> Option<HeldMemory> {
        Arc::clone(&self.permits).try_acquire_many_owned(permits).ok().map(HeldMemory)
    }

    /// Extends `taken` to `bytes` at once; like [`MemoryBudget::take`], at most to the total.
    /// `None`, and nothing held, when there is too little memory.
    fn take_missing(&self, mut held: HeldMemory, bytes: usize) -> Option<HeldMemory> {
        let missing = (permits(bytes).min(self.all) as usize).saturating_sub(held.0.num_permits());
        let more = self.take_now(u32::try_from(missing).expect("no more than all"))?;
        held.0.merge(more.0);
        Some(held)
    }
}

/// A response's memory over several attempts to build it.
#[derive(Debug)]
pub(crate) struct MemoryTurn<'m> {
    memory: &'m MemoryBudget,
    patience: Duration,
    /// When the wait ends, once it has begun.
    until: Option<Instant>,
    /// The memory that it waited for.
    reserved: Option<HeldMemory>,
    is_over: bool,
}

impl MemoryTurn<'_> {
    /// Returns the memory for the next attempt: the memory it waited for, or else up to `bytes`, as
    /// much as is free. Returns nothing after the timeout.
    pub(crate) fn take_up_to(&mut self, bytes: usize) -> HeldMemory {
        let bytes = if self.is_over { 0 } else { bytes };
        self.reserved.take().unwrap_or_else(|| self.memory.take_up_to(bytes))
    }

    /// Reduces or extends the memory to the size of the response. `None` when the response has to
    /// wait for memory.
    pub(crate) fn cover(&self, held: HeldMemory, bytes: usize) -> Option<HeldMemory> {
        if bytes <= SMALL_BYTES { Some(held) } else { self.memory.take_missing(held, bytes) }
    }

    /// Waits for `bytes` of memory. After a timeout, no further attempt gets memory.
    pub(crate) async fn wait(&mut self, bytes: usize) {
        let until = *self.until.get_or_insert_with(|| Instant::now() + self.patience);
        self.reserved = timeout_at(until, self.memory.take(bytes)).await.ok();
        self.is_over = self.reserved.is_none();
    }

    /// Whether the wait timed out: there is no memory for a batch.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }
}

impl HeldMemory {
    pub(crate) fn bytes(&self) -> usize {
        self.0.num_permits() * PERMIT_BYTES
    }

    /// Releases all but `bytes`; `None` when the rest is too small to be counted.
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

    async fn is_waiting(memory: &MemoryBudget, bytes: usize) -> bool {
        tokio::select! {
            biased;
            _ = memory.take(bytes) => false,
            () = std::future::ready(()) => true
        }
    }

    #[test]
    fn what_is_held_is_what_others_lack_and_comes_back() {
        let memory = MemoryBudget::new(200 << 10);
        let all = memory.take_up_to(usize::MAX);
        assert_eq!(all.bytes(), 200 << 10);
        assert_eq!(memory.take_up_to(1 << 20).bytes(), 0);
        let some = all.shrink(100 << 10).expect("it counts");
        assert_eq!(memory.take_up_to(1 << 20).bytes(), 100 << 10);
        assert!(some.shrink(SMALL_BYTES).is_none());
        assert_eq!(memory.take_up_to(1 << 20).bytes(), 200 << 10);
    }

    #[tokio::test]
    async fn what_is_more_than_all_takes_all() {
        let memory = MemoryBudget::new(200 << 10);
        let some = memory.take(100 << 10).await;
        assert!(is_waiting(&memory, 1 << 20).await);
        drop(some);
        assert_eq!(memory.take(1 << 20).await.bytes(), 200 << 10);
    }

    #[tokio::test]
    async fn an_answer_that_is_more_than_was_taken_for_it_takes_the_rest_or_waits_in_turn() {
        let memory = MemoryBudget::new(300 << 10);
        let mut turn = memory.turn(Duration::from_secs(3600));
        let held = turn.take_up_to(1);
        let held = turn.cover(held, 200 << 10).expect("there is so much");
        assert_eq!(held.bytes(), 200 << 10);

        let mut other = memory.turn(Duration::from_secs(3600));
        let little = other.take_up_to(1 << 20);
        assert_eq!(little.bytes(), 100 << 10);
        assert!(other.cover(little, 200 << 10).is_none());
        assert_eq!(memory.take_up_to(1 << 20).bytes(), 100 << 10, "it holds nothing when it has to wait");
        let ((), ()) = tokio::join!(other.wait(200 << 10), async { drop(held) });
        let held = other.take_up_to(1);
        assert_eq!((held.bytes(), other.is_over()), (200 << 10, false));

        let mut small = memory.turn(Duration::from_secs(3600));
        let nothing = small.take_up_to(0);
        assert!(small.cover(nothing, SMALL_BYTES).is_some(), "a small one needs none");
    }

    #[tokio::test]
    async fn a_turn_in_vain_is_over_and_takes_nothing_any_more() {
        let memory = MemoryBudget::new(200 << 10);
        let all = memory.take(200 << 10).await;
        let mut turn = memory.turn(Duration::from_millis(1));
        turn.wait(100 << 10).await;
        drop(all);
        assert_eq!((turn.is_over(), turn.take_up_to(1 << 20).bytes()), (true, 0));
    }
}
