//! Secrets of `quire access`: a new key leaves once, and a password arrives without being shown.
//! Neither is an argument of a command, which other users of the machine can read.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use clap::Args;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use serde_json::{Value, json};

use crate::failure::{CommandError, Result};
use crate::verbs::print::{OutputForm, word};

/// Where the text of a new key goes.
#[derive(Debug, Args)]
pub(crate) struct NewKeyOutput {
    /// Write the key to this new file, which only you can read, instead of printing it
    #[arg(long, value_name = "FILE")]
    save_key: Option<PathBuf>,
}

/// Where a password comes from.
#[derive(Debug, Args)]
pub(crate) struct PasswordSource {
    /// Read the password from the first line of this file [default: ask on the terminal, or read
    /// the first line of standard input]
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

impl NewKeyOutput {
    /// Creates a key with `make`, and prints it or writes it to the file. The file is made first,
    /// so that no key is lost for want of it.
    ///
    /// # Errors
    /// When the file exists or can't be written, and those of `make`.
    pub(super) fn give(self, out: &mut dyn Write, form: OutputForm, make: impl FnOnce() -> Result<Value>) -> Result {
        let Some(path) = self.save_key else {
            return form.print(out, &[make()?], |key| {
                format!("key {} of user {}, shown only once:\n{}", word(key, "id"), word(key, "user"), word(key, "key"))
            });
        };
        let failed = |error| CommandError::at(format_args!("write the key to {}", path.display()), error);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
        let made = make().inspect_err(|_| drop(std::fs::remove_file(&path)))?;
        file.write_all(format!("{}\n", made["key"].as_str().unwrap_or_default()).as_bytes()).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        let shown = json!({"id": made["id"], "user": made["user"], "file": path.to_string_lossy()});
        form.print(out, &[shown], |key| {
            format!("key {} of user {} written to {}", word(key, "id"), word(key, "user"), word(key, "file"))
        })
    }
}

impl PasswordSource {
    /// Reads the password.
    ///
    /// # Errors
    /// When it can't be read, is not text, or two inputs on a terminal differ.
    pub(super) fn read(&self) -> Result<String> {
        if let Some(path) = &self.password_file {
            let failed = |error| CommandError::at(format_args!("read {}", path.display()), error);
            return first_line(&mut io::BufReader::new(File::open(path).map_err(failed)?)).map_err(failed);
        }
        let failed = |error| CommandError::at("read the password from standard input", error);
        let mut input = io::stdin().lock();
        if !input.is_terminal() {
            return first_line(&mut input).map_err(failed);
        }
        let _quiet = QuietTerminal::take().map_err(failed)?;
        let mut ask = |text: &str| {
            let mut shown = io::stderr();
            write!(shown, "{text}: ").and_then(|()| shown.flush())?;
            let line = first_line(&mut input);
            // The terminal shows no line break either.
            writeln!(shown).and(line)
        };
        let password = ask("New password").map_err(failed)?;
        match ask("Again").map_err(failed)? == password {
            true => Ok(password),
            false => Err(CommandError::new("the two passwords differ; nothing was changed")),
        }
    }
}

/// The first line, without its end.
fn first_line(input: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    input.read_line(&mut line)?;
    let line = line.strip_suffix('\n').unwrap_or(&line);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

/// The terminal of standard input, which shows nothing that is typed until this is dropped.
struct QuietTerminal {
    before: Termios,
}

impl QuietTerminal {
    fn take() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut modes = before.clone();
        modes.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Flush, &modes)?;
        Ok(QuietTerminal { before })
    }
}

impl Drop for QuietTerminal {
    fn drop(&mut self) {
        // A terminal that is gone needs no restoring.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}
