//! The suite `streams`: embedded consumers.

mod handoff;
mod process;

use quire::Durability;

use super::case::Case;

pub(super) use handoff::Handler;

/// The cases, in the order in which they run.
pub(super) const CASES: &[Case] = &[
    Case {
        suite: "streams",
        name: "process",
        what: "hand the next batch of messages to a handler, and commit the offset",
        durability: Durability::Os,
        payload_bytes: 116,
        clients: 1,
        processes: 1,
        batch: 1_000,
        ops: 10_000,
        run: process::process,
    },
    Case {
        suite: "streams",
        name: "handoff",
        what: "a message from a producer to a handler that waits in another process",
        durability: Durability::Os,
        payload_bytes: 116,
        clients: 2,
        processes: 2,
        batch: 1,
        ops: 5_000,
        run: handoff::handoff,
    },
];

const TOPIC: &str = "bench";
