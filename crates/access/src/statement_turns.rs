//! The turns of SQL statements: how many run at a time, altogether and of one address.
//!
//! A statement waits for a turn of its address first, and then for one of all. So an address that
//! sends many statements has at most [`OF_ADDRESS_MAX`] among those that wait for all, and other
//! clients pass its others. The clients of a loopback address differ only by their connections.
//! Each of these has turns of its own, as it has a share of its own in the byte budget. A wait has
//! a bound, so a client learns that the server is busy.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::budget::running_caller;

/// How many statements run at a time.
const STATEMENTS_MAX: usize = 4;

/// How many statements of one address run at a time.
const OF_ADDRESS_MAX: usize = 2;

/// The longest wait for a turn.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// When to retry after a wait that was too long.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The turns of all statements of a server. Clones share them, so that front ends run the permitted
/// number together.
#[derive(Debug, Clone)]
pub struct StatementTurns {
    all: Arc<Semaphore>,
    /// The turns of addresses whose statements run or wait.
    addresses: Arc<Mutex<HashMap<IpAddr, Weak<Semaphore>>>>,
    wait_max: Duration,
}

/// The turn of one statement, which ends when it is dropped.
#[derive(Debug)]
pub struct StatementTurn {
    _of_all: OwnedSemaphorePermit,
    _of_address: Option<OwnedSemaphorePermit>,
}

/// A wait for a turn that was too long.
#[derive(Debug)]
pub struct StatementsBusy;

impl StatementsBusy {
    /// When the client may retry.
    pub fn retry_after(&self) -> Duration {
        RETRY_AFTER
    }
}

impl fmt::Display for StatementsBusy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the server runs {STATEMENTS_MAX} SQL statements at a time, {OF_ADDRESS_MAX} of one address, and none of \
             them ended: retry later"
        )
    }
}

impl std::error::Error for StatementsBusy {}

impl Default for StatementTurns {
    fn default() -> Self {
        let (all, addresses) = (Arc::new(Semaphore::new(STATEMENTS_MAX)), Arc::default());
        StatementTurns { all, addresses, wait_max: WAIT_MAX }
    }
}

impl StatementTurns {
    /// Waits for a turn of a statement of the running request. Turns are given in order.
    ///
    /// # Errors
    /// When the wait is too long.
    pub async fn turn(&self) -> Result<StatementTurn, StatementsBusy> {
        let address = running_caller().and_then(|caller| caller.address());
        let permit = async |turns: Arc<Semaphore>| turns.acquire_owned().await.expect("the semaphore stays open");
        let waiting = async {
            let of_address = match address {
                Some(address) => Some(permit(self.of_address(address)).await),
                None => None,
            };
            StatementTurn { _of_all: permit(Arc::clone(&self.all)).await, _of_address: of_address }
        };
        tokio::time::timeout(self.wait_max, waiting).await.map_err(|_| StatementsBusy)
    }

    /// The turns of an address.
    fn of_address(&self, address: IpAddr) -> Arc<Semaphore> {
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turns) = addresses.get(&address).and_then(Weak::upgrade) {
            return turns;
        }
        addresses.retain(|_, turns| turns.strong_count() > 0);
        let turns = Arc::new(Semaphore::new(OF_ADDRESS_MAX));
        addresses.insert(address, Arc::downgrade(&turns));
        turns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::{ByteBudget, FrontEnd, handle_for};

    /// Turns without waits.
    fn turns() -> StatementTurns {
        StatementTurns { wait_max: Duration::ZERO, ..StatementTurns::default() }
    }

    /// A turn for a statement from an address.
    async fn from(turns: &StatementTurns, address: &str) -> Result<StatementTurn, StatementsBusy> {
        let caller = ByteBudget::default().caller(FrontEnd::Http, Some(address.parse().expect("an address")));
        handle_for(caller, turns.turn()).await
    }

    #[tokio::test]
    async fn an_address_has_two_of_the_four_turns_and_others_have_the_rest() {
        let turns = turns();
        let first = from(&turns, "10.0.0.1").await.expect("a turn");
        let second = from(&turns, "10.0.0.1").await.expect("a turn");
        assert!(from(&turns, "10.0.0.1").await.is_err());
        // The same client by another notation, and one network of IPv6.
        assert!(from(&turns, "::ffff:10.0.0.1").await.is_err());
        let third = from(&turns, "2001:db8::1").await.expect("a turn");
        let fourth = from(&turns, "2001:db8::2").await.expect("a turn");
        assert!(from(&turns, "2001:db8::3").await.is_err());
        assert!(from(&turns, "10.0.0.2").await.is_err(), "all four are taken");
        drop((second, third));
        let _other = from(&turns, "10.0.0.2").await.expect("a turn");
        let _again = from(&turns, "10.0.0.1").await.expect("a turn");
        assert!(from(&turns, "10.0.0.1").await.is_err());
        drop((first, fourth));
    }

    #[tokio::test]
    async fn connections_of_a_loopback_address_have_turns_of_their_own() {
        let turns = turns();
        let mut held = Vec::new();
        for _ in 0..STATEMENTS_MAX {
            held.push(from(&turns, "127.0.0.1").await.expect("a turn"));
        }
        assert!(from(&turns, "127.0.0.1").await.is_err());
        assert!(turns.addresses.lock().expect("whole").is_empty());
    }

    #[tokio::test]
    async fn a_waiting_address_uses_no_turn_of_other_addresses_and_idle_addresses_are_forgotten() {
        let turns = Arc::new(StatementTurns::default());
        let held = [from(&turns, "10.0.0.1").await, from(&turns, "10.0.0.1").await];
        let waiting: Vec<_> = (0..8)
            .map(|_| {
                let turns = Arc::clone(&turns);
                tokio::spawn(async move { from(&turns, "10.0.0.1").await.map(drop) })
            })
            .collect();
        tokio::task::yield_now().await;
        let other = from(&turns, "10.0.0.2").await.expect("it passes those that wait");
        drop((held, other));
        for waiting in waiting {
            waiting.await.expect("no panic").expect("a turn");
        }
        drop(from(&turns, "10.0.0.3").await.expect("a turn"));
        assert_eq!(turns.addresses.lock().expect("whole").len(), 1);
    }
}
