//! `quire with-parent PID ARGUMENTS...`: this program as a child that ends when its parent does,
//! however the parent ends.
//!
//! A parent that is killed can't stop its children. The kernel does it: the child asks for a signal
//! at its parent's death, then becomes the program that the arguments name. Elsewhere than on Linux
//! there is no such request, and a child outlives a parent that is killed.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::Args;
use rustix::process::getppid;

use crate::failure::{CommandError, Result};

/// The arguments of `quire with-parent`.
#[derive(Debug, Args)]
pub struct WithParent {
    /// Process id of the parent
    parent: u32,
    /// Arguments of this program
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    arguments: Vec<OsString>,
}

impl WithParent {
    /// Returns a command that runs this program, with the arguments that the caller adds, as a
    /// child of this process.
    ///
    /// # Errors
    /// When the path of this program can't be found.
    pub fn command() -> std::io::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("with-parent").arg(std::process::id().to_string());
        Ok(command)
    }

    /// Becomes the program that the arguments name. Returns only when that fails.
    pub fn run(self) -> Result {
        let failed = |error| CommandError::at("end with the parent process", error);
        // The request survives the `exec` below: prctl(2), PR_SET_PDEATHSIG.
        #[cfg(target_os = "linux")]
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
            .map_err(|error| failed(error.into()))?;
        if getppid().is_none_or(|parent| parent.as_raw_nonzero().get().unsigned_abs() != self.parent) {
            return Err(CommandError::new("the parent process has ended"));
        }
        let program = std::env::current_exe().map_err(failed)?;
        Err(CommandError::at("start this program", Command::new(program).args(self.arguments).exec()))
    }
}
