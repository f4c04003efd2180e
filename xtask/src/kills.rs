//! `cargo xtask kills COUNT`: runs the tests that kill processes, with COUNT kills in each.

use crate::test::{PROFILE, in_root, succeed};
use crate::workspace::Workspace;

/// The number of kills of a night.
pub(crate) const OF_A_NIGHT: u64 = 1000;

/// The tests, and the environment variables with their number of kills.
const TESTS: [&str; 4] = ["-p", "quire", "-p", "quire-log"];
const VARIABLE: &str = "QUIRE_KILLS";

/// Kills `count` writing processes for each durability: processes that are alone in a database,
/// processes that share a log, and half as many processes that compact a shared log.
///
/// # Errors
/// When an acknowledged record is missing or changed.
pub(crate) fn run(workspace: &Workspace, kills: u64) -> Result<(), String> {
    let test = [&["test", "--profile", PROFILE][..], &TESTS, &["--test", "kill"]].concat();
    succeed(in_root(workspace, &test).env(VARIABLE, kills.to_string()))
}
