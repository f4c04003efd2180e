//! `cargo xtask chaos [SECONDS]`: real processes on a real disk, attacked, for so long.

use std::process::Command;

use crate::test::succeed;
use crate::units::Units;
use crate::workspace::Workspace;

/// How long a run is that nobody waits for: two or three rounds.
pub(crate) const SECONDS: u64 = 25;

/// Builds the server and what attacks it, and runs rounds until the time is up.
///
/// # Errors
/// When something was not as it must be: by then it has been told, with the folder in which it can be looked at.
pub(crate) fn run(workspace: &Workspace, seconds: u64) -> Result<(), String> {
    let units = Units::build(workspace)?;
    let mut command = Command::new(units.program("bin", "quire-chaos")?);
    command.args(["run", "--seconds", &seconds.to_string(), "--server"]).arg(units.program("bin", "quire")?);
    succeed(&mut command)
}
