//! The step `site`: the site of the documentation builds, and its links lead somewhere.

use std::process::Command;

use super::{node, succeed};
use crate::workspace::Workspace;

/// Runs the step.
///
/// # Errors
/// When a page links to nothing.
pub(super) fn run(workspace: &Workspace) -> Result<(), String> {
    if node::is_missing("the site") {
        return Ok(());
    }
    let sources = workspace.root.join("site");
    let npm = |arguments: &[&str]| succeed(Command::new("npm").args(arguments).current_dir(&sources));
    npm(&["ci", "--silent", "--no-audit", "--no-fund"])?;
    npm(&["run", "--silent", "build"])
}
