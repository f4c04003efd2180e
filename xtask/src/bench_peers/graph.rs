//! `cargo xtask bench-peers graph`: embedded Quire next to SQLite with a table of nodes and one of
//! edges, on the same blocks and edges.

use super::Durability;
use super::log::embedded;
use super::suite::{self, Load, Stores};
use crate::workspace::Workspace;

const SETTINGS: &str = "as rusqlite 0.42.0 brings it; WAL, os: synchronous=OFF, sync: FULL; 256 MiB of cache, mapped; edges by source and by \
                        target; walks by a prepared statement and a set";

/// All loads.
const LOADS: &[Load] = &[
    load("block-put-1k", Durability::Os, 300_000, &[("sqlite", 50_000)]),
    load("block-put-100k", Durability::Os, 300_000, &[("sqlite", 50_000)]),
    load("block-put-1k", Durability::Sync, 5_000, &[("sqlite", 5_000)]),
    load("block-read-100k", Durability::Os, 20_000, &[("sqlite", 2_000)]),
    load("edge-put-100k", Durability::Os, 500_000, &[("sqlite", 50_000)]),
    load("edge-lookup-100k", Durability::Os, 20_000, &[("sqlite", 2_000)]),
    load("hop-100k", Durability::Os, 20_000, &[("sqlite", 2_000)]),
    load("walk-depth-5", Durability::Os, 5_000, &[("sqlite", 300)]),
    load("walk-all-100k", Durability::Os, 50, &[("sqlite", 5)]),
];

const fn load(name: &'static str, durability: Durability, ours: u64, theirs: &'static [(&'static str, u64)]) -> Load {
    Load { name, durability, ours, theirs }
}

/// Runs the rounds, and prints the table.
///
/// # Errors
/// For an unknown flag, or when the flags leave no load; when Quire does not build, or a load
/// fails.
pub(crate) fn run(workspace: &Workspace, flags: &[String]) -> Result<(), String> {
    suite::run(workspace, "graph", flags, LOADS, || {
        let mut stores = Stores::default();
        stores.add(suite::QUIRE, Ok(suite::quire(workspace, "graph")?));
        let program = suite::rust_program(workspace, "embedded");
        stores.add("sqlite", program.map(|program| (SETTINGS, embedded(program, "sqlite"))));
        // A program in Zig, which is installed from its source.
        stores.add("kausaldb", Err("no public registry of packages has it".to_owned()));
        Ok(stores)
    })
}
