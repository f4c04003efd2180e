//! The account of an address: the sum over its connections.
//!
//! An IPv6 client usually has a network of 64 bits for itself, so its account is that network's.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};

use super::ledger::{BudgetLedger, unsigned};

/// The bits of an IPv6 address that name its network.
const NETWORK: u128 = !0 << 64;

#[derive(Debug)]
pub(super) struct AddressAccount {
    address: IpAddr,
    held: AtomicI64,
    ledger: Arc<BudgetLedger>,
}

impl AddressAccount {
    /// Returns the account of `peer`; `None` for a loopback address, whose connections have shares
    /// of their own.
    pub(super) fn of(ledger: &Arc<BudgetLedger>, peer: IpAddr) -> Option<Arc<Self>> {
        let address = match peer.to_canonical() {
            address if address.is_loopback() => return None,
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK).into(),
            address => address,
        };
        let mut addresses = ledger.addresses();
        if let Some(account) = addresses.get(&address).and_then(Weak::upgrade) {
            return Some(account);
        }
        let account = Arc::new(AddressAccount { address, held: AtomicI64::new(0), ledger: Arc::clone(ledger) });
        addresses.insert(address, Arc::downgrade(&account));
        Some(account)
    }

    pub(super) fn address(&self) -> IpAddr {
        self.address
    }

    /// Adds `bytes`, and returns the new sum.
    pub(super) fn add(&self, bytes: i64) -> u64 {
        unsigned(self.held.fetch_add(bytes, Ordering::SeqCst) + bytes)
    }

    pub(super) fn held(&self) -> u64 {
        unsigned(self.held.load(Ordering::SeqCst))
    }
}

impl Drop for AddressAccount {
    fn drop(&mut self) {
        let mut addresses = self.ledger.addresses();
        // Another connection may have created a new account for the address by now.
        if addresses.get(&self.address).is_some_and(|account| account.strong_count() == 0) {
            addresses.remove(&self.address);
        }
    }
}
