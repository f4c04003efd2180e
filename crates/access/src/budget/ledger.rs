//! The counters that all connections share.
//!
//! Counters are signed: a release may be counted before the claim that it follows, for a moment.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::{Notify, Semaphore};

use super::account::AddressAccount;
use super::{BudgetUsage, FrontEnd, SHARES};

/// The addresses that have connections.
pub(super) type AddressAccounts = HashMap<IpAddr, Weak<AddressAccount>>;

#[derive(Debug)]
pub(super) struct BudgetLedger {
    pub(super) bytes_max: u64,
    used: AtomicI64,
    /// The number of waiting claims. A release notifies waiters only when this is not zero. A claim
    /// raises it before it reads `used`, and a release lowers `used` before it reads this. So no
    /// wake-up is lost.
    waiting: AtomicUsize,
    /// Claims that wait for others than their own caller wait in order: the first one has the turn.
    pub(super) turn: Semaphore,
    /// Notified by each release while a claim waits.
    pub(super) freed: Notify,
    refused: [AtomicU64; FrontEnd::ALL.len()],
    addresses: Mutex<AddressAccounts>,
}

/// Counts as waiting until it is dropped.
pub(super) struct Waiter<'l>(&'l BudgetLedger);

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

impl BudgetLedger {
    pub(super) fn new(bytes_max: u64) -> Self {
        BudgetLedger {
            bytes_max,
            used: AtomicI64::new(0),
            waiting: AtomicUsize::new(0),
            turn: Semaphore::new(1),
            freed: Notify::new(),
            refused: Default::default(),
            addresses: Mutex::default(),
        }
    }

    /// The most that an address may hold, except one larger item.
    pub(super) fn share(&self) -> u64 {
        self.bytes_max / SHARES
    }

    /// The most that all may hold.
    pub(super) fn limit(&self, with_reserve: bool) -> u64 {
        if with_reserve { self.bytes_max } else { self.bytes_max - self.bytes_max / SHARES }
    }

    /// Adds `bytes`, and returns the new sum.
    pub(super) fn add(&self, bytes: i64) -> u64 {
        unsigned(self.used.fetch_add(bytes, Ordering::SeqCst) + bytes)
    }

    /// Subtracts `bytes`, and wakes those that wait.
    pub(super) fn release(&self, bytes: i64) {
        self.used.fetch_sub(bytes, Ordering::SeqCst);
        self.wake();
    }

    /// Wakes the claims that wait, if there are any.
    pub(super) fn wake(&self) {
        if self.waiting() > 0 {
            self.freed.notify_waiters();
        }
    }

    pub(super) fn used(&self) -> u64 {
        unsigned(self.used.load(Ordering::SeqCst))
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    pub(super) fn wait(&self) -> Waiter<'_> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Waiter(self)
    }

    pub(super) fn refuse(&self, front: FrontEnd) {
        self.refused[front as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn addresses(&self) -> MutexGuard<'_, AddressAccounts> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn usage(&self) -> BudgetUsage {
        BudgetUsage {
            bytes_max: self.bytes_max,
            bytes_used: self.used(),
            waiting: self.waiting(),
            refused: FrontEnd::ALL.map(|front| self.refused[front as usize].load(Ordering::Relaxed)),
        }
    }
}

/// A counter that is below zero for a moment counts as zero.
pub(super) fn unsigned(counter: i64) -> u64 {
    u64::try_from(counter).unwrap_or(0)
}
