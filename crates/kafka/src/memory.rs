//! The memory of large requests and responses, claimed from the byte budget.
//!
//! A request that exceeds the free memory waits, with its connection unread, until others are
//! finished. A fetch response is made as small as the free memory. When not even its first batch
//! fits, it waits in the same queue, up to a timeout. Neither holds memory while it waits. A fetch
//! may wait for the memory of the next request of its own connection, which was read ahead. That is
//! why its wait has a timeout.

use std::time::Duration;

use kafka_protocol::protocol::Encodable;
use quire_access::Deadline;
use quire_access::budget::{BudgetCaller, ByteClaim, FREE_BYTES};
use tokio::time::{Instant, timeout_at};

use crate::close_reason::CloseReason;

/// Requests and responses up to this size are not claimed: each connection has at most one.
pub(crate) const SMALL_BYTES: usize = FREE_BYTES;

/// Memory of a part of a response, in its encoded sizes: its bytes in the frame, and its values, of
/// which most are short texts in larger structures.
const BYTES_IN_MEMORY: usize = 4;

/// A response's memory over several attempts to build it.
#[derive(Debug)]
pub(crate) struct MemoryTurn<'c> {
    caller: &'c BudgetCaller,
    patience: Duration,
    /// When the wait ends, once it has begun.
    until: Option<Instant>,
    /// The memory that it waited for.
    reserved: Option<ByteClaim>,
    is_over: bool,
}

impl<'c> MemoryTurn<'c> {
    /// Takes memory for a response, and waits at most `patience` for the memory of its first batch.
    pub(crate) fn new(caller: &'c BudgetCaller, patience: Duration) -> Self {
        MemoryTurn { caller, patience, until: None, reserved: None, is_over: false }
    }

    /// The client.
    pub(crate) fn caller(&self) -> &'c BudgetCaller {
        self.caller
    }

    /// Returns the memory for the next attempt: the memory it waited for, or else up to `bytes`, as
    /// much as is free. Returns nothing after the timeout.
    pub(crate) fn take_up_to(&mut self, bytes: usize) -> ByteClaim {
        let bytes = if self.is_over { 0 } else { bytes };
        self.reserved.take().unwrap_or_else(|| {
            let mut claim = self.caller.claim();
            claim.grow_up_to(bytes);
            claim
        })
    }

    /// Reduces or extends the memory to the size of the response. `None` when the response has to
    /// wait for memory.
    pub(crate) fn cover(&self, mut held: ByteClaim, bytes: usize) -> Option<ByteClaim> {
        let missing = bytes.saturating_sub(held.bytes());
        (bytes <= SMALL_BYTES || held.try_grow(missing)).then_some(held)
    }

    /// Waits for `bytes` of memory. After a timeout, no further attempt gets memory.
    pub(crate) async fn wait(&mut self, bytes: usize) {
        let until = *self.until.get_or_insert_with(|| Instant::now() + self.patience);
        let mut claim = self.caller.claim();
        let waited = timeout_at(until, claim.grow_patiently(bytes)).await;
        self.is_over = waited.is_err();
        self.reserved = (!self.is_over).then_some(claim);
        if self.is_over {
            self.caller.count_refusal();
        }
    }

    /// Whether the wait timed out: there is no memory for a batch.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }
}

/// The memory of a response that is built in parts. Each part is claimed where it is built, so a
/// request that names one item many times gets no further than its client's share of the budget.
#[derive(Debug)]
pub(crate) struct GrowingResponse<'h> {
    held: &'h mut ByteClaim,
    /// When the wait for memory ends.
    until: Instant,
    /// Whether it may take more than its client's share, when others leave the memory free.
    is_list: bool,
}

impl<'h> GrowingResponse<'h> {
    /// Memory that `held` gets, for which the response waits at most `patience` in all.
    pub(crate) fn new(held: &'h mut ByteClaim, patience: Duration) -> Self {
        GrowingResponse { held, until: Instant::now() + patience, is_list: false }
    }

    /// As [`GrowingResponse::new`], for a list that has each object of the database at most once.
    /// It may exceed the client's share, and waits for the whole budget when it exceeds that.
    pub(crate) fn of_list(held: &'h mut ByteClaim, patience: Duration) -> Self {
        GrowingResponse { is_list: true, ..GrowingResponse::new(held, patience) }
    }

    /// Whether the response with `bytes` more exceeds what its client may have.
    fn exceeds(&self, bytes: usize) -> bool {
        !self.is_list && self.held.bytes().saturating_add(bytes) > self.held.caller().share_up_to(usize::MAX)
    }

    /// Claims `bytes` like [`GrowingResponse::claim`], unless it would have to wait or to fail.
    pub(crate) fn try_claim(&mut self, bytes: usize) -> bool {
        !self.exceeds(bytes) && self.held.try_grow(bytes)
    }

    /// Claims `bytes` for a part of the response and of its frame.
    ///
    /// # Errors
    /// [`CloseReason::Idle`] when the response exceeds the client's share, or the wait is over.
    pub(crate) async fn claim(&mut self, bytes: usize) -> Result<(), CloseReason> {
        let caller = self.held.caller().clone();
        if self.exceeds(bytes) || timeout_at(self.until, self.held.grow_patiently(bytes)).await.is_err() {
            caller.count_refusal();
            return Err(CloseReason::Idle(Deadline::Response));
        }
        Ok(())
    }
}

/// The memory of a part of a response, estimated from its encoded size: its values, and its bytes
/// in the frame.
///
/// # Errors
/// [`CloseReason::Failed`] when it can't be encoded in this version.
pub(crate) fn bytes_in_memory<R: Encodable>(part: &R, version: i16) -> Result<usize, CloseReason> {
    let encoded = part.compute_size(version).map_err(|_| CloseReason::Failed)?;
    Ok(BYTES_IN_MEMORY * encoded)
}

/// Releases all but `bytes`; `None` when the rest is too small to be claimed.
pub(crate) fn shrink(mut held: ByteClaim, bytes: usize) -> Option<ByteClaim> {
    held.shrink_to(bytes);
    (bytes > SMALL_BYTES).then_some(held)
}

#[cfg(test)]
mod tests {
    use quire_access::budget::{ByteBudget, FrontEnd};

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const MIB: usize = 1 << 20;

    #[tokio::test]
    async fn a_response_in_parts_ends_at_the_share_of_its_client() {
        let budget = ByteBudget::new(64 * MIB as u64);
        let caller = budget.caller(FrontEnd::Kafka, None);
        let share = caller.share_up_to(usize::MAX);
        let mut held = caller.claim();
        let mut memory = GrowingResponse::new(&mut held, HOUR);
        for _ in 0..4 {
            memory.claim(share / 4).await.expect("up to the share");
        }
        assert_eq!(memory.claim(1).await, Err(CloseReason::Idle(Deadline::Response)));
        assert_eq!(held.bytes(), share);
    }

    #[tokio::test]
    async fn an_answer_that_is_more_than_was_taken_for_it_takes_the_rest_or_waits_in_turn() {
        // 15 MiB without the reserve; each caller has free bytes of its own.
        let budget = ByteBudget::new(16 * MIB as u64);
        let [one, two, three] = [(); 3].map(|()| budget.caller(FrontEnd::Kafka, None));
        let mut turn = MemoryTurn::new(&one, HOUR);
        let held = turn.take_up_to(1);
        let held = turn.cover(held, SMALL_BYTES + 10 * MIB).expect("there is so much");
        assert_eq!(held.bytes(), SMALL_BYTES + 10 * MIB);

        let mut other = MemoryTurn::new(&two, HOUR);
        let little = other.take_up_to(100 * MIB);
        assert_eq!(little.bytes(), SMALL_BYTES + 5 * MIB);
        assert!(other.cover(little, SMALL_BYTES + 10 * MIB).is_none());
        assert_eq!(budget.usage().bytes_used, 10 * MIB as u64, "it holds nothing when it has to wait");
        let ((), ()) = tokio::join!(other.wait(SMALL_BYTES + 10 * MIB), async { drop(held) });
        let held = other.take_up_to(1);
        assert_eq!((held.bytes(), other.is_over()), (SMALL_BYTES + 10 * MIB, false));

        let mut small = MemoryTurn::new(&three, HOUR);
        let nothing = small.take_up_to(0);
        assert!(small.cover(nothing, SMALL_BYTES).is_some(), "a small one needs none");
        assert!(shrink(held, SMALL_BYTES).is_none());
    }

    #[tokio::test]
    async fn a_turn_in_vain_is_over_and_takes_nothing_any_more() {
        let budget = ByteBudget::new(16 * MIB as u64);
        let [one, two] = [(); 2].map(|()| budget.caller(FrontEnd::Kafka, None));
        let mut all = one.claim();
        all.grow(SMALL_BYTES + 15 * MIB).expect("it is alone");
        let mut turn = MemoryTurn::new(&two, Duration::from_millis(1));
        turn.wait(SMALL_BYTES + MIB).await;
        drop(all);
        assert_eq!((turn.is_over(), turn.take_up_to(MIB).bytes()), (true, 0));
        assert_eq!(budget.usage().refused, [1, 0, 0]);
    }
}
