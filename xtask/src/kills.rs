//! `cargo xtask kills COUNT`: runs the tests that kill processes, with COUNT kills in each. Also
//! kills servers under clients that repeat unanswered requests.

use crate::test::{PROFILE, clients, in_root, succeed};
use crate::workspace::Workspace;

/// The number of kills of a night.
pub(crate) const OF_A_NIGHT: u64 = 1000;

/// The number of kills of a night of a server under clients, over HTTP and over gRPC.
pub(crate) const OF_SERVERS: u64 = 200;

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

/// Kills a server `count` times under clients over HTTP, and as often under clients over gRPC.
///
/// # Errors
/// When an effect of a request is missing or happened twice.
pub(crate) fn of_servers(workspace: &Workspace, count: u64) -> Result<(), String> {
    clients::run_kills(workspace, count)
}
