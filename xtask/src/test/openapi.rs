//! The step `openapi`: random requests from the description of the HTTP API, against a server.
//!
//! `tests/openapi` has the script. The requests come from schemathesis, which pip installs into a
//! virtual environment. If pip can not, the step is skipped, and a line reports it.

use std::process::Command;

use super::{python, succeed};
use crate::units::Units;
use crate::workspace::Workspace;

const SCRIPT: &str = "tests/openapi/described.py";
const REQUIREMENTS: &str = "tests/openapi/requirements.txt";

/// Runs the step.
///
/// # Errors
/// When the server fails, or a response differs from its description.
pub(super) fn run(workspace: &Workspace) -> Result<(), String> {
    let python = match python::environment(workspace, "venv-openapi", REQUIREMENTS) {
        Ok(python) => python,
        Err(error) => {
            println!("SKIPPED the random requests: schemathesis can not be installed: {error}");
            return Ok(());
        }
    };
    let quire = Units::build(workspace)?.program("bin", "quire")?;
    let schemathesis = python.with_file_name("schemathesis");
    succeed(Command::new(python).args(["-B", SCRIPT]).arg(&quire).arg(schemathesis).current_dir(&workspace.root))
}
