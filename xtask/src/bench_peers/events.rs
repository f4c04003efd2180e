//! `cargo xtask bench-peers events`: Quire next to the event store UmaDB, on this machine and this
//! disk.
//!
//! ```text
//! rounds: each load on one, then on the other, and next time the other way round ─▶ table
//! ```
//! A load is a case of `quire-bench events`, and the case of that name of `umadb-load`
//! (`xtask/peers/umadb`). Both use the same events, tags and conditions, with server and clients in
//! one process. Each run has its own directory, which is removed afterwards. Both sync before they
//! answer, which UmaDB always does. A program that can't be built is reported and skipped. The
//! report is printed only.

use std::path::Path;
use std::process::Command;

use super::Durability;
use super::servers;
use super::suite::{self, Begin, Load, Stores};
use crate::workspace::Workspace;

/// All loads.
const LOADS: &[Load] = &[
    load("append-single", Durability::Sync, 8_000, &[("umadb", 8_000)]),
    load("grpc-append-clients-1", Durability::Sync, 4_000, &[("umadb", 4_000)]),
    load("grpc-append-clients-16", Durability::Sync, 32_000, &[("umadb", 32_000)]),
    load("grpc-append-clients-64", Durability::Sync, 64_000, &[("umadb", 64_000)]),
    load("grpc-append-if-clients-1", Durability::Sync, 4_000, &[("umadb", 4_000)]),
    load("grpc-append-if-clients-16", Durability::Sync, 32_000, &[("umadb", 32_000)]),
    load("grpc-append-if-clients-64", Durability::Sync, 64_000, &[("umadb", 64_000)]),
    load("grpc-append-100-clients-16", Durability::Sync, 8_000, &[("umadb", 8_000)]),
    load("grpc-read-tag-10-clients-1", Durability::Os, 10_000, &[("umadb", 10_000)]),
    load("grpc-read-tag-10-clients-16", Durability::Os, 40_000, &[("umadb", 40_000)]),
    load("grpc-read-all", Durability::Os, 30, &[("umadb", 30)]),
    load("disk", Durability::Os, 1_000_000, &[("umadb", 200_000)]),
    // UmaDB's case has a tenth of the events.
    load("append-if-type-absent", Durability::Os, 20_000, &[("umadb", 10)]),
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
    suite::run(workspace, "events", flags, LOADS, || {
        let mut stores = Stores::default();
        stores.add(suite::QUIRE, Ok(suite::quire(workspace, "events")?));
        stores.add("umadb", umadb(workspace));
        stores.add("go-crablet", Err(suite::refused_module(workspace, "github.com/rodolfodpk/go-crablet")));
        Ok(stores)
    })
}

fn umadb(workspace: &Workspace) -> Result<(&'static str, Begin), String> {
    servers::protoc_program()?;
    let program = suite::rust_program(workspace, "umadb")?;
    let begin = move |load: &Load, ops: u64, folder: &Path| {
        let mut command = Command::new(&program);
        command.arg(load.name).arg(folder).arg(ops.to_string());
        Ok((command, None))
    };
    Ok(("0.7.8, default settings: it always syncs before it answers", Box::new(begin)))
}
