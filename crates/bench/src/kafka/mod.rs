//! The suite `kafka`: a broker under load over the wire.
//!
//! Unless the user names a broker, each case starts its own. The load generator and the broker
//! share the machine.

mod broker;
mod consume;
mod produce;
mod wire;

use quire::Durability;

use self::broker::BenchBroker;
use super::case::{Case, CaseRun};
use super::measurement::CaseResult;
use quire_cli::failure::Result;
use quire_cli::threads;

/// The case that starts brokers itself, also when the user names one.
pub(super) const COLD_START: &str = "cold-start";

const PRODUCE_BEHIND: &str = "produce a message and wait for the answer, acks=all, behind as many as the name says";
const FETCH_AMONG: &str = "fetch a batch anywhere in a partition of as many messages as the name says";

/// Messages per batch while a partition is filled.
const FILL_BATCH: usize = 1_000;

/// The cases, in the order in which they run.
pub(super) const CASES: &[Case] = &[
    case("produce-128", Durability::Os, 128, 1, 200_000),
    case("produce-128", Durability::Sync, 128, 1, 100_000),
    case("produce-1", Durability::Os, 1, 1, 20_000),
    Case {
        what: "produce a batch, with five requests in flight",
        run: produce::ahead,
        ..case("produce-ahead", Durability::Os, 1, 100, 50_000)
    },
    Case {
        what: "produce a batch, with five requests in flight",
        run: produce::ahead,
        ..case("produce-ahead", Durability::Sync, 1, 100, 10_000)
    },
    Case {
        what: "fetch the next batch, from the start of a partition",
        run: consume::from_the_start,
        ..case("consume", Durability::Os, 1, 1_000, 4_000)
    },
    grown("produce-1-10k", PRODUCE_BEHIND, 1, 20_000, produce::behind::<10_000>),
    grown("produce-1-1m", PRODUCE_BEHIND, 1, 20_000, produce::behind::<1_000_000>),
    grown("produce-1-10m", PRODUCE_BEHIND, 1, 20_000, produce::behind::<10_000_000>),
    grown("fetch-10k", FETCH_AMONG, 1_000, 4_000, consume::anywhere::<10_000>),
    grown("fetch-1m", FETCH_AMONG, 1_000, 4_000, consume::anywhere::<1_000_000>),
    grown("fetch-10m", FETCH_AMONG, 1_000, 4_000, consume::anywhere::<10_000_000>),
    Case {
        what: "a message from a producer to a waiting consumer, 4,000 a second",
        run: consume::end_to_end,
        ..case("end-to-end", Durability::Os, 2, 1, 20_000)
    },
    Case {
        what: "produce a message while 1,000 connections are idle",
        run: produce::beside_idle,
        ..case("produce-1-idle-1000", Durability::Os, 1, 1, 20_000)
    },
    Case {
        what: "produce a message to the next of 10,000 partitions",
        run: produce::to_many_partitions,
        ..case("partitions-10000", Durability::Os, 1, 1, 20_000)
    },
    Case {
        what: "start a broker until it has taken its first message",
        payload_bytes: 1,
        run: produce::cold_start,
        ..case(COLD_START, Durability::Sync, 1, 1, 20)
    },
];

const fn case(name: &'static str, durability: Durability, clients: u32, batch: usize, ops: u64) -> Case {
    Case {
        suite: "kafka",
        name,
        what: "produce a message and wait for the answer, acks=all",
        durability,
        payload_bytes: 256,
        clients,
        processes: 1,
        batch,
        ops,
        run: produce::in_step,
    }
}

const fn grown(
    name: &'static str,
    what: &'static str,
    batch: usize,
    ops: u64,
    run: fn(&CaseRun<'_>) -> Result<CaseResult>,
) -> Case {
    Case { what, run, ..case(name, Durability::Os, 1, batch, ops) }
}

/// Produces with one message in flight on each connection.
///
/// # Errors
/// The error of a client.
pub(super) fn produce_in_step(run: &CaseRun<'_>) -> Result<CaseResult> {
    produce::in_step(run)
}

/// The name of a topic that no earlier run has used on this broker.
fn topic(run: &CaseRun<'_>) -> String {
    format!("bench-{}-{}-{}", run.case.name, run.case.durability, std::process::id())
}

/// Runs the load on this thread. A client with threads of its own would take the broker's
/// processors.
fn on_runtime<T>(load: impl Future<Output = Result<T>>) -> Result<T> {
    threads::only_this()?.block_on(load)
}

/// Adds the memory of the broker.
fn finished(measured: CaseResult, broker: &BenchBroker) -> CaseResult {
    match broker.memory_bytes() {
        Some(bytes) => measured.with("memory_bytes", bytes),
        None => measured,
    }
}
