//! The suite `log`: what a commit costs, and a read of what was committed.

mod append;
mod threads;

use super::case::Case;
use quire::Durability;

/// The payload of an entry unless a case says otherwise, in bytes: an event's usual size, and the one that other logs are
/// compared at.
const PAYLOAD_BYTES: usize = 116;

/// The cases, in the order in which they run.
pub(super) const CASES: &[Case] = &[
    append("append-single", 1, Durability::Os, 500_000),
    append("append-batch-10", 10, Durability::Os, 100_000),
    append("append-batch-100", 100, Durability::Os, 20_000),
    append("append-batch-1000", 1_000, Durability::Os, 2_000),
    append("append-batch-10000", 10_000, Durability::Os, 300),
    Case {
        what: "fetch the next batch of messages, copied out",
        run: append::read_back,
        ..append("read-back", 1_000, Durability::Os, 1_000)
    },
    append("append-single", 1, Durability::Sync, 1_000),
    append("append-batch-10", 10, Durability::Sync, 1_000),
    append("append-batch-100", 100, Durability::Sync, 500),
    append("append-batch-1000", 1_000, Durability::Sync, 200),
    append("append-batch-10000", 10_000, Durability::Sync, 50),
    threads("append-threads-2", 2, Durability::Os, 200_000),
    threads("append-threads-4", 4, Durability::Os, 200_000),
    threads("append-threads-8", 8, Durability::Os, 200_000),
    threads("append-threads-2", 2, Durability::Sync, 2_000),
    threads("append-threads-8", 8, Durability::Sync, 5_000),
    threads("append-threads-128", 128, Durability::Sync, 50_000),
];

const fn threads(name: &'static str, clients: u32, durability: Durability, ops: u64) -> Case {
    Case {
        what: "produce one message and wait until it is kept, in several threads",
        clients,
        run: threads::append,
        ..append(name, 1, durability, ops)
    }
}

const fn append(name: &'static str, batch: usize, durability: Durability, ops: u64) -> Case {
    Case {
        suite: "log",
        name,
        what: "produce a batch of messages and wait until it is kept",
        durability,
        payload_bytes: PAYLOAD_BYTES,
        clients: 1,
        processes: 1,
        batch,
        ops,
        run: append::append,
    }
}
