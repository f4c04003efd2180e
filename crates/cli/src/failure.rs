//! Why a command ends early: one line for the user, and the exit status.
//!
//! A reader who closes the pipe is no failure: `quire consume departures | head` ends quietly.

use std::fmt;
use std::io::{self, Write};

/// Why a command ends early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something the user should read.
    Message(String),
    /// What this machine or this user can't do, and another can.
    NotHere(String),
    /// A signal asked for the end before there was a result.
    Interrupted,
    /// What was looked at is not as it should be; what is wrong has been printed.
    Damaged,
    /// Nobody reads the output any more.
    ClosedPipe,
}

/// What a command comes to.
pub(crate) type Result<T = (), E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// A failure with this message.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Failure::Message(message.into())
    }

    /// A failure at an attempt to do something.
    pub(crate) fn at(attempt: impl fmt::Display, error: impl fmt::Display) -> Self {
        Failure::Message(format!("can't {attempt}: {error}"))
    }
}

impl From<quire::Error> for Failure {
    fn from(error: quire::Error) -> Self {
        Failure::Message(error.to_string())
    }
}

/// An error at writing output; everything else is turned into a failure where it is known what was attempted.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
            _ => Failure::at("write output", error),
        }
    }
}

/// Says something beside the output, on standard error. Whoever does not read it there misses it, and nothing else.
pub(crate) fn aside(message: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{message}");
}
