//! The step `attacks`: attacks on a running server, while another client commits.
//!
//! `tests/attacks` has them. They need Python without further packages.

use std::process::Command;

use super::succeed;
use crate::units::Units;
use crate::workspace::Workspace;

const SCRIPT: &str = "tests/attacks/attacks.py";

/// Runs the step.
///
/// # Errors
/// When the server ends, does not serve another client, or refuses without a reason.
pub(super) fn run(workspace: &Workspace) -> Result<(), String> {
    let quire = Units::build(workspace)?.program("bin", "quire")?;
    succeed(Command::new("python3").args(["-B", SCRIPT]).arg(&quire).current_dir(&workspace.root))
}
