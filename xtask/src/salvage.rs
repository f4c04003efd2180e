//! Runs the sweep of `quire salvage` over every byte of a small database.

use crate::test::{PROFILE, in_root, succeed};
use crate::workspace::Workspace;

/// The number of bytes between two flips.
const STRIDE: &str = "QUIRE_SALVAGE_STRIDE";

/// Flips each byte in turn, and salvages.
///
/// # Errors
/// When a salvage fails, loses a whole record, or renumbers one.
pub(crate) fn run(workspace: &Workspace) -> Result<(), String> {
    let test = ["test", "--profile", PROFILE, "-p", "quire", "--test", "tools", "salvage"];
    succeed(in_root(workspace, &test).env(STRIDE, "1"))
}
