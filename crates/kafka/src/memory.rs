//! The memory that all large requests and answers have together.
//!
//! A request that does not fit waits, its connection unread, until others are handled. An answer to a fetch is made as small as
//! there is room for; when not even its first batch fits, it waits in the same row, for a while. Neither holds anything while it
//! waits; but a fetch may have to wait for the request that was read ahead behind it, which is why it does not wait for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// What is not larger than this is not counted: there is at most one of it for each connection, and of those there is a limit.
pub(crate) const SMALL_BYTES: usize = 64 << 10;

/// What a permit stands for: a semaphore has not enough for every byte.
const PERMIT_BYTES: usize = 1 << 10;

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    permits: Arc<Semaphore>,
    /// How many permits there are, taken or not.
    all: u32,
    /// How many requests and fetches wait for some.
    waiting: Arc<AtomicUsize>,
}

/// One that waits; it no longer does when this is dropped.
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
        let all = u32::try_from(bytes / PERMIT_BYTES as u64).unwrap_or(u32::MAX);
        Memory { permits: Arc::new(Semaphore::new(all as usize)), all, waiting: Arc::default() }
    }

    /// Whether a request or a fetch waits for some that is held.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Waits until there is so much, in the order of asking; until all of it is there, for what is more than that.
    pub(crate) async fn take(&self, bytes: usize) -> Held {
        let permits = permits(bytes).min(self.all);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiter = Waiter(&self.waiting);
        Held(Arc::clone(&self.permits).acquire_many_owned(permits).await.expect("the semaphore is never closed"))
    }

    /// How an answer comes by its memory, when it waits for that of its first batch no longer than this.
    pub(crate) fn turn(&self, patience: Duration) -> Turn<'_> {
        Turn { memory: self, patience, until: None, reserved: None, is_over: false }
    }

    /// Takes at most so much, at once: as much as there is. Nothing at all when others are taking it at this moment.
    fn take_up_to(&self, bytes: usize) -> Held {
        let permits = permits(bytes).min(u32::try_from(self.permits.available_permits()).unwrap_or(u32::MAX));
        self.take_now(permits).or_else(|| self.take_now(0)).expect("the semaphore is never closed")
    }

    fn take_now(&self, permits: u32) -> Option<Held> {
        Arc::clone(&self.permits).try_acquire_many_owned(permits).ok().map(Held)
    }

    /// Takes what is missing to so much, at once; as [`Memory::take`], no more than all. `None`, and nothing held, when that is not there.
    fn take_missing(&self, mut held: Held, bytes: usize) -> Option<Held> {
        let missing = (permits(bytes).min(self.all) as usize).saturating_sub(held.0.num_permits());
        let more = self.take_now(u32::try_from(missing).expect("no more than all"))?;
        held.0.merge(more.0);
        Some(held)
    }
}

/// An answer's turn to have memory, over several looks at what there is to answer with.
#[derive(Debug)]
pub(crate) struct Turn<'m> {
    memory: &'m Memory,
    patience: Duration,
    /// Until when it waits, once it does.
    until: Option<Instant>,
    /// What it waited for.
    reserved: Option<Held>,
    is_over: bool,
}

impl Turn<'_> {
    /// What there is for the next look: what was waited for, else at most so much, as much as there is. Nothing when it is over.
    pub(crate) fn take_up_to(&mut self, bytes: usize) -> Held {
        let bytes = if self.is_over { 0 } else { bytes };
        self.reserved.take().unwrap_or_else(|| self.memory.take_up_to(bytes))
    }

    /// The memory of an answer of so many bytes, for which this was taken: not less, but for a small one. `None` when it has to be
    /// waited for.
    pub(crate) fn cover(&self, held: Held, bytes: usize) -> Option<Held> {
        if bytes <= SMALL_BYTES { Some(held) } else { self.memory.take_missing(held, bytes) }
    }

    /// Waits for so much; the turn is over when it does not come in time.
    pub(crate) async fn wait(&mut self, bytes: usize) {
        let until = *self.until.get_or_insert_with(|| Instant::now() + self.patience);
        self.reserved = timeout_at(until, self.memory.take(bytes)).await.ok();
        self.is_over = self.reserved.is_none();
    }

    /// Whether it waited in vain: there is no memory for a batch.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
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

    async fn is_waiting(memory: &Memory, bytes: usize) -> bool {
        tokio::select! {
            biased;
            _ = memory.take(bytes) => false,
            () = std::future::ready(()) => true
        }
    }

    #[test]
    fn what_is_held_is_what_others_lack_and_comes_back() {
        let memory = Memory::new(200 << 10);
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
        let memory = Memory::new(200 << 10);
        let some = memory.take(100 << 10).await;
        assert!(is_waiting(&memory, 1 << 20).await);
        drop(some);
        assert_eq!(memory.take(1 << 20).await.bytes(), 200 << 10);
    }

    #[tokio::test]
    async fn an_answer_that_is_more_than_was_taken_for_it_takes_the_rest_or_waits_in_turn() {
        let memory = Memory::new(300 << 10);
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
        let memory = Memory::new(200 << 10);
        let all = memory.take(200 << 10).await;
        let mut turn = memory.turn(Duration::from_millis(1));
        turn.wait(100 << 10).await;
        drop(all);
        assert_eq!((turn.is_over(), turn.take_up_to(1 << 20).bytes()), (true, 0));
    }
}
