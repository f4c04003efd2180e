//! The step `python`: the package of `bindings/python`, built as a wheel, and its tests.
//!
//! The package is a workspace of its own, so that no other step builds it. Without the tools from
//! the package index the step is skipped, and a line reports it.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use super::{PROFILE, forget_package, in_root, python, succeed};
use crate::units::Units;
use crate::workspace::Workspace;

const PACKAGE: &str = "bindings/python";
const REQUIREMENTS: &str = "bindings/python/tests/requirements.txt";

/// Runs the step.
///
/// # Errors
/// When a lint, a type or a test fails, or the package does not build.
pub(super) fn run(workspace: &Workspace) -> Result<(), String> {
    let python = match python::environment(workspace, "venv-package", REQUIREMENTS) {
        Ok(python) => python,
        Err(why) => {
            println!("!!! SKIPPED the Python package: its tools can't be installed: {why}");
            return Ok(());
        }
    };
    let package = workspace.root.join(PACKAGE);
    // The package shares compiled dependencies with the workspace.
    let (target, made) = (&workspace.target, workspace.target.join("python"));
    // The package is built with the versions of the workspace, and has no lock file of its own.
    let copied = fs::copy(workspace.root.join("Cargo.lock"), package.join("Cargo.lock"));
    copied.map_err(|error| format!("could not write Cargo.lock to {PACKAGE}: {error}"))?;
    let manifest = format!("{PACKAGE}/Cargo.toml");
    succeed(&mut in_root(workspace, &["fmt", "--manifest-path", &manifest, "--check"]))?;
    let mut clippy = in_root(workspace, &["clippy", "--profile", PROFILE, "--manifest-path", &manifest]);
    succeed(clippy.env("CARGO_TARGET_DIR", target).args(["--", "-D", "warnings"]))?;

    let wheels = made.join("wheels");
    remove(&wheels)?;
    let within = |arguments: &[&str]| {
        let mut command = Command::new(&python);
        forget_package(&mut command);
        command.args(arguments).current_dir(&package).env("CARGO_TARGET_DIR", target);
        // The tests start processes, which must not leave compiled modules in the source.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command
    };
    let build = ["-m", "maturin", "build", "--profile", PROFILE, "--quiet", "--out"];
    succeed(within(&build).arg(&wheels))?;
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--force-reinstall"];
    succeed(within(&install).args(["--find-links"]).arg(&wheels).arg("quire"))?;
    let cache = made.join("mypy");
    succeed(within(&["-m", "mypy", "--strict", "--cache-dir"]).arg(cache).args([
        "python/quire",
        "tests",
        "bench.py",
        "../../examples/orders/orders.py",
    ]))?;
    // The tests of the served client start the program of the workspace.
    let quire = Units::build(workspace)?.program("bin", "quire")?;
    succeed(within(&["-m", "pytest", "-q", "-p", "no:cacheprovider"]).env("QUIRE_PROGRAM", quire))
}

fn remove(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(format!("could not remove {}: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}
