//! The night's random SQL statements: see `crates/sql/tests/it/copies.rs`.

use crate::test::{PROFILE, in_root, succeed};
use crate::workspace::Workspace;

/// The statements of a night for each table, 100,000 together.
pub(crate) const OF_A_NIGHT: u64 = 7_000;

/// Compares `cases` random statements over each table with the same statements over its copy.
///
/// # Errors
/// When an answer differs.
pub(crate) fn run(workspace: &Workspace, cases: u64) -> Result<(), String> {
    let test = ["test", "--profile", PROFILE, "-p", "quire-sql", "--test", "it", "copies"];
    succeed(in_root(workspace, &test).env("QUIRE_SQL_CASES", cases.to_string()))
}
