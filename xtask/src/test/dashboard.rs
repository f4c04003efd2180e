//! The step `dashboard`: the bundle equals its sources, and works in headless Chromium.
//!
//! `dashboard` has the sources and the checks. Without Node or Chromium, what needs it is skipped,
//! and a line reports it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::{browser, node, succeed};
use crate::units::Units;
use crate::workspace::Workspace;

/// The sources.
const SOURCES: &str = "dashboard";

/// The bundle that the server has.
const BUNDLE: &str = "crates/http/dashboard";

/// Runs the step.
///
/// # Errors
/// When the bundle differs from its sources, or a check fails.
pub(super) fn run(workspace: &Workspace) -> Result<(), String> {
    if node::is_missing("the dashboard") {
        return Ok(());
    }
    let sources = workspace.root.join(SOURCES);
    let within = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&sources);
        command
    };
    succeed(&mut within("npm", &["ci", "--silent", "--no-audit", "--no-fund"]))?;
    succeed(&mut within("npm", &["run", "check"]))?;
    let built = workspace.target.join("dashboard");
    succeed(within("npx", &["vite", "build", "--emptyOutDir", "--outDir"]).arg(&built))?;
    compare(&built, &workspace.root.join(BUNDLE))?;
    succeed(&mut within("node", &["bundle.mjs", "check"]))?;

    let Some(chromium) = browser::chromium() else {
        println!("SKIPPED the pages of the dashboard: no Chromium (Debian and Ubuntu: apt install chromium)");
        return Ok(());
    };
    let quire = Units::build(workspace)?.program("bin", "quire")?;
    succeed(within("node", &["test/dashboard.mjs"]).arg(&quire).arg(chromium))
}

fn compare(built: &Path, bundle: &Path) -> Result<(), String> {
    let (built, bundle) = (files(built)?, files(bundle)?);
    let differing = built.keys().chain(bundle.keys()).find(|name| built.get(*name) != bundle.get(*name));
    match differing {
        None => Ok(()),
        Some(name) => Err(format!(
            "{BUNDLE}/{name} is not what {SOURCES} builds: run `npm ci && npm run build` there, and commit the bundle"
        )),
    }
}

/// The files below a directory, with their contents.
fn files(directory: &Path) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let failed = |error: std::io::Error| format!("could not read {}: {error}", directory.display());
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() {
            let below = files(&entry.path())?;
            found.extend(below.into_iter().map(|(below, content)| (format!("{name}/{below}"), content)));
        } else {
            found.insert(name, fs::read(entry.path()).map_err(failed)?);
        }
    }
    Ok(found)
}
