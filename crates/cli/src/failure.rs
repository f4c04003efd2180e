//! Errors of a command: one line for the user, and the exit status.
//!
//! A closed output pipe is not an error: `quire consume departures | head` ends quietly.

use std::fmt;
use std::io::{self, Write};

/// The reason why a command ends early.
#[derive(Debug)]
pub enum CommandError {
    /// A message for the user.
    Message(String),
    /// A message about missing arguments.
    Usage(String),
    /// A feature that this machine or this user lacks.
    NotHere(String),
    /// A signal ended the command before its result was complete.
    Interrupted,
    /// The command found damage, and has printed it.
    Damaged,
    /// The reader of the output has closed it.
    ClosedPipe,
}

/// The result of a command.
pub type Result<T = (), E = CommandError> = std::result::Result<T, E>;

impl CommandError {
    /// A failure with this message.
    pub fn new(message: impl Into<String>) -> Self {
        CommandError::Message(message.into())
    }

    /// A failure of an attempt.
    pub fn at(attempt: impl fmt::Display, error: impl fmt::Display) -> Self {
        CommandError::Message(format!("can't {attempt}: {error}"))
    }
}

impl From<quire::Error> for CommandError {
    fn from(error: quire::Error) -> Self {
        CommandError::Message(error.to_string())
    }
}

/// An error in writing output. Other errors are converted where the attempt is known.
impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => CommandError::ClosedPipe,
            _ => CommandError::at("write output", error),
        }
    }
}

/// Prints a line on standard error. A closed standard error is ignored.
pub fn aside(message: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{message}");
}
