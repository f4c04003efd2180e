//! A caller: one connection, and the account of its address.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::account::AddressAccount;
use super::ledger::{BudgetLedger, unsigned};
use super::{BudgetRefusal, ByteClaim, FREE_BYTES, FrontEnd};

/// A connection whose client makes the server hold bytes. Clones are the same caller.
#[derive(Debug, Clone)]
pub struct BudgetCaller(Arc<ConnectionBytes>);

#[derive(Debug)]
struct ConnectionBytes {
    ledger: Arc<BudgetLedger>,
    front: FrontEnd,
    /// `None` for a connection that has its own share, such as one from a loopback address.
    account: Option<Arc<AddressAccount>>,
    /// All bytes of the connection, the free ones included.
    held: AtomicI64,
    /// The held bytes that do not count towards the budget.
    free: i64,
}

/// A request for more bytes in a claim.
#[derive(Debug, Clone, Copy)]
pub(super) struct Growth {
    pub(super) bytes: u64,
    /// The size of the claim's item with the addition.
    pub(super) item_bytes: u64,
    pub(super) with_reserve: bool,
}

impl BudgetCaller {
    pub(super) fn new(ledger: &Arc<BudgetLedger>, front: FrontEnd, peer: Option<IpAddr>) -> Self {
        let account = peer.and_then(|peer| AddressAccount::of(ledger, peer));
        BudgetCaller::of(Arc::clone(ledger), front, account, FREE_BYTES as i64)
    }

    fn of(ledger: Arc<BudgetLedger>, front: FrontEnd, account: Option<Arc<AddressAccount>>, free: i64) -> Self {
        BudgetCaller(Arc::new(ConnectionBytes { ledger, front, account, held: AtomicI64::new(0), free }))
    }

    /// Returns the caller for what stays when the connection ends, such as a member of a group.
    /// None of its bytes are free: otherwise a client could hold the free bytes of many connections
    /// that it has closed.
    pub fn beyond_connection(&self) -> BudgetCaller {
        let ConnectionBytes { ledger, front, account, .. } = &*self.0;
        BudgetCaller::of(Arc::clone(ledger), *front, account.clone(), 0)
    }

    /// Returns the address whose account the connection has: of an IPv6 client its network. `None`
    /// for a connection that has its own share.
    pub fn address(&self) -> Option<IpAddr> {
        self.0.account.as_ref().map(|account| account.address())
    }

    /// Returns an empty claim.
    pub fn claim(&self) -> ByteClaim {
        ByteClaim::new(self.clone(), false)
    }

    /// Returns an empty claim of a fetch of jobs, or of administration, which may use the reserve.
    pub fn claim_with_reserve(&self) -> ByteClaim {
        ByteClaim::new(self.clone(), true)
    }

    /// Checks that `bytes` could be claimed now, before a request is carried out whose response has
    /// an unknown size.
    ///
    /// # Errors
    /// When `bytes` exceeds the available memory.
    pub fn check(&self, bytes: usize, with_reserve: bool) -> Result<(), BudgetRefusal> {
        ByteClaim::new(self.clone(), with_reserve).grow(bytes)
    }

    /// Returns the claim for work that takes up to `bytes`: `bytes`, but at most one client's
    /// share, so that other requests keep some memory. For kinds of work of which few run at a
    /// time.
    pub fn share_up_to(&self, bytes: usize) -> usize {
        bytes.min(usize::try_from(self.0.ledger.share()).unwrap_or(usize::MAX))
    }

    /// Counts a refusal that the caller decided, such as the end of a wait.
    pub fn count_refusal(&self) {
        self.0.ledger.refuse(self.0.front);
    }

    /// Whether any request or response of any client waits for bytes.
    pub fn is_waited_for(&self) -> bool {
        self.0.ledger.waiting() > 0
    }

    pub(super) fn ledger(&self) -> &BudgetLedger {
        &self.0.ledger
    }

    /// Adds the bytes of a claim.
    pub(super) fn add(&self, growth: Growth) -> Result<(), BudgetRefusal> {
        let ConnectionBytes { ledger, account, .. } = &*self.0;
        let (counted, own) = self.hold(growth.bytes);
        if counted == 0 {
            return Ok(());
        }
        let of_account = account.as_ref().map_or(own, |account| account.add(counted));
        let limit = ledger.limit(growth.with_reserve);
        let refusal = if growth.item_bytes.saturating_sub(unsigned(self.0.free)) > limit {
            BudgetRefusal::TooLarge { bytes_max: ledger.bytes_max }
        } else if of_account > ledger.share().max(growth.item_bytes) {
            BudgetRefusal::ShareExceeded { share_bytes: ledger.share() }
        } else if ledger.add(counted) > limit {
            ledger.release(counted);
            BudgetRefusal::Exhausted
        } else {
            return Ok(());
        };
        self.0.held.fetch_sub(signed(growth.bytes), Ordering::SeqCst);
        if let Some(account) = account {
            account.add(-counted);
        }
        ledger.wake();
        Err(refusal)
    }

    /// Adds bytes beyond any limit.
    pub(super) fn add_anyway(&self, bytes: u64) {
        let (counted, _) = self.hold(bytes);
        if counted > 0 {
            if let Some(account) = &self.0.account {
                account.add(counted);
            }
            self.0.ledger.add(counted);
        }
    }

    /// Subtracts the bytes of a claim.
    pub(super) fn release(&self, bytes: u64) {
        let bytes = signed(bytes);
        let before = self.0.held.fetch_sub(bytes, Ordering::SeqCst);
        let counted = self.counted(before) - self.counted(before - bytes);
        if counted > 0 {
            if let Some(account) = &self.0.account {
                account.add(-counted);
            }
            self.0.ledger.release(counted);
        }
    }

    /// The bytes by which an item of `item_bytes` bytes could grow now.
    pub(super) fn available(&self, item_bytes: u64, with_reserve: bool) -> u64 {
        let ConnectionBytes { ledger, account, held, free, .. } = &*self.0;
        let held = held.load(Ordering::SeqCst);
        let free = unsigned(free - held);
        let of_account = account.as_ref().map_or(unsigned(self.counted(held)), |account| account.held());
        let limit = ledger.limit(with_reserve);
        // One item may exceed the share.
        let share = if of_account <= item_bytes { limit } else { ledger.share() };
        free + share.saturating_sub(of_account).min(limit.saturating_sub(ledger.used()))
    }

    /// Whether the share of this caller leaves space for the growth now.
    pub(super) fn has_share(&self, growth: Growth) -> bool {
        let (counted, own) = self.would_hold(growth.bytes);
        let of_account = self.0.account.as_ref().map_or(own - counted, |account| account.held());
        of_account + counted <= self.0.ledger.share().max(growth.item_bytes)
    }

    /// Whether the budget leaves space for the growth now. Unlike [`BudgetCaller::add`] it changes
    /// nothing, so a claim that waits does not wake itself.
    pub(super) fn has_space(&self, growth: Growth) -> bool {
        let (counted, _) = self.would_hold(growth.bytes);
        self.0.ledger.used() + counted <= self.0.ledger.limit(growth.with_reserve)
    }

    /// Of `bytes` additional bytes, the number that would count towards the budget, and the
    /// connection's new total of counted bytes.
    fn would_hold(&self, bytes: u64) -> (u64, u64) {
        let held = self.0.held.load(Ordering::SeqCst);
        let after = unsigned(self.counted(held + signed(bytes)));
        (after - unsigned(self.counted(held)), after)
    }

    /// Adds to the bytes of the connection. Returns how many of them are counted, and the counted
    /// bytes of the connection.
    fn hold(&self, bytes: u64) -> (i64, u64) {
        let bytes = signed(bytes);
        let before = self.0.held.fetch_add(bytes, Ordering::SeqCst);
        let after = self.counted(before + bytes);
        (after - self.counted(before), unsigned(after))
    }

    /// The number of held bytes that count towards the budget.
    fn counted(&self, held: i64) -> i64 {
        (held - self.0.free).max(0)
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).expect("a claim has less than 2^63 bytes")
}
