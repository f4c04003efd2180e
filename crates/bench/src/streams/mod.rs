//! The suite `streams`: embedded consumers.

mod handoff;
mod process;

use quire::Durability;

use super::case::{Case, CaseRun};
use super::measurement::CaseResult;
use quire_cli::failure::Result;

pub(super) use handoff::Handler;

const PROCESS: &str = "hand the next batch of messages to a handler, and commit the offset";
const PROCESS_BEHIND: &str =
    "hand the next batch of messages to a handler, and commit the offset, behind as many as the name says";

/// The cases, in the order in which they run.
pub(super) const CASES: &[Case] = &[
    process("process", PROCESS, 10_000, process::process::<0>),
    process("process-10k", PROCESS_BEHIND, 1_000, process::process::<10_000>),
    process("process-1m", PROCESS_BEHIND, 1_000, process::process::<1_000_000>),
    process("process-10m", PROCESS_BEHIND, 1_000, process::process::<10_000_000>),
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

const fn process(
    name: &'static str,
    what: &'static str,
    ops: u64,
    run: fn(&CaseRun<'_>) -> Result<CaseResult>,
) -> Case {
    Case {
        suite: "streams",
        name,
        what,
        durability: Durability::Os,
        payload_bytes: 116,
        clients: 1,
        processes: 1,
        batch: 1_000,
        ops,
        run,
    }
}

const TOPIC: &str = "bench";
