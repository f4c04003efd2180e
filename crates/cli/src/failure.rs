//! Errors of a command: one line for the user, and the exit status.
//!
//! A closed output pipe is not an error: `quire consume departures | head` ends quietly.

use std::fmt;
use std::io::{self, Write};

/// The reason why a command ends early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A message for the user.
    Message(String),
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
pub(crate) type Result<T = (), E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// A failure with this message.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Failure::Message(message.into())
    }

    /// A failure of an attempt.
    pub(crate) fn at(attempt: impl fmt::Display, error: impl fmt::Display) -> Self {
        Failure::Message(format!("can't {attempt}: {error}"))
    }
}

impl From<quire::Error> for Failure {
    fn from(error: quire::Error) -> Self {
        Failure::Message(error.to_string())
    }
}

/// An error in writing output. Other errors are converted where the attempt is known.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
            _ => Failure::at("write output", error),
        }
    }
}

/// Prints a line on standard error. A closed standard error is ignored.
pub(crate) fn aside(message: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{message}");
}
