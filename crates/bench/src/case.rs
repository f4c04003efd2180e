//! A case: the operation to measure, the facts printed beside its result, and its surroundings.
//!
//! Suite, name and durability are stable: results of different versions are compared by them.

use std::path::PathBuf;

use quire::Durability;

use super::measurement::CaseResult;
use quire_cli::failure::{CommandError, Result};
use quire_cli::stop::StopSignal;

/// The number of operations between two checks of the stop signal. The checks cost nothing
/// measurable.
const OPS_BETWEEN_LOOKS: u64 = 16;

/// An operation to measure.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    /// The suite: `log`, `events`, ...
    pub(super) suite: &'static str,
    /// The name within the suite.
    pub(super) name: &'static str,
    /// A description of one operation, for the list of cases.
    pub(super) what: &'static str,
    /// The durability of its database.
    pub(super) durability: Durability,
    /// Bytes of user data in an entry; 0 when an operation carries none.
    pub(super) payload_bytes: usize,
    /// Threads or connections that work at the same time, in all processes together.
    pub(super) clients: u32,
    /// Processes that work on the database.
    pub(super) processes: u32,
    /// Entries (messages, events, jobs, ...) that one operation carries.
    pub(super) batch: usize,
    /// The default number of operations of all clients together. It is large enough for the
    /// percentiles, and takes seconds rather than minutes.
    pub(super) ops: u64,
    /// Runs the case.
    ///
    /// # Errors
    /// [`CommandError::Interrupted`] at the stop signal, and the errors of the database.
    pub(super) run: fn(&CaseRun<'_>) -> Result<CaseResult>,
}

/// The surroundings of a running case.
#[derive(Debug)]
pub(super) struct CaseRun<'r> {
    /// The case.
    pub(super) case: &'r Case,
    /// The number of operations of all clients together.
    pub(super) ops: u64,
    /// A path for the database of this case. It does not exist yet, and is removed afterwards.
    pub(super) path: PathBuf,
    /// The broker to load, unless the case starts one.
    pub(super) bootstrap: Option<&'r str>,
    /// The number of servers, for a case of the suite `cluster`.
    pub(super) nodes: u32,
    /// The stop signal.
    pub(super) stop: &'r StopSignal,
}

impl CaseRun<'_> {
    /// Whether to run operation number `op`: false after the stop signal.
    ///
    /// # Errors
    /// [`CommandError::Interrupted`].
    pub(super) fn go_on(&self, op: u64) -> Result {
        match op.is_multiple_of(OPS_BETWEEN_LOOKS) && self.stop.is_asked() {
            true => Err(CommandError::Interrupted),
            false => Ok(()),
        }
    }
}
