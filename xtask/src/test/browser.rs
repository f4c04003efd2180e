//! The step `browser`: pages of other sites in headless Chromium, against a server.
//!
//! `tests/browser` has the page and its checks. Without Chromium the step is skipped, and a line
//! reports it.

use std::process::{Command, Stdio};

use super::succeed;
use crate::units::Units;
use crate::workspace::Workspace;

const SCRIPT: &str = "tests/browser/foreign.py";

/// The names of the program, on Debian and elsewhere.
const CHROMIUM: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// Runs the step.
///
/// # Errors
/// When a check fails.
pub(super) fn run(workspace: &Workspace) -> Result<(), String> {
    let Some(chromium) = chromium() else {
        println!("SKIPPED the pages of other sites: no Chromium (Debian and Ubuntu: apt install chromium)");
        return Ok(());
    };
    let quire = Units::build(workspace)?.program("bin", "quire")?;
    succeed(Command::new("python3").args(["-B", SCRIPT]).arg(&quire).arg(chromium).current_dir(&workspace.root))
}

/// The name of the program, if it runs.
pub(super) fn chromium() -> Option<&'static str> {
    CHROMIUM.into_iter().find(|name| runs(name))
}

fn runs(program: &str) -> bool {
    let probe = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    probe.is_ok_and(|status| status.success())
}
