//! Quire next to several stores: each load runs on one after the other, in alternating order.
//!
//! A load is a case of `quire-bench`; a store's own program has a case of the same name, and prints
//! its result in the same format. Each run has its own directory, which is removed afterwards.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::loads::measured;
use super::options::Options;
use super::results::{Measurement, Results};
use super::{Durability, output, remove};
use crate::test::{in_root, succeed};
use crate::workspace::Workspace;

pub(super) const QUIRE: &str = "quire";

/// A load.
#[derive(Debug)]
pub(super) struct Load {
    /// The name of the case, in all programs.
    pub(super) name: &'static str,
    /// The durability of an answer; reads write nothing.
    pub(super) durability: Durability,
    /// How many operations a round has, for Quire.
    pub(super) ours: u64,
    /// The same for other stores, whose rounds would otherwise take minutes. A store that is not
    /// listed does not support the operation.
    pub(super) theirs: &'static [(&'static str, u64)],
}

/// Makes the command of a load on a store, with an empty directory of its own. The second value is
/// dropped after the load.
pub(super) type Begin = Box<dyn Fn(&Load, u64, &Path) -> Result<(Command, Option<super::servers::Server>), String>>;

/// A store.
pub(super) struct Store {
    pub(super) name: &'static str,
    /// Its version, and its settings.
    pub(super) settings: &'static str,
    pub(super) begin: Begin,
}

/// The installed stores, and why others are missing.
#[derive(Default)]
pub(super) struct Stores {
    there: Vec<Store>,
    absent: BTreeMap<&'static str, String>,
}

impl Stores {
    /// Adds a store, or the reason for its absence.
    pub(super) fn add(&mut self, name: &'static str, found: Result<(&'static str, Begin), String>) {
        match found {
            Ok((settings, begin)) => self.there.push(Store { name, settings, begin }),
            Err(why) => {
                println!("SKIPPED {name}: {why}");
                self.absent.insert(name, why);
            }
        }
    }
}

/// Quire itself, with the cases of this suite.
///
/// # Errors
/// When it does not build.
pub(super) fn quire(workspace: &Workspace, suite: &'static str) -> Result<(&'static str, Begin), String> {
    succeed(&mut in_root(workspace, &["build", "--profile", "dist", "-p", "quire-bench"]))?;
    let program = workspace.target.join("dist/quire-bench");
    let begin = move |load: &Load, ops: u64, folder: &Path| {
        let mut command = Command::new(&program);
        command.args([suite, "--json", "--case", load.name, "--ops", &ops.to_string()]);
        command.args(["--durability", load.durability.name(), "--data"]).arg(folder);
        Ok((command, None))
    };
    Ok(("as it comes", Box::new(begin)))
}

/// A Rust program outside of the workspace, built from `xtask/peers/NAME` with its lock file.
///
/// # Errors
/// When it does not build.
pub(super) fn rust_program(workspace: &Workspace, name: &str) -> Result<PathBuf, String> {
    let target = workspace.target.join(format!("{name}-load"));
    let manifest = format!("xtask/peers/{name}/Cargo.toml");
    let mut build = in_root(workspace, &["build", "--release", "--locked", "--manifest-path", &manifest]);
    succeed(build.arg("--target-dir").arg(&target))?;
    Ok(target.join("release").join(format!("{name}-load")))
}

/// Why a Go module is unavailable, according to the proxy.
pub(super) fn refused_module(workspace: &Workspace, module: &str) -> String {
    let mut command = Command::new("go");
    command.args(["list", "-m", &format!("{module}@latest")]).env("GOTOOLCHAIN", "local").env("GOFLAGS", "-mod=mod");
    match output(command.current_dir(&workspace.target)) {
        Ok(version) => format!("{} is available, and has no load yet", version.trim()),
        Err(error) => format!("the module is unavailable: {}", error.split_whitespace().collect::<Vec<_>>().join(" ")),
    }
}

/// Runs the rounds, and prints the table.
///
/// # Errors
/// For an unknown flag, or when the flags leave no load; when a load fails.
pub(super) fn run(
    workspace: &Workspace,
    suite: &str,
    flags: &[String],
    loads: &[Load],
    stores: impl FnOnce() -> Result<Stores, String>,
) -> Result<(), String> {
    let options = Options::parse(suite, flags, loads.iter().map(|load| (load.name, load.durability)))?;
    let Stores { there: mut stores, absent } = stores()?;
    let folder = workspace.target.join("bench-peers");
    let mut results = Results::beside(stores.iter().map(|store| store.name).filter(|name| *name != QUIRE));
    for round in 0..options.rounds {
        for load in loads.iter().filter(|load| options.wants(load.name, load.durability)) {
            for store in &stores {
                let Some(ops) = load.ops(store.name) else { continue };
                remove(&folder)?;
                let measured = load.run(store, ops, &folder)?;
                let kept = load.durability.name();
                println!("round {}: {:<27} {kept:<5} {:<10} {measured}", round + 1, load.name, store.name);
                results.add(load.name, load.durability, store.name, measured);
            }
        }
        // The order alternates between rounds.
        stores.reverse();
    }
    remove(&folder)?;
    print!("\n{results}\n");
    stores.sort_by_key(|store| store.name);
    for Store { name, settings, .. } in &stores {
        println!("{name}: {settings}");
    }
    for (name, why) in absent {
        println!("{name} is missing: {why}");
    }
    Ok(())
}

impl Load {
    fn ops(&self, store: &str) -> Option<u64> {
        let theirs = self.theirs.iter().find(|(name, _)| *name == store).map(|(_, ops)| *ops);
        theirs.or_else(|| (store == QUIRE).then_some(self.ours))
    }

    fn run(&self, store: &Store, ops: u64, folder: &Path) -> Result<Measurement, String> {
        fs::create_dir_all(folder).map_err(|error| format!("could not make {}: {error}", folder.display()))?;
        let failed = |error: String| format!("{} on {}: {error}", self.name, store.name);
        let (mut command, server) = (store.begin)(self, ops, folder).map_err(failed)?;
        let said = output(&mut command).map_err(failed)?;
        drop(server);
        let of_case = format!("\"case\":\"{}\"", self.name);
        let line = said.lines().find(|line| line.contains(&of_case));
        line.and_then(measured).ok_or_else(|| format!("{} on {} said: {said}", self.name, store.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_without_the_operation_does_not_run_the_load() {
        let load = Load { name: "x", durability: Durability::Os, ours: 7, theirs: &[("redb", 3)] };
        assert_eq!((load.ops(QUIRE), load.ops("redb"), load.ops("fjall")), (Some(7), Some(3), None));
    }
}
