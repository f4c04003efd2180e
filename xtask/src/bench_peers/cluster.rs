//! `cargo xtask bench-peers cluster`: three nodes of Quire next to one server of Quire alone, three
//! members of etcd, and a stream of three replicas of NATS JetStream.
//!
//! All servers run on this machine, on one disk. Each member syncs before it acknowledges. A load
//! asks the leader. Payloads have 256 bytes.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Durability;
use super::suite::{self, Begin, Load, Stores};
use crate::test::succeed;
use crate::workspace::Workspace;

const FOLDER: &str = "xtask/peers/cluster";

/// All loads. Only Quire serves the Kafka protocol and jobs.
const LOADS: &[Load] = &[
    load("put-1", 4_000, &[("alone", 8_000), ("etcd", 1_500), ("jetstream", 1_500)]),
    load("put-128", 60_000, &[("alone", 100_000), ("etcd", 20_000), ("jetstream", 20_000)]),
    load("put-1000", 100_000, &[("alone", 200_000), ("etcd", 40_000), ("jetstream", 40_000)]),
    load("kafka-produce-128", 60_000, &[("alone", 100_000)]),
    load("job-streams", 3_000, &[("alone", 6_000)]),
    load("read", 5_000, &[("alone", 5_000)]),
    load("read-local", 5_000, &[("alone", 5_000)]),
];

const fn load(name: &'static str, ours: u64, theirs: &'static [(&'static str, u64)]) -> Load {
    Load { name, durability: Durability::Sync, ours, theirs }
}

/// Runs the rounds, and prints the table.
///
/// # Errors
/// For an unknown flag, or when the flags leave no load; when Quire does not build, or a load
/// fails.
pub(crate) fn run(workspace: &Workspace, flags: &[String]) -> Result<(), String> {
    suite::run(workspace, "cluster", flags, LOADS, || {
        let mut stores = Stores::default();
        let (_, three) = suite::quire(workspace, "cluster")?;
        stores.add(suite::QUIRE, Ok(("three nodes", three)));
        let (_, cluster) = suite::quire(workspace, "cluster")?;
        let alone: Begin = Box::new(move |load, ops, folder| {
            let (mut command, server) = cluster(load, ops, folder)?;
            command.args(["--nodes", "1"]);
            Ok((command, server))
        });
        stores.add("alone", Ok(("one server of Quire, of the same build", alone)));
        let program = program(workspace);
        let etcd = "3.7.3, three members in the process of its clients; each put has a key of its own";
        stores.add("etcd", program.clone().map(|program| (etcd, peer(program, "etcd"))));
        let jetstream = "2.15.2, three servers in the process of their clients; three replicas, sync_interval always";
        stores.add("jetstream", program.map(|program| (jetstream, peer(program, "jetstream"))));
        Ok(stores)
    })
}

/// Built by Go, with the modules of `go.sum`.
fn program(workspace: &Workspace) -> Result<PathBuf, String> {
    let program = workspace.target.join("cluster-load");
    let mut build = Command::new("go");
    // Uses the installed toolchain, whatever a module requests.
    build.args(["build", "-o"]).arg(&program).arg(".").env("GOTOOLCHAIN", "local");
    succeed(build.current_dir(workspace.root.join(FOLDER)))?;
    Ok(program)
}

fn peer(program: PathBuf, store: &'static str) -> Begin {
    Box::new(move |load: &Load, ops: u64, folder: &Path| {
        let mut command = Command::new(&program);
        command.args([store, load.name, load.durability.name(), &ops.to_string()]).arg(folder);
        Ok((command, None))
    })
}
