//! Opening the folder of a database: the one way in which every command does it.
//!
//! Invariant: what opening cut off the log is told on standard error, whatever the command prints.

use quire::{Builder, Opening};

use crate::failure::{Result, aside};

/// Opens a database, and warns of a torn tail that was cut.
///
/// # Errors
/// As [`Builder::open`].
pub(crate) fn open(builder: Builder) -> Result<Opening> {
    let opening = builder.open_and_report()?;
    if let Some(cut) = &opening.recovery.cut {
        aside(format_args!("quire: warning: {cut}"));
    }
    Ok(opening)
}
