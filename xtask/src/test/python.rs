//! Virtual environments of Python in the target directory: `venv` has the Kafka clients.
//!
//! Each is created once for a list of requirements, and again when the list changes. Nothing is
//! installed elsewhere.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::succeed;
use crate::workspace::Workspace;

const REQUIREMENTS: &str = "tests/kafka/requirements.txt";

/// Checks that Python can create virtual environments.
///
/// # Errors
/// When it can't; the message says how to skip the step.
pub(super) fn check_present() -> Result<(), String> {
    let probe = Command::new("python3").args(["-c", "import ensurepip, venv"]).stderr(Stdio::null()).status();
    let missing = match probe {
        Ok(status) if status.success() => return Ok(()),
        Ok(_) => "python3 has no `venv` and `ensurepip` (Debian and Ubuntu: apt install python3-venv)".to_owned(),
        Err(error) => format!("can't run python3: {error}"),
    };
    Err(format!("{missing}\nThe step `kafka` reads the demo with a Kafka client in Python. {}", how_to_skip()))
}

/// The Python with the Kafka clients.
///
/// # Errors
/// When the environment can't be made, or a requirement can't be installed.
pub(super) fn interpreter(workspace: &Workspace) -> Result<PathBuf, String> {
    environment(workspace, "venv", REQUIREMENTS)
}

/// The Python of the environment `name`, with the packages of the file `requirements` installed.
///
/// # Errors
/// When the environment can't be made, or a requirement can't be installed.
pub(super) fn environment(workspace: &Workspace, name: &str, requirements: &str) -> Result<PathBuf, String> {
    check_present()?;
    let folder = workspace.target.join(name);
    let python = folder.join("bin/python");
    let wanted = fs::read_to_string(workspace.root.join(requirements))
        .map_err(|error| format!("could not read {requirements}: {error}"))?;
    // Written last, so that an incomplete environment is not reused.
    let installed = folder.join("installed.txt");
    if fs::read_to_string(&installed).is_ok_and(|text| text == wanted) && runs(&python) {
        return Ok(python);
    }
    succeed(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement", requirements];
    succeed(Command::new(&python).args(install).current_dir(&workspace.root))
        .map_err(|error| format!("{error}\n{}", how_to_skip()))?;
    fs::write(&installed, wanted).map_err(|error| format!("could not write {}: {error}", installed.display()))?;
    Ok(python)
}

fn runs(python: &PathBuf) -> bool {
    Command::new(python).args(["-c", ""]).status().is_ok_and(|status| status.success())
}

fn how_to_skip() -> &'static str {
    "To go on without it: cargo xtask test --skip-python"
}
