//! Franz-go, a client in Go, on a running server; `tests/kafka/go` has its checks.
//!
//! Go builds it into the target directory, with the modules of `go.sum`. Without Go or the modules
//! the client is skipped, and a line reports it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::succeed;
use crate::workspace::Workspace;

const FOLDER: &str = "tests/kafka/go";

/// The client's program; `None` when it is skipped.
///
/// # Errors
/// When it does not compile.
pub(super) fn program(workspace: &Workspace) -> Result<Option<PathBuf>, String> {
    let folder = workspace.root.join(FOLDER);
    let go = |arguments: &[&str]| {
        let mut command = Command::new("go");
        // Uses the installed toolchain, whatever a module requests.
        command.args(arguments).env("GOTOOLCHAIN", "local").current_dir(&folder);
        command
    };
    let probe = go(&["version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if let Err(error) = probe {
        println!("SKIPPED franz-go: can't run go: {error}");
        return Ok(None);
    }
    if let Err(error) = succeed(&mut go(&["mod", "download"])) {
        println!("SKIPPED franz-go: its modules are unavailable: {error}");
        return Ok(None);
    }
    let program = workspace.target.join("kafka-go");
    succeed(go(&["build", "-o"]).arg(&program).arg("."))?;
    Ok(Some(program))
}

/// Runs the client on the server at this address.
///
/// # Errors
/// When a check fails.
pub(super) fn run(workspace: &Workspace, program: &Path, bootstrap: &str) -> Result<(), String> {
    succeed(Command::new(program).arg(bootstrap).current_dir(&workspace.root))
}
