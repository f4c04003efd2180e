//! A claim: the bytes of one item, such as a request, a response or a member of a group.

use std::pin::pin;

use super::BudgetRefusal;
use super::caller::{BudgetCaller, Growth};

/// Bytes that a client makes the server hold; released when dropped.
#[derive(Debug)]
pub struct ByteClaim {
    caller: BudgetCaller,
    bytes: u64,
    /// The bytes of the whole item, with the parts that were split off.
    item_bytes: u64,
    with_reserve: bool,
}

impl ByteClaim {
    pub(super) fn new(caller: BudgetCaller, with_reserve: bool) -> Self {
        ByteClaim { caller, bytes: 0, item_bytes: 0, with_reserve }
    }

    /// The bytes of the claim.
    pub fn bytes(&self) -> usize {
        usize::try_from(self.bytes).unwrap_or(usize::MAX)
    }

    /// The caller that holds the claim.
    pub fn caller(&self) -> &BudgetCaller {
        &self.caller
    }

    /// Claims `bytes` more.
    ///
    /// # Errors
    /// When the budget or the caller's share is in use, or the item exceeds the budget. The claim
    /// is unchanged, and the refusal is counted.
    pub fn grow(&mut self, bytes: usize) -> Result<(), BudgetRefusal> {
        self.add(bytes as u64).inspect_err(|_| self.caller.count_refusal())
    }

    /// Claims `bytes` more, for a caller that waits otherwise. Returns whether they were free.
    pub fn try_grow(&mut self, bytes: usize) -> bool {
        self.add(bytes as u64).is_ok()
    }

    /// Claims `bytes` more, beyond any limit: for the response to a request that was carried out.
    pub fn grow_anyway(&mut self, bytes: usize) {
        self.caller.add_anyway(bytes as u64);
        self.grown(bytes as u64);
    }

    /// Claims up to `bytes` more, as many as are free now, and returns their number.
    pub fn grow_up_to(&mut self, bytes: usize) -> usize {
        let bytes = (bytes as u64).min(self.caller.available(self.item_bytes, self.with_reserve));
        if self.caller.is_waited_for() || self.add(bytes).is_err() {
            return 0;
        }
        usize::try_from(bytes).expect("at most the argument")
    }

    /// Waits until `bytes` more are free, and claims them. Claims wait in order, except that a
    /// claim beyond its caller's share lets others pass. An item that exceeds the budget gets all
    /// of it. Dropping the future claims nothing.
    pub async fn grow_patiently(&mut self, bytes: usize) {
        let limit = self.caller.ledger().limit(self.with_reserve);
        let bytes = (bytes as u64).min(limit.saturating_sub(self.item_bytes));
        let caller = self.caller.clone();
        let ledger = caller.ledger();
        if ledger.waiting() == 0 && self.add(bytes).is_ok() {
            return;
        }
        let _waiter = ledger.wait();
        loop {
            {
                let mut freed = pin!(ledger.freed.notified());
                freed.as_mut().enable();
                if !caller.has_share(self.growth(bytes)) {
                    freed.await;
                    continue;
                }
            }
            let _turn = ledger.turn.acquire().await.expect("the semaphore is never closed");
            loop {
                let mut freed = pin!(ledger.freed.notified());
                freed.as_mut().enable();
                let growth = self.growth(bytes);
                if !caller.has_share(growth) {
                    break;
                }
                if !caller.has_space(growth) {
                    freed.await;
                } else if self.add(bytes).is_ok() {
                    return;
                }
            }
        }
    }

    /// Releases all but `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        let released = self.bytes.saturating_sub(bytes as u64);
        self.bytes -= released;
        self.item_bytes -= released;
        self.caller.release(released);
    }

    /// Splits off `bytes`, at most all, as a claim of their own. The two are still one item.
    pub fn split(&mut self, bytes: usize) -> ByteClaim {
        let bytes = self.bytes.min(bytes as u64);
        self.bytes -= bytes;
        ByteClaim { caller: self.caller.clone(), bytes, item_bytes: bytes, with_reserve: self.with_reserve }
    }

    fn growth(&self, bytes: u64) -> Growth {
        Growth { bytes, item_bytes: self.item_bytes.saturating_add(bytes), with_reserve: self.with_reserve }
    }

    fn add(&mut self, bytes: u64) -> Result<(), BudgetRefusal> {
        self.caller.add(self.growth(bytes))?;
        self.grown(bytes);
        Ok(())
    }

    fn grown(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.item_bytes += bytes;
    }
}

impl Drop for ByteClaim {
    fn drop(&mut self) {
        self.caller.release(self.bytes);
    }
}
