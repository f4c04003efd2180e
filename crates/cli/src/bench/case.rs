//! A case: something to measure, with what has to stand beside its number, and what it is given when it runs.
//!
//! Suite, name and durability are stable: results of different versions are compared by them.

use std::path::PathBuf;

use quire::Durability;

use super::measurement::Measured;
use crate::failure::{Failure, Result};
use crate::stop::Stop;

/// Between how many operations it is looked whether to stop: rarely enough to cost nothing.
const OPS_BETWEEN_LOOKS: u64 = 16;

/// Something to measure.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    /// The suite it belongs to: `log`, `events`, ...
    pub(super) suite: &'static str,
    /// Its name within the suite.
    pub(super) name: &'static str,
    /// One operation, in words, for the list of cases.
    pub(super) what: &'static str,
    /// The durability of its database.
    pub(super) durability: Durability,
    /// The bytes of one entry that are the user's; 0 where an operation carries none.
    pub(super) payload_bytes: usize,
    /// Threads or connections that work at the same time, those of all processes together.
    pub(super) clients: u32,
    /// Processes that work on the database.
    pub(super) processes: u32,
    /// Entries (messages, events, jobs, ...) that one operation carries.
    pub(super) batch: usize,
    /// How many operations, of all clients together, unless the user says otherwise: enough for the percentiles, seconds
    /// rather than minutes.
    pub(super) ops: u64,
    /// Measures it.
    ///
    /// # Errors
    /// [`Failure::Interrupted`] when it is to stop before the end, and what the database fails with.
    pub(super) run: fn(&Run<'_>) -> Result<Measured>,
}

/// What a case is given when it runs.
#[derive(Debug)]
pub(super) struct Run<'r> {
    /// The case.
    pub(super) case: &'r Case,
    /// How many operations, of all clients together.
    pub(super) ops: u64,
    /// A path of its own for a database; nothing is there yet, and what is there afterwards is removed.
    pub(super) path: PathBuf,
    /// The broker to load, if not one that the case starts.
    pub(super) bootstrap: Option<&'r str>,
    /// Whether to stop.
    pub(super) stop: &'r Stop,
}

impl Run<'_> {
    /// Goes on with operation number `op`, unless it is to stop.
    ///
    /// # Errors
    /// [`Failure::Interrupted`].
    pub(super) fn go_on(&self, op: u64) -> Result {
        match op.is_multiple_of(OPS_BETWEEN_LOOKS) && self.stop.is_asked() {
            true => Err(Failure::Interrupted),
            false => Ok(()),
        }
    }
}
