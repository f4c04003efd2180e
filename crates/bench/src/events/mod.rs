//! The suite `events`. Embedded: plain, conditional and refused appends, reads, projections, the
//! course data set, disk space. Over gRPC: appends and reads. Over HTTP: appends.

mod dataset;
mod disk;
mod embedded;
mod http;
mod remote;

pub(crate) use dataset::Dataset;
use quire::Durability;

use super::case::{Case, CaseRun};
use super::measurement::CaseResult;
use quire_cli::failure::Result;

/// The default payload of an event, in bytes.
const PAYLOAD_BYTES: usize = 100;

const READ_1: &str = "read the one event of a tag, in place";
const READ_1_OF_MANY: &str = "read the one event of a tag, in place, of as many events as the name says";
const READ_50: &str = "read the 50 events of a tag, in place";
const READ_50_OF_MANY: &str = "read the 50 events of a tag, in place, of as many events as the name says";

/// The cases, in the order in which they run.
pub(super) const CASES: &[Case] = &[
    case("append-single", "append an event with 3 tags", Durability::Os, 500_000, embedded::append),
    case(
        "append-if-new",
        "append an event with 3 tags, unless its name was claimed before: 10,000 events in the store, and those appended",
        Durability::Os,
        200_000,
        embedded::append_if_new::<10_000>,
    ),
    case(
        "append-if-unchanged",
        "append an event with 3 tags, if nothing has matched since the last",
        Durability::Os,
        200_000,
        embedded::append_if_unchanged,
    ),
    case("append-refused", "be refused for a name that was claimed", Durability::Os, 200_000, embedded::append_refused),
    case(
        "append-if-type-absent",
        "append under a condition on a type that no event has: 5,000,000 events in the store",
        Durability::Os,
        20_000,
        embedded::append_if_type_absent,
    ),
    case(
        "append-if-new-1m",
        "append an event with 3 tags, unless its name was claimed before: 1,000,000 events in the store",
        Durability::Os,
        200_000,
        embedded::append_if_new::<1_000_000>,
    ),
    case(
        "append-if-new-10m",
        "append an event with 3 tags, unless its name was claimed before: 10,000,000 events in the store",
        Durability::Os,
        200_000,
        embedded::append_if_new::<10_000_000>,
    ),
    case("append-single", "append an event with 3 tags", Durability::Sync, 2_000, embedded::append),
    Case {
        clients: 16,
        ..case("append-threads-16", "append an event with 3 tags", Durability::Sync, 40_000, embedded::append_threads)
    },
    case("disk", "append an event with 2 tags, then compact", Durability::Os, 1_000_000, disk::after_compaction),
    case(Dataset::Tiny.case(), "append the course data set of 31 events", Durability::Os, 31, embedded::load),
    case(Dataset::Small.case(), "append the course data set of 60,869 events", Durability::Os, 60_869, embedded::load),
    case(
        Dataset::Large.case(),
        "append the course data set of 6,086,900 events",
        Durability::Os,
        6_086_900,
        embedded::load,
    ),
    case("read-tag-1", READ_1, Durability::Os, 100_000, embedded::read_tag::<1, 1_000>),
    case("read-tag-1-10k", READ_1_OF_MANY, Durability::Os, 100_000, embedded::read_tag::<1, 10_000>),
    case("read-tag-1-1m", READ_1_OF_MANY, Durability::Os, 100_000, embedded::read_tag::<1, 1_000_000>),
    case("read-tag-1-10m", READ_1_OF_MANY, Durability::Os, 100_000, embedded::read_tag::<1, 10_000_000>),
    case("read-tag-50", READ_50, Durability::Os, 50_000, embedded::read_tag::<50, 50_000>),
    case("read-tag-50-10k", READ_50_OF_MANY, Durability::Os, 50_000, embedded::read_tag::<50, 10_000>),
    case("read-tag-50-1m", READ_50_OF_MANY, Durability::Os, 50_000, embedded::read_tag::<50, 1_000_000>),
    case("read-tag-50-10m", READ_50_OF_MANY, Durability::Os, 50_000, embedded::read_tag::<50, 10_000_000>),
    case(
        "project-2-over-50",
        "project two projections over the 50 events of a tag",
        Durability::Os,
        50_000,
        embedded::project,
    ),
    over_grpc("grpc-append-clients-1", 1, 1, 2_000),
    over_grpc("grpc-append-clients-16", 16, 1, 20_000),
    over_grpc("grpc-append-clients-64", 64, 1, 40_000),
    over_grpc("grpc-append-100-clients-16", 16, 100, 4_000),
    if_unclaimed("grpc-append-if-clients-1", 1, 2_000),
    if_unclaimed("grpc-append-if-clients-16", 16, 20_000),
    if_unclaimed("grpc-append-if-clients-64", 64, 40_000),
    Case {
        what: "read the 10 events of a tag over gRPC",
        durability: Durability::Os,
        run: remote::read_tag,
        ..over_grpc("grpc-read-tag-10-clients-1", 1, 10, 10_000)
    },
    Case {
        what: "read the 10 events of a tag over gRPC",
        durability: Durability::Os,
        run: remote::read_tag,
        ..over_grpc("grpc-read-tag-10-clients-16", 16, 10, 40_000)
    },
    Case {
        what: "read 100,000 events over gRPC",
        durability: Durability::Os,
        run: remote::read_all,
        ..over_grpc("grpc-read-all", 1, 100_000, 10)
    },
    Case {
        clients: 50,
        ..case(
            "http-append-if-clients-50",
            "append an event over HTTP, unless its name was claimed before; server and clients in one process",
            Durability::Os,
            100_000,
            http::append_if,
        )
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
    Case { suite: "events", name, what, durability, payload_bytes, clients: 1, processes: 1, batch: 1, ops, run }
}

const fn over_grpc(name: &'static str, clients: u32, batch: usize, ops: u64) -> Case {
    let what = "append events over gRPC, each client waiting until they are kept";
    Case { clients, batch, ..case(name, what, Durability::Sync, ops, remote::append) }
}

const fn if_unclaimed(name: &'static str, clients: u32, ops: u64) -> Case {
    let what = "append an event over gRPC, unless its name was claimed before";
    Case { what, run: remote::append_if, ..over_grpc(name, clients, 1, ops) }
}
