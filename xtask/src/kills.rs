//! `cargo xtask kills COUNT`: the tests that kill processes, with so many kills in each.

use crate::test::{PROFILE, in_root, succeed};
use crate::workspace::Workspace;

/// How many a night has.
pub(crate) const OF_A_NIGHT: u64 = 1000;

/// The tests that take their number of kills from the environment, where they look for it.
const TESTS: [&str; 4] = ["-p", "quire", "-p", "quire-log"];
const VARIABLE: &str = "QUIRE_KILLS";

/// Kills so many processes that write, for each durability: those that are alone in a database, those beside others in a log, and
/// half as many that compact beside others.
///
/// # Errors
/// When something that was acknowledged is not there, or is not as it was.
pub(crate) fn run(workspace: &Workspace, kills: u64) -> Result<(), String> {
    let test = [&["test", "--profile", PROFILE][..], &TESTS, &["--test", "kill"]].concat();
    succeed(in_root(workspace, &test).env(VARIABLE, kills.to_string()))
}
