//! Why a claim was refused.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// Why a claim was refused; see [`ByteClaim::grow`](super::ByteClaim::grow).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetRefusal {
    /// The item exceeds the whole budget: the client must send or request less.
    TooLarge {
        /// The size of the budget.
        bytes_max: u64,
    },
    /// The clients of the caller's address hold their share.
    ShareExceeded {
        /// The size of the share.
        share_bytes: u64,
    },
    /// Other clients hold the budget.
    Exhausted,
}

impl BudgetRefusal {
    /// When to retry; `None` when a retry fails too.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            BudgetRefusal::TooLarge { .. } => None,
            BudgetRefusal::ShareExceeded { .. } | BudgetRefusal::Exhausted => Some(Duration::from_secs(1)),
        }
    }
}

impl fmt::Display for BudgetRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BudgetRefusal::TooLarge { bytes_max } => write!(
                f,
                "the request or response exceeds the {bytes_max} bytes of memory for all clients (`quire serve \
                 --memory`): send or request less at once"
            ),
            BudgetRefusal::ShareExceeded { share_bytes } => write!(
                f,
                "this client's requests and responses in progress exceed its share of {share_bytes} bytes of memory: \
                 read their responses, and retry later"
            ),
            BudgetRefusal::Exhausted => {
                f.write_str("the memory for requests and responses is in use by other clients: retry later")
            }
        }
    }
}

impl Error for BudgetRefusal {}
