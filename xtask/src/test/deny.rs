//! The step `deny`: `cargo deny` checks the dependencies against [`deny.toml`](../../../deny.toml).
//!
//! The program and the database of advisories come from outside. A machine that lacks one of them
//! skips that part, and says so.

use std::process::{Command, Stdio};

use super::{in_root, succeed};
use crate::workspace::Workspace;

/// The same check of the Python package, which is a workspace of its own.
const PACKAGE: [&str; 6] = ["deny", "--manifest-path", "bindings/python/Cargo.toml", "--config", "deny.toml", "check"];

/// Checks licences, sources and bans; and advisories, if their database can be fetched.
///
/// # Errors
/// When a dependency is not accepted.
pub(super) fn run(workspace: &Workspace) -> Result<(), String> {
    if !succeeds(in_root(workspace, &["deny", "--version"])) {
        skip("cargo-deny is not installed: `cargo install cargo-deny`");
        return Ok(());
    }
    succeed(&mut in_root(workspace, &["deny", "check", "licenses", "bans", "sources"]))?;
    succeed(in_root(workspace, &PACKAGE).args(["licenses", "bans", "sources"]))?;
    if !succeeds(in_root(workspace, &["deny", "fetch", "db"])) {
        skip("the database of advisories can't be fetched: known vulnerabilities were not looked up");
        return Ok(());
    }
    succeed(&mut in_root(workspace, &["deny", "check", "--disable-fetch", "advisories"]))?;
    succeed(in_root(workspace, &PACKAGE).args(["--disable-fetch", "advisories"]))
}

fn succeeds(mut command: Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn skip(reason: &str) {
    println!("!!! SKIPPED: {reason}");
}
