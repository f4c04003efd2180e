//! The step `clients`: the clients in other languages, against servers.
//!
//! `tests/clients` runs their tests and examples. A client whose tools are absent is skipped, and a
//! line reports it.

use std::process::Command;

use super::succeed;
use crate::units::Units;
use crate::workspace::Workspace;

const SCRIPT: &str = "tests/clients/run.py";

/// Runs the step.
///
/// # Errors
/// When a check fails.
pub(super) fn run(workspace: &Workspace) -> Result<(), String> {
    run_script(workspace, None)
}

/// Kills a server `count` times under clients of each protocol, and runs nothing else.
///
/// # Errors
/// When an effect of a request is missing or happened twice.
pub(crate) fn run_kills(workspace: &Workspace, count: u64) -> Result<(), String> {
    run_script(workspace, Some(count))
}

fn run_script(workspace: &Workspace, kills: Option<u64>) -> Result<(), String> {
    let quire = Units::build(workspace)?.program("bin", "quire")?;
    let mut script = Command::new("python3");
    script.args(["-B", SCRIPT]).arg(&quire).arg(&workspace.target).args(kills.map(|count| count.to_string()));
    succeed(script.current_dir(&workspace.root))
}
