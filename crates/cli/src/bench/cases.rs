//! What there is to measure. Names are stable: results of different versions are compared by suite, case and durability.

use quire::Durability;

/// Something to measure.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    /// The suite it belongs to.
    pub(super) suite: &'static str,
    /// Its name within the suite.
    pub(super) name: &'static str,
    /// The durability of its database.
    pub(super) durability: Durability,
    /// What one operation is.
    pub(super) operation: Operation,
    /// How many operations, unless the user says otherwise: enough for the percentiles, seconds rather than minutes.
    pub(super) ops: u64,
}

/// What one operation of a case is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operation {
    /// Producing one batch of so many messages and waiting until it is kept.
    Append {
        /// Messages a batch.
        messages: usize,
    },
    /// Fetching the next batch of so many messages, copied out.
    ReadBack {
        /// Messages a batch.
        messages: usize,
    },
}

impl Operation {
    /// How many entries one operation carries.
    pub(super) fn entries(self) -> usize {
        match self {
            Operation::Append { messages } | Operation::ReadBack { messages } => messages,
        }
    }
}

/// The payload of every entry, in bytes: an event's usual size, and the one that other logs are compared at.
pub(super) const PAYLOAD_BYTES: usize = 116;

/// Every case, in the order in which they run.
pub(super) const CASES: &[Case] = &[
    append("append-single", 1, Durability::Os, 500_000),
    append("append-batch-10", 10, Durability::Os, 100_000),
    append("append-batch-100", 100, Durability::Os, 20_000),
    append("append-batch-1000", 1_000, Durability::Os, 2_000),
    append("append-batch-10000", 10_000, Durability::Os, 300),
    Case {
        suite: "log",
        name: "read-back",
        durability: Durability::Os,
        operation: Operation::ReadBack { messages: 1_000 },
        ops: 1_000,
    },
    append("append-single", 1, Durability::Sync, 1_000),
    append("append-batch-10", 10, Durability::Sync, 1_000),
    append("append-batch-100", 100, Durability::Sync, 500),
    append("append-batch-1000", 1_000, Durability::Sync, 200),
    append("append-batch-10000", 10_000, Durability::Sync, 50),
];

const fn append(name: &'static str, messages: usize, durability: Durability, ops: u64) -> Case {
    Case { suite: "log", name, durability, operation: Operation::Append { messages }, ops }
}
