//! The suite `jobs`: the whole life of jobs, embedded and over gRPC, their delays, and the memory
//! of pending jobs.

mod embedded;
mod http;
mod remote;
mod skewed;

use quire::Durability;

pub(super) use self::remote::stream_life_at;

use super::case::{Case, CaseRun};
use super::measurement::CaseResult;
use quire_cli::failure::Result;

/// The payload of a job, in bytes.
const PAYLOAD_BYTES: usize = 100;

/// The cases, in the order in which they run.
pub(super) const CASES: &[Case] = &[
    case("life", "enqueue, fetch and ack a job", Durability::Os, 300_000, embedded::life),
    Case { batch: 64, ..case("life-64", "enqueue, fetch and ack 64 jobs", Durability::Os, 30_000, embedded::life) },
    case("life", "enqueue, fetch and ack a job", Durability::Sync, 1_000, embedded::life),
    Case {
        clients: 10,
        ..case("fetch-ack", "fetch and ack a job, enqueued before", Durability::Sync, 20_000, embedded::fetch_ack)
    },
    case(
        "long-history",
        "enqueue, fetch and ack a job, behind 5,000,000 that are completed",
        Durability::Os,
        100_000,
        embedded::life_behind::<5_000_000>,
    ),
    case(
        "long-history-10k",
        "enqueue, fetch and ack a job, behind 10,000 that are completed",
        Durability::Os,
        100_000,
        embedded::life_behind::<10_000>,
    ),
    case(
        "long-history-1m",
        "enqueue, fetch and ack a job, behind 1,000,000 that are completed",
        Durability::Os,
        100_000,
        embedded::life_behind::<1_000_000>,
    ),
    case(
        "long-history-10m",
        "enqueue, fetch and ack a job, behind 10,000,000 that are completed",
        Durability::Os,
        100_000,
        embedded::life_behind::<10_000_000>,
    ),
    Case {
        clients: 4,
        batch: 100,
        ..case(
            "skewed",
            "fetch and ack 100 jobs, while 3 producers enqueue whose clocks are 5 s apart",
            Durability::Os,
            10_000,
            skewed::skewed,
        )
    },
    case("lateness", "how late a scheduled job is fetched", Durability::Os, 1_000, embedded::lateness),
    Case {
        batch: 64,
        ..case("pending", "enqueue 64 jobs that stay, with the memory taken", Durability::Os, 15_625, embedded::pending)
    },
    grpc("grpc-enqueue", 10, 1, Durability::Os, 100_000),
    grpc("grpc-enqueue", 10, 1, Durability::Sync, 40_000),
    grpc("grpc-enqueue-1000", 10, 1_000, Durability::Os, 2_000),
    Case {
        what: "fetch and ack a job over gRPC, enqueued before",
        run: remote::fetch_ack,
        ..grpc("grpc-fetch-ack", 10, 1, Durability::Sync, 20_000)
    },
    Case {
        what: "enqueue, be sent and ack 64 jobs on streams: 16 producers and 4 workers",
        run: remote::stream_life,
        ..grpc("stream-life-64", 20, 64, Durability::Os, 20_000)
    },
    Case {
        what: "enqueue, be sent and ack 64 jobs on streams: 16 producers and 4 workers",
        run: remote::stream_life,
        ..grpc("stream-life-64", 20, 64, Durability::Sync, 10_000)
    },
    Case {
        what: "at 100,000 jobs a second: from when 64 jobs are due to be produced until a worker's ack is answered",
        run: remote::stream_paced,
        ..grpc("stream-paced-64", 20, 64, Durability::Os, 4_000)
    },
    Case {
        what: "at 50,000 jobs a second: from when 64 jobs are due to be produced until a worker's ack is answered",
        run: remote::stream_paced,
        ..grpc("stream-paced-64", 20, 64, Durability::Sync, 2_000)
    },
    Case {
        what: "from the enqueue of a job to an idle worker that polls over HTTP",
        run: http::pick_up,
        ..grpc("http-pick-up", 1, 1, Durability::Os, 2_000)
    },
    Case {
        what: "from the enqueue of a job to an idle worker, on a stream",
        run: remote::pick_up,
        ..grpc("stream-pick-up", 1, 1, Durability::Os, 2_000)
    },
];

const fn case(
    name: &'static str,
    what: &'static str,
    durability: Durability,
    ops: u64,
    run: fn(&CaseRun<'_>) -> Result<CaseResult>,
) -> Case {
    let payload_bytes = PAYLOAD_BYTES;
    Case { suite: "jobs", name, what, durability, payload_bytes, clients: 1, processes: 1, batch: 1, ops, run }
}

const fn grpc(name: &'static str, clients: u32, batch: usize, durability: Durability, ops: u64) -> Case {
    let what = "enqueue jobs over gRPC, each client waiting until they are kept";
    Case { clients, batch, ..case(name, what, durability, ops, remote::enqueue) }
}
