//! The byte budget: the memory that all clients together make the server hold.
//!
//! ```text
//! connection (free bytes) ─▶ address (a sixteenth) ─▶ all clients (the budget, minus the reserve)
//! ```
//!
//! * A front end claims bytes before it holds them: a request as it arrives, a response before it
//!   is built, a member of a consumer group while it is a member. A claim is released when it is
//!   dropped.
//! * The first [`FREE_BYTES`] of each connection are not counted, and connections are limited. So a
//!   small commit is answered while others hold the whole budget.
//! * An address holds at most a sixteenth of the budget, or one item that is larger. The clients of
//!   a loopback address differ only by their connections, so each of their connections has a share.
//!   A local program with many connections can therefore hold the whole budget, except the reserve.
//! * The last sixteenth is a reserve for fetches of jobs and for administration. So clients that
//!   read slowly do not stop workers.
//!
//! Invariant: without [`ByteClaim::grow_anyway`], the counted bytes never exceed the budget. That
//! function is for responses to requests that were already carried out, which have a size limit.
//!
//! # Cost
//! A claim within the free bytes is one addition to a counter of its connection. A larger claim
//! also adds to the counters of its address and of the budget. Only a claim that waits takes a
//! lock.
//!
//! # Example
//! ```
//! use quire_access::budget::{ByteBudget, FrontEnd};
//!
//! let budget = ByteBudget::new(16 << 20);
//! let caller = budget.caller(FrontEnd::Http, None);
//! let mut claim = caller.claim();
//! claim.grow(1 << 20)?;
//! assert!(budget.usage().bytes_used > 0);
//! drop(claim);
//! assert_eq!(budget.usage().bytes_used, 0);
//! # Ok::<(), quire_access::budget::BudgetRefusal>(())
//! ```

mod account;
mod caller;
mod claim;
mod ledger;
mod refusal;
mod running;

use std::net::IpAddr;
use std::sync::Arc;

pub use caller::BudgetCaller;
pub use claim::ByteClaim;
pub use refusal::BudgetRefusal;
pub(crate) use running::carried;
pub use running::{handle_for, running_caller};

use ledger::BudgetLedger;

/// The bytes of each connection that are not counted.
pub const FREE_BYTES: usize = 64 << 10;

/// The budget is shared among at least this many addresses, and one such share is the reserve.
pub const SHARES: u64 = 16;

/// A front end, for the counts of refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrontEnd {
    /// The Kafka protocol.
    Kafka,
    /// HTTP with JSON.
    Http,
    /// gRPC.
    Grpc,
}

impl FrontEnd {
    /// All front ends.
    pub const ALL: [FrontEnd; 3] = [FrontEnd::Kafka, FrontEnd::Http, FrontEnd::Grpc];

    /// The name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            FrontEnd::Kafka => "kafka",
            FrontEnd::Http => "http",
            FrontEnd::Grpc => "grpc",
        }
    }
}

/// The byte budget of a server; see the module. Clones share it.
#[derive(Debug, Clone)]
pub struct ByteBudget(Arc<BudgetLedger>);

/// The use of a budget at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetUsage {
    /// The size of the budget.
    pub bytes_max: u64,
    /// The bytes in use, without the free bytes of connections.
    pub bytes_used: u64,
    /// How many requests and responses wait for bytes.
    pub waiting: usize,
    /// How many requests and responses were refused since the start, in the order of
    /// [`FrontEnd::ALL`].
    pub refused: [u64; FrontEnd::ALL.len()],
}

impl Default for ByteBudget {
    fn default() -> Self {
        ByteBudget::new(ByteBudget::BYTES_DEFAULT)
    }
}

impl ByteBudget {
    /// The default size: 1 GiB.
    pub const BYTES_DEFAULT: u64 = 1 << 30;

    /// The smallest size: 1 MiB.
    pub const BYTES_LEAST: u64 = 1 << 20;

    /// The largest size: 1 TiB, practically no limit.
    pub const BYTES_MOST: u64 = 1 << 40;

    /// Creates a budget of `bytes_max` bytes, within [`ByteBudget::BYTES_LEAST`] and
    /// [`ByteBudget::BYTES_MOST`].
    pub fn new(bytes_max: u64) -> Self {
        ByteBudget(Arc::new(BudgetLedger::new(bytes_max.clamp(ByteBudget::BYTES_LEAST, ByteBudget::BYTES_MOST))))
    }

    /// Returns the caller for a new connection from `peer`; `None` for a peer without an address.
    pub fn caller(&self, front: FrontEnd, peer: Option<IpAddr>) -> BudgetCaller {
        BudgetCaller::new(&self.0, front, peer)
    }

    /// The size of the budget in bytes.
    pub fn bytes_max(&self) -> u64 {
        self.0.bytes_max
    }

    /// The bytes that claims without the reserve may hold together.
    pub fn bytes_for_all(&self) -> u64 {
        self.0.limit(false)
    }

    /// Whether any request or response waits for bytes.
    pub fn is_waited_for(&self) -> bool {
        self.0.waiting() > 0
    }

    /// Returns the current use.
    pub fn usage(&self) -> BudgetUsage {
        self.0.usage()
    }
}

#[cfg(test)]
mod tests;
