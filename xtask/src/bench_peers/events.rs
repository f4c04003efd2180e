//! `cargo xtask bench-peers events`: Quire beside the event store that it replaces, UmaDB, on this machine and this disk.
//!
//! ```text
//! rounds: each load on one, then on the other, and next time the other way round ─▶ table
//! ```
//! A load is a case of `quire bench events`, and the case of that name of `umadb-load` (`xtask/peers/umadb`), each with a folder of its own that is
//! removed afterwards: the same events, tags and conditions, server and clients in one process. Both sync before they answer, which UmaDB
//! always does. What can't be built is named, and left out. It says what it measured, and writes it nowhere.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::loads::measured;
use super::options::Options;
use super::results::{Measured, Results};
use super::{Durability, output, remove};
use crate::test::{in_root, succeed};
use crate::workspace::Workspace;

const UMADB: &str = "xtask/peers/umadb/Cargo.toml";

/// A load.
#[derive(Debug)]
struct Load {
    /// Of the case, in both programs.
    name: &'static str,
    /// What the case of Quire promises; reads write nothing.
    durability: Durability,
    /// How many operations a round: of Quire, and of UmaDB, which may be slower by so much that its round would take minutes.
    ops: [u64; 2],
}

/// All loads.
const LOADS: &[Load] = &[
    load("append-single", Durability::Sync, [8_000, 8_000]),
    load("grpc-append-clients-1", Durability::Sync, [4_000, 4_000]),
    load("grpc-append-clients-16", Durability::Sync, [32_000, 32_000]),
    load("grpc-append-clients-64", Durability::Sync, [64_000, 64_000]),
    load("grpc-append-if-clients-1", Durability::Sync, [4_000, 4_000]),
    load("grpc-append-if-clients-16", Durability::Sync, [32_000, 32_000]),
    load("grpc-append-if-clients-64", Durability::Sync, [64_000, 64_000]),
    load("grpc-append-100-clients-16", Durability::Sync, [8_000, 8_000]),
    load("grpc-read-tag-10-clients-1", Durability::Os, [10_000, 10_000]),
    load("grpc-read-tag-10-clients-16", Durability::Os, [40_000, 40_000]),
    load("grpc-read-all", Durability::Os, [30, 30]),
    load("disk", Durability::Os, [1_000_000, 200_000]),
    // UmaDB's has a tenth of the events.
    load("append-if-type-absent", Durability::Os, [20_000, 10]),
];

const fn load(name: &'static str, durability: Durability, ops: [u64; 2]) -> Load {
    Load { name, durability, ops }
}

/// A store, and the program that loads it.
#[derive(Debug)]
struct Store {
    name: &'static str,
    program: PathBuf,
}

/// Runs the rounds, and prints the table.
///
/// # Errors
/// On a flag that there is not, or that leaves nothing to do; when Quire does not build, or a load fails.
pub(crate) fn run(workspace: &Workspace, flags: &[String]) -> Result<(), String> {
    let options = Options::parse("events", flags, LOADS.iter().map(|load| (load.name, load.durability)))?;
    succeed(&mut in_root(workspace, &["build", "--release", "-p", "quire-cli"]))?;
    let mut stores = vec![Store { name: "quire", program: workspace.target.join("release/quire") }];
    match umadb(workspace) {
        Ok(program) => stores.push(Store { name: "umadb", program }),
        Err(why) => {
            println!("SKIPPED UmaDB: {why} (its messages are made by protoc, of Debian's package protobuf-compiler)")
        }
    }
    let folder = workspace.target.join("bench-peers");
    let mut results = Results::beside("umadb");
    for round in 0..options.rounds {
        for load in LOADS.iter().filter(|load| options.wants(load.name, load.durability)) {
            for store in &stores {
                remove(&folder)?;
                let measured = load.run(store, &folder)?;
                let kept = load.durability.name();
                println!("round {}: {:<27} {kept:<5} {:<6} {measured}", round + 1, load.name, store.name);
                results.add(load.name, load.durability, store.name, measured);
            }
        }
        // Whoever was first is last.
        stores.reverse();
    }
    remove(&folder)?;
    print!("\n{results}");
    println!("\ngo-crablet is not among them: it needs a PostgreSQL server, which this does not install.");
    Ok(())
}

fn umadb(workspace: &Workspace) -> Result<PathBuf, String> {
    let target = workspace.target.join("umadb-load");
    let mut build = in_root(workspace, &["build", "--release", "--locked", "--manifest-path", UMADB]);
    succeed(build.arg("--target-dir").arg(&target)).map(|()| target.join("release/umadb-load"))
}

impl Load {
    fn run(&self, store: &Store, folder: &Path) -> Result<Measured, String> {
        let mut command = Command::new(&store.program);
        if store.name == "quire" {
            let ops = self.ops[0].to_string();
            command.args(["bench", "events", "--json", "--case", self.name, "--ops", &ops]);
            command.args(["--durability", self.durability.name(), "--data"]).arg(folder);
            std::fs::create_dir_all(folder).map_err(|error| format!("could not make {}: {error}", folder.display()))?;
        } else {
            command.arg(self.name).arg(folder).arg(self.ops[1].to_string());
        }
        let said = output(&mut command).map_err(|error| format!("{} on {}: {error}", self.name, store.name))?;
        let of_case = format!("\"case\":\"{}\"", self.name);
        let line = said.lines().find(|line| line.contains(&of_case));
        line.and_then(measured).ok_or_else(|| format!("{} on {} said: {said}", self.name, store.name))
    }
}
