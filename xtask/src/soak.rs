//! `cargo xtask soak MINUTES`: runs the simulation with new seeds, on all cores.

use std::hash::{BuildHasher, RandomState};
use std::process::Command;

use crate::test::{PROFILE, in_root, succeed};
use crate::workspace::Workspace;

/// Runs until a run fails or the time is up.
///
/// # Errors
/// When a run fails: by then it has printed its seed, and the command that replays it.
pub(crate) fn run(workspace: &Workspace, minutes: u64) -> Result<(), String> {
    succeed(&mut in_root(workspace, &["build", "--profile", PROFILE, "-p", "quire-sim"]))?;
    let program = workspace.target.join(PROFILE).join("quire-sim");
    let processes = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    let first = RandomState::new().hash_one(0) >> 24;
    let seeds_each = 1 << 32;
    let mut running = Vec::new();
    for number in 0..processes {
        let from = first + number * seeds_each;
        let seeds = format!("{from}..{}", from + seeds_each);
        println!("$ quire-sim --seeds {seeds} --minutes {minutes}");
        let child = Command::new(&program).args(["--seeds", &seeds, "--minutes", &minutes.to_string()]).spawn();
        running.push(child.map_err(|error| format!("could not start {}: {error}", program.display()))?);
    }
    let mut failed = 0;
    for mut child in running {
        let status = child.wait().map_err(|error| format!("could not wait for a run: {error}"))?;
        failed += u64::from(!status.success());
    }
    if failed == 0 { Ok(()) } else { Err(format!("{failed} of {processes} processes found a run that fails")) }
}
