//! The API key of a command that asks a server, in a file.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use clap::Args;

use crate::failure::{CommandError, Result, aside};

/// Most bytes of a file that are read: a key is shorter.
const FILE_BYTES_MAX: u64 = 4_096;

/// `--key-file`: a key is no argument, because other users of the machine can read those.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct KeyFile {
    /// File with your API key for the server [default: the key in the variable QUIRE_KEY]
    #[arg(long, value_name = "FILE", requires = "http", hide_short_help = true)]
    key_file: Option<PathBuf>,
}

impl KeyFile {
    /// The key, if there is a file. Warns of one that other users can read.
    ///
    /// # Errors
    /// When it can't be read, or has more than one line.
    pub(crate) fn read(&self) -> Result<Option<String>> {
        let Some(path) = &self.key_file else { return Ok(None) };
        let failed = |error| CommandError::at(format_args!("read the key in {}", path.display()), error);
        let file = File::open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.permissions().mode() & 0o077 != 0 {
            aside(format_args!("quire: warning: other users can read {}: chmod 600 it", path.display()));
        }
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
        match text.trim_ascii() {
            key if key.is_empty() || key.contains(char::is_whitespace) => {
                Err(CommandError::new(format!("{} must have one line with an API key", path.display())))
            }
            key => Ok(Some(key.to_owned())),
        }
    }
}
