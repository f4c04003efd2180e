//! Node, for the steps that need it.

use std::process::{Command, Stdio};

/// Finds Node and npm.
///
/// # Errors
/// When one of them can't be run.
pub(super) fn find() -> Result<(), String> {
    for program in ["node", "npm"] {
        let probe = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        probe.map_err(|error| format!("can't run {program}: {error}"))?;
    }
    Ok(())
}

/// Whether Node or npm is missing. A line then reports that `what` is skipped.
pub(super) fn is_missing(what: &str) -> bool {
    find().inspect_err(|why| println!("SKIPPED {what}: {why}")).is_err()
}
