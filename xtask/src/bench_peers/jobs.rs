//! `cargo xtask bench-peers jobs`: Quire over gRPC next to River on PostgreSQL, asynq on Redis, and
//! a work queue of NATS JetStream.
//!
//! Payloads have 100 bytes. Ten clients enqueue, one job or a thousand at a time, and wait for the
//! answer. Workers fetch jobs that were enqueued before, and complete them. Each load starts with
//! an empty server.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Durability;
use super::servers;
use super::suite::{self, Begin, Load, Stores};
use crate::test::succeed;
use crate::workspace::Workspace;

const FOLDER: &str = "xtask/peers/jobs";

/// All loads. Asynq has no call that enqueues many jobs.
const LOADS: &[Load] = &[
    load("grpc-enqueue", Durability::Os, 100_000, &[("river", 20_000), ("asynq", 100_000), ("jetstream", 100_000)]),
    load("grpc-enqueue-1000", Durability::Os, 2_000, &[("river", 300), ("jetstream", 500)]),
    load("grpc-enqueue", Durability::Sync, 40_000, &[("river", 20_000), ("asynq", 20_000), ("jetstream", 20_000)]),
    load("grpc-fetch-ack", Durability::Sync, 20_000, &[("river", 20_000), ("asynq", 20_000), ("jetstream", 20_000)]),
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
    suite::run(workspace, "jobs", flags, LOADS, || {
        let mut stores = Stores::default();
        stores.add(suite::QUIRE, Ok(suite::quire(workspace, "jobs")?));
        let program = program(workspace);
        stores.add("river", program.clone().and_then(river));
        stores.add("asynq", program.clone().and_then(asynq));
        stores.add("jetstream", program.map(jetstream));
        Ok(stores)
    })
}

/// Built by Go, with the modules of `go.sum`.
fn program(workspace: &Workspace) -> Result<PathBuf, String> {
    let program = workspace.target.join("jobs-load");
    let mut build = Command::new("go");
    // Uses the installed toolchain, whatever a module requests.
    build.args(["build", "-o"]).arg(&program).arg(".").env("GOTOOLCHAIN", "local");
    succeed(build.current_dir(workspace.root.join(FOLDER)))?;
    Ok(program)
}

fn command(program: &Path, store: &str, load: &Load, ops: u64) -> Command {
    let mut command = Command::new(program);
    command.args([store, load.name, load.durability.name(), &ops.to_string()]);
    command
}

fn river(program: PathBuf) -> Result<(&'static str, Begin), String> {
    let postgres = servers::postgres_programs()?;
    let begin = move |load: &Load, ops: u64, folder: &Path| {
        let (server, url) = servers::postgres(&postgres, folder, load.durability)?;
        let mut command = command(&program, "river", load, ops);
        command.arg(url);
        Ok((command, Some(server)))
    };
    let settings = "0.51.1 on Debian's PostgreSQL; os: synchronous_commit=off, which keeps less: not what the last moments before the death of \
                    its process brought; sync: on; 256 MiB of shared buffers; a thousand by COPY; 200 workers, FetchCooldown 1 ms";
    Ok((settings, Box::new(begin)))
}

fn asynq(program: PathBuf) -> Result<(&'static str, Begin), String> {
    servers::redis_program()?;
    let begin = move |load: &Load, ops: u64, folder: &Path| {
        let (server, address) = servers::redis(folder, load.durability)?;
        let mut command = command(&program, "asynq", load, ops);
        command.arg(address);
        Ok((command, Some(server)))
    };
    let settings = "0.26.0 on Debian's Redis; appendonly, os: appendfsync everysec, sync: always; 200 workers; no call enqueues many";
    Ok((settings, Box::new(begin)))
}

fn jetstream(program: PathBuf) -> (&'static str, Begin) {
    let begin = move |load: &Load, ops: u64, folder: &Path| {
        let mut command = command(&program, "jetstream", load, ops);
        command.arg(folder);
        Ok((command, None))
    };
    let settings = "2.15.2, in the process of its clients; a work queue on file; os: as it comes, sync: sync_interval always; a thousand by \
                    PublishAsync; 10 pulls of 100 ahead, each ack answered";
    (settings, Box::new(begin))
}
