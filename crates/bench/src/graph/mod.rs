//! The suite `graph`: blocks, edges and walks with a thousand up to ten million blocks, to show the
//! effect of size.

mod blocks;
mod edges;
mod made;
mod walks;

use quire::Durability;

use super::case::{Case, CaseRun};
use super::measurement::CaseResult;
use quire_cli::failure::Result;

/// The content of a block, in bytes.
const PAYLOAD_BYTES: usize = 1_024;

/// The content of a block in a large graph, in bytes.
const SMALL_BYTES: usize = 16;

/// Memory accesses per operation. A single access takes as long as reading the clock.
const LOOKS: usize = 100;

const THOUSAND: u64 = 1_000;
const TEN_THOUSAND: u64 = 10_000;
const HUNDRED_THOUSAND: u64 = 100_000;
const MILLION: u64 = 1_000_000;
const TEN_MILLION: u64 = 10_000_000;

const PUT: &str = "put a new block, beside as many as the name says";
const READ: &str = "read a block in place, of as many as the name says";
const PUT_EDGE: &str = "put an edge between two of as many blocks as the name says, both looked for";
const LOOK_UP: &str = "look up an edge among five to a block, of as many blocks as the name says";
const HOP: &str = "follow a block's first edge to the block where it arrives, of as many blocks as the name says";
const REOPEN: &str = "open a database that was closed in order, with as many blocks as the name says";
const WALK: &str = "walk breadth first through all blocks, as many as the name says, with five edges each";

/// The cases, in the order in which they run.
pub(super) const CASES: &[Case] = &[
    puts("block-put-1k", 300_000, blocks::put::<THOUSAND>),
    puts("block-put-10k", 300_000, blocks::put::<TEN_THOUSAND>),
    puts("block-put-100k", 300_000, blocks::put::<HUNDRED_THOUSAND>),
    puts("block-put-1m", 300_000, blocks::put::<MILLION>),
    puts("block-put-10m", 300_000, blocks::put::<TEN_MILLION>),
    Case { durability: Durability::Sync, ..puts("block-put-1k", 1_000, blocks::put::<THOUSAND>) },
    Case {
        what: "put a new block, each client waiting until its own is kept",
        durability: Durability::Sync,
        clients: 64,
        ..puts("block-put-threads-64", 50_000, blocks::put_in_threads)
    },
    looks("block-read-1k", READ, PAYLOAD_BYTES, 20_000, blocks::read::<THOUSAND>),
    looks("block-read-10k", READ, PAYLOAD_BYTES, 20_000, blocks::read::<TEN_THOUSAND>),
    looks("block-read-100k", READ, PAYLOAD_BYTES, 20_000, blocks::read::<HUNDRED_THOUSAND>),
    looks("block-read-1m", READ, SMALL_BYTES, 20_000, blocks::read::<MILLION>),
    looks("block-read-10m", READ, SMALL_BYTES, 20_000, blocks::read::<TEN_MILLION>),
    Case {
        batch: 1,
        ..looks(
            "block-read-cold",
            "read a block of a million that is only on disk",
            PAYLOAD_BYTES,
            500,
            blocks::read_cold,
        )
    },
    looks("block-absent", "look for a block that is not there, in 20 segments", PAYLOAD_BYTES, 20_000, blocks::absent),
    Case { what: "seal a segment of about a hundred blocks", batch: 100, ..puts("seal-100", 500, blocks::seal) },
    reopen("reopen-1k", 50, blocks::reopen::<THOUSAND>),
    reopen("reopen-100k", 20, blocks::reopen::<HUNDRED_THOUSAND>),
    reopen("reopen-10m", 3, blocks::reopen::<TEN_MILLION>),
    edge_puts("edge-put-1k", edges::put::<THOUSAND>),
    edge_puts("edge-put-10k", edges::put::<TEN_THOUSAND>),
    edge_puts("edge-put-100k", edges::put::<HUNDRED_THOUSAND>),
    edge_puts("edge-put-1m", edges::put::<MILLION>),
    edge_puts("edge-put-10m", edges::put::<TEN_MILLION>),
    Case {
        batch: 10_000,
        ..case(
            "star-delete",
            "delete 10,000 edges of a block, until of a million none is left",
            100,
            edges::delete_star,
        )
    },
    looks("edge-lookup-1k", LOOK_UP, 0, 20_000, edges::lookup::<THOUSAND>),
    looks("edge-lookup-10k", LOOK_UP, 0, 20_000, edges::lookup::<TEN_THOUSAND>),
    looks("edge-lookup-100k", LOOK_UP, 0, 20_000, edges::lookup::<HUNDRED_THOUSAND>),
    looks("edge-lookup-1m", LOOK_UP, 0, 20_000, edges::lookup::<MILLION>),
    looks("edge-lookup-10m", LOOK_UP, 0, 20_000, edges::lookup::<TEN_MILLION>),
    looks("hop-1k", HOP, 0, 20_000, edges::hop::<THOUSAND>),
    looks("hop-10k", HOP, 0, 20_000, edges::hop::<TEN_THOUSAND>),
    looks("hop-100k", HOP, 0, 20_000, edges::hop::<HUNDRED_THOUSAND>),
    looks("hop-1m", HOP, 0, 20_000, edges::hop::<MILLION>),
    looks("hop-10m", HOP, 0, 20_000, edges::hop::<TEN_MILLION>),
    case("walk-depth-5", "walk breadth first to depth 5, of 10,000 blocks with five edges each", 5_000, walks::near),
    case("walk-all-1k", WALK, 2_000, walks::whole::<THOUSAND>),
    case("walk-all-100k", WALK, 50, walks::whole::<HUNDRED_THOUSAND>),
    case("walk-all-10m", WALK, 3, walks::whole::<TEN_MILLION>),
];

const fn case(name: &'static str, what: &'static str, ops: u64, run: fn(&CaseRun<'_>) -> Result<CaseResult>) -> Case {
    let durability = Durability::Os;
    Case { suite: "graph", name, what, durability, payload_bytes: 0, clients: 1, processes: 1, batch: 1, ops, run }
}

const fn puts(name: &'static str, ops: u64, run: fn(&CaseRun<'_>) -> Result<CaseResult>) -> Case {
    Case { payload_bytes: PAYLOAD_BYTES, ..case(name, PUT, ops, run) }
}

const fn edge_puts(name: &'static str, run: fn(&CaseRun<'_>) -> Result<CaseResult>) -> Case {
    case(name, PUT_EDGE, 500_000, run)
}

const fn looks(
    name: &'static str,
    what: &'static str,
    payload_bytes: usize,
    ops: u64,
    run: fn(&CaseRun<'_>) -> Result<CaseResult>,
) -> Case {
    Case { payload_bytes, batch: LOOKS, ..case(name, what, ops, run) }
}

const fn reopen(name: &'static str, ops: u64, run: fn(&CaseRun<'_>) -> Result<CaseResult>) -> Case {
    Case { payload_bytes: SMALL_BYTES, ..case(name, REOPEN, ops, run) }
}
