//! The suite `cluster`: three servers of one cluster, or one server alone, under the same load.
//!
//! The servers are processes of this machine, on one disk. The load asks the leader. `--nodes 1`
//! measures a server alone, with which a cluster is compared.

mod load;
mod nodes;

use quire::Durability;

use super::case::{Case, CaseRun};
use super::measurement::CaseResult;
use quire_cli::failure::Result;

/// The cases, in the order in which they run.
pub(super) const CASES: &[Case] = &[
    case("put-1", PUT, 1, 4_000, load::put),
    case("put-128", PUT, 128, 100_000, load::put),
    case("put-1000", PUT, 1_000, 200_000, load::put),
    case("kafka-produce-128", "produce a message over the Kafka protocol, acks=all", 128, 100_000, load::produce),
    Case {
        batch: 64,
        payload_bytes: 100,
        ..case("job-streams", "enqueue, be sent and ack 64 jobs on streams", 20, 6_000, load::jobs)
    },
    case("read", "read the head of a store over HTTP, linearizable", 1, 5_000, load::read),
    case(
        "read-local",
        "read the head of a store over HTTP, from the records of the leader",
        1,
        5_000,
        load::read_local,
    ),
];

const PUT: &str = "append an event over gRPC, each client waiting until it is acknowledged";

const fn case(
    name: &'static str,
    what: &'static str,
    clients: u32,
    ops: u64,
    run: fn(&CaseRun<'_>) -> Result<CaseResult>,
) -> Case {
    Case {
        suite: "cluster",
        name,
        what,
        durability: Durability::Sync,
        payload_bytes: 256,
        clients,
        processes: 1,
        batch: 1,
        ops,
        run,
    }
}
