//! `quire completions` and `quire man`: files for the shell, made from the definition of the
//! command.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;

use crate::Quire;
use crate::failure::{CommandError, Result};

/// Arguments of `quire completions`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  quire completions bash > ~/.local/share/bash-completion/completions/quire")]
pub(crate) struct Completions {
    /// The shell to complete commands in
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result {
        // The generator panics when it can't write.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut visible(), "quire", &mut script);
        Ok(out.write_all(&script)?)
    }
}

/// The command without its hidden commands, which the generator would offer.
fn visible() -> Command {
    let whole = Quire::command();
    let commands = whole.get_subcommands().filter(|command| !command.is_hide_set());
    Command::new("quire").args(whole.get_arguments()).subcommands(commands)
}

/// Arguments of `quire man`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  quire man --out ~/.local/share/man/man1")]
pub(crate) struct ManPages {
    /// Directory for the pages; created when it does not exist
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl ManPages {
    pub(crate) fn run(&self) -> Result {
        let cause = |error| CommandError::new(format!("can't write man pages to {}: {error}", self.out.display()));
        fs::create_dir_all(&self.out).map_err(cause)?;
        clap_mangen::generate_to(Quire::command(), &self.out).map_err(cause)
    }
}
