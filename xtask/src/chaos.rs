//! `cargo xtask chaos [SECONDS]`: attacks real processes on a real disk.

use std::process::Command;

use crate::test::succeed;
use crate::units::Units;
use crate::workspace::Workspace;

/// The default duration: two or three rounds.
pub(crate) const SECONDS: u64 = 25;

/// Builds the server and the attacker, and runs rounds until the time is up.
///
/// # Errors
/// When a round found an inconsistency. The attacker has printed it, with the directory to inspect.
pub(crate) fn run(workspace: &Workspace, seconds: u64) -> Result<(), String> {
    let units = Units::build(workspace)?;
    let mut command = Command::new(units.program("bin", "quire-chaos")?);
    command.args(["run", "--seconds", &seconds.to_string(), "--server"]).arg(units.program("bin", "quire")?);
    succeed(&mut command)?;
    let mut command = Command::new(units.program("bin", "quire-chaos")?);
    command.args(["cluster", "--seconds", &(seconds / 2).to_string(), "--server"]).arg(units.program("bin", "quire")?);
    succeed(&mut command)
}
