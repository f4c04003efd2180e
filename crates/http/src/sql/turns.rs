//! The turns of statements: how many run at a time, altogether and of one address.
//!
//! A statement waits for a turn of its address first, and then for one of all. So an address that
//! sends many statements has at most [`OF_ADDRESS_MAX`] among those that wait for all, and other
//! clients pass its others. The clients of a loopback address differ only by their connections.
//! Each of these has turns of its own, as it has a share of its own in the byte budget. A wait has
//! a bound, so a client learns that the server is busy.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use quire_access::budget::running_caller;
use quire_api::Code;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::Problem;

/// How many statements run at a time.
const STATEMENTS_MAX: usize = 4;

/// How many statements of one address run at a time.
const OF_ADDRESS_MAX: usize = 2;

/// The longest wait for a turn.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// When to retry after a wait that was too long, in milliseconds.
const RETRY_MS: u64 = 1_000;

/// The turns of all statements; see the module.
#[derive(Debug)]
pub(crate) struct StatementTurns {
    all: Arc<Semaphore>,
    /// The turns of addresses whose statements run or wait.
    addresses: Mutex<HashMap<IpAddr, Weak<Semaphore>>>,
    wait_max: Duration,
}

/// The turn of one statement, which ends when it is dropped.
#[derive(Debug)]
pub(crate) struct StatementTurn {
    _of_all: OwnedSemaphorePermit,
    _of_address: Option<OwnedSemaphorePermit>,
}

impl Default for StatementTurns {
    fn default() -> Self {
        StatementTurns {
            all: Arc::new(Semaphore::new(STATEMENTS_MAX)),
            addresses: Mutex::default(),
            wait_max: WAIT_MAX,
        }
    }
}

impl StatementTurns {
    /// Waits for a turn of a statement of the running request. Turns are given in order.
    ///
    /// # Errors
    /// When the wait is too long.
    pub(crate) async fn turn(&self) -> Result<StatementTurn, Problem> {
        let address = running_caller().and_then(|caller| caller.address());
        let waiting = async {
            let of_address = match address {
                Some(address) => self.of_address(address).acquire_owned().await.map(Some)?,
                None => None,
            };
            let of_all = Arc::clone(&self.all).acquire_owned().await?;
            Ok(StatementTurn { _of_all: of_all, _of_address: of_address })
        };
        match tokio::time::timeout(self.wait_max, waiting).await {
            Ok(turn) => turn.map_err(|_: tokio::sync::AcquireError| Problem::stopping()),
            Err(_) => Err(busy()),
        }
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

fn busy() -> Problem {
    let message = format!(
        "the server runs {STATEMENTS_MAX} SQL statements at a time, {OF_ADDRESS_MAX} of one address, and none of \
         them ended: retry later"
    );
    Problem::new(Code::Overloaded, message).fact("retry_after_ms", RETRY_MS).unavailable()
}

#[cfg(test)]
mod tests {
    use quire_access::budget::{ByteBudget, FrontEnd, handle_for};

    use super::*;

    /// Turns without waits.
    fn turns() -> StatementTurns {
        StatementTurns { wait_max: Duration::ZERO, ..StatementTurns::default() }
    }

    /// A turn for a statement from an address.
    async fn from(turns: &StatementTurns, address: &str) -> Result<StatementTurn, &'static str> {
        let caller = ByteBudget::default().caller(FrontEnd::Http, Some(address.parse().expect("an address")));
        handle_for(caller, turns.turn()).await.map_err(|problem| problem.code())
    }

    #[tokio::test]
    async fn an_address_has_two_of_the_four_turns_and_others_have_the_rest() {
        let turns = turns();
        let first = from(&turns, "10.0.0.1").await.expect("a turn");
        let second = from(&turns, "10.0.0.1").await.expect("a turn");
        assert_eq!(from(&turns, "10.0.0.1").await.err(), Some("overloaded"));
        // The same client by another notation, and one network of IPv6.
        assert_eq!(from(&turns, "::ffff:10.0.0.1").await.err(), Some("overloaded"));
        let third = from(&turns, "2001:db8::1").await.expect("a turn");
        let fourth = from(&turns, "2001:db8::2").await.expect("a turn");
        assert_eq!(from(&turns, "2001:db8::3").await.err(), Some("overloaded"));
        assert_eq!(from(&turns, "10.0.0.2").await.err(), Some("overloaded"), "all four are taken");
        drop((second, third));
        let _other = from(&turns, "10.0.0.2").await.expect("a turn");
        let _again = from(&turns, "10.0.0.1").await.expect("a turn");
        assert_eq!(from(&turns, "10.0.0.1").await.err(), Some("overloaded"));
        drop((first, fourth));
    }

    #[tokio::test]
    async fn connections_of_a_loopback_address_have_turns_of_their_own() {
        let turns = turns();
        let mut held = Vec::new();
        for _ in 0..STATEMENTS_MAX {
            held.push(from(&turns, "127.0.0.1").await.expect("a turn"));
        }
        assert_eq!(from(&turns, "127.0.0.1").await.err(), Some("overloaded"));
        assert!(turns.addresses.lock().expect("whole").is_empty());
    }

    #[tokio::test]
    async fn an_address_that_waits_takes_no_turn_of_others_and_addresses_are_forgotten() {
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

    #[tokio::test]
    async fn a_wait_that_is_too_long_says_when_to_retry() {
        let turns = turns();
        let _held = [turns.turn().await, turns.turn().await, turns.turn().await, turns.turn().await];
        let problem = turns.turn().await.expect_err("all are taken");
        let reply = serde_json::to_value(&problem).expect("JSON");
        assert_eq!(reply["code"], "overloaded");
        assert_eq!((&reply["status"], &reply["retry_after_ms"]), (&503.into(), &RETRY_MS.into()));
    }
}
