//! `cargo xtask bench-peers log`: embedded Quire next to other stores that programs keep a log in:
//! Chronicle Queue, fjall, redb and SQLite.
//!
//! Entries have 116 bytes. `os` entries survive the death of a process, `sync` entries survive a
//! power loss. Each store has the setting that its documentation gives for it, and no load where it
//! has none.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Durability;
use super::suite::{self, Begin, Load, Stores};
use crate::maven;
use crate::test::succeed;
use crate::workspace::Workspace;

const CHRONICLE: &str = "xtask/peers/chronicle";

/// The virtual machine's options according to Chronicle Queue's documentation, and no analytics.
const JAVA: [&str; 10] = [
    "-Dchronicle.analytics.disable=true",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=jdk.unsupported/sun.misc=ALL-UNNAMED",
    "--add-exports=jdk.compiler/com.sun.tools.javac.file=ALL-UNNAMED",
    "--add-opens=jdk.compiler/com.sun.tools.javac=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
];

/// All loads. Redb has no appends without a sync, and Chronicle Queue never waits for the disk.
const LOADS: &[Load] = &[
    load("append-single", Durability::Os, 500_000, &[("chronicle", 500_000), ("fjall", 200_000), ("sqlite", 100_000)]),
    load("append-batch-100", Durability::Os, 20_000, &[("chronicle", 20_000), ("fjall", 5_000), ("sqlite", 5_000)]),
    load("append-batch-1000", Durability::Os, 2_000, &[("chronicle", 2_000), ("fjall", 500), ("sqlite", 500)]),
    load(
        "read-back",
        Durability::Os,
        1_000,
        &[("chronicle", 1_000), ("fjall", 1_000), ("redb", 1_000), ("sqlite", 1_000)],
    ),
    load(
        "random-read-1m",
        Durability::Os,
        500_000,
        &[("chronicle", 100_000), ("fjall", 200_000), ("redb", 200_000), ("sqlite", 200_000)],
    ),
    load("append-single", Durability::Sync, 5_000, &[("fjall", 5_000), ("redb", 2_000), ("sqlite", 5_000)]),
    load("append-batch-100", Durability::Sync, 5_000, &[("fjall", 5_000), ("redb", 1_000), ("sqlite", 5_000)]),
    load("append-batch-1000", Durability::Sync, 1_000, &[("fjall", 500), ("redb", 200), ("sqlite", 500)]),
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
    suite::run(workspace, "log", flags, LOADS, || {
        let mut stores = Stores::default();
        stores.add(suite::QUIRE, Ok(suite::quire(workspace, "log")?));
        stores.add("chronicle", chronicle(workspace));
        let program = suite::rust_program(workspace, "embedded");
        let settings = [
            ("fjall", "3.1.13; os: as it comes; sync: PersistMode::SyncData behind each write"),
            ("redb", "4.6.0; sync: Durability::Immediate; it has nothing that is os"),
            ("sqlite", "as rusqlite 0.42.0 brings it; WAL, os: synchronous=OFF, sync: FULL; 256 MiB of cache, mapped"),
        ];
        for (name, settings) in settings {
            stores.add(name, program.clone().map(|program| (settings, embedded(program, name))));
        }
        stores.add("comet", Err(suite::refused_module(workspace, "github.com/orbiterhq/comet")));
        Ok(stores)
    })
}

/// A store of the program for embedded stores.
pub(super) fn embedded(program: PathBuf, store: &'static str) -> Begin {
    Box::new(move |load: &Load, ops: u64, folder: &Path| {
        let mut command = Command::new(&program);
        command.args([store, load.name, load.durability.name()]).arg(folder).arg(ops.to_string());
        Ok((command, None))
    })
}

fn chronicle(workspace: &Workspace) -> Result<(&'static str, Begin), String> {
    let jars = maven::jars(workspace, &format!("{CHRONICLE}/pom.xml"), "chronicle-queue")?.join("*");
    let classes = workspace.target.join("chronicle-load");
    let source = workspace.root.join(CHRONICLE).join("Load.java");
    succeed(Command::new("javac").arg("-d").arg(&classes).arg("-cp").arg(&jars).arg(source))?;
    let mut path = jars.into_os_string();
    path.push(":");
    path.push(&classes);
    let begin = move |load: &Load, ops: u64, folder: &Path| {
        let mut command = Command::new("java");
        command.args(JAVA).arg("-cp").arg(&path).args(["Load", load.name]).arg(folder.join("queue"));
        command.arg(ops.to_string());
        Ok((command, None))
    };
    Ok(("2026.4; os: as it comes; it has nothing that waits for the disk", Box::new(begin)))
}
