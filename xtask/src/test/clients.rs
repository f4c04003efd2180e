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
    let quire = Units::build(workspace)?.program("bin", "quire")?;
    let mut script = Command::new("python3");
    succeed(script.args(["-B", SCRIPT]).arg(&quire).arg(&workspace.target).current_dir(&workspace.root))
}
