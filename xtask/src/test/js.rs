//! kafkajs on a running server; `tests/kafka/js` has its checks.
//!
//! Without Node, npm or the package, the client is skipped, and a line reports it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{node, succeed};
use crate::workspace::Workspace;

const PROGRAM: &str = "tests/kafka/js/clients.js";
const PACKAGE: &str = "tests/kafka/js/package.json";

/// The directory with the package; `None` when it is skipped.
pub(super) fn package(workspace: &Workspace) -> Option<PathBuf> {
    install(workspace).inspect_err(|why| println!("SKIPPED kafkajs: {why}")).ok()
}

fn install(workspace: &Workspace) -> Result<PathBuf, String> {
    node::find()?;
    let folder = workspace.target.join("kafka-js");
    let failed = |error: std::io::Error| format!("could not write to {}: {error}", folder.display());
    fs::create_dir_all(&folder).map_err(failed)?;
    fs::copy(workspace.root.join(PACKAGE), folder.join("package.json")).map_err(failed)?;
    succeed(Command::new("npm").args(["install", "--silent", "--no-audit", "--no-fund"]).current_dir(&folder))?;
    Ok(folder)
}

/// Runs the client on the server at this address.
///
/// # Errors
/// When a check fails.
pub(super) fn run(workspace: &Workspace, package: &Path, bootstrap: &str) -> Result<(), String> {
    let mut program = Command::new("node");
    program.arg(PROGRAM).arg(bootstrap).env("NODE_PATH", package.join("node_modules"));
    succeed(program.current_dir(&workspace.root))
}
