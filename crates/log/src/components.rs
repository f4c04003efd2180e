//! The parts of a log that act, and what it does in the background.

use std::sync::Arc;

use crate::storage::{Disk, Storage};
use crate::time::clock::{Clock, SystemClock};

/// The parts of a log that act, to be passed in.
#[derive(Debug, Clone)]
pub struct Components {
    /// Where its files are. Default: [`Disk`].
    pub storage: Arc<dyn Storage>,
    /// Where it gets the time from. Default: [`SystemClock`].
    pub clock: Arc<dyn Clock>,
    /// Who carries out its duties. Default: [`Background::Threads`](crate::Background::Threads).
    pub background: Background,
}

impl Default for Components {
    fn default() -> Self {
        Components { storage: Arc::new(Disk), clock: Arc::new(SystemClock), background: Background::default() }
    }
}

/// Who carries out what is done in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Background {
    /// Threads of its own.
    #[default]
    Threads,
    /// Whoever calls [`Log::carry_out`](crate::Log::carry_out), and nobody else: so that a simulation says what happens when. Nothing waits for
    /// what nobody does: a segment that is needed is made on the spot.
    Caller,
}

/// What a log does in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    /// Sync what was requested, and in an `os` log what was appended.
    Sync,
    /// Make the next segment ready.
    Prepare,
    /// Make the index of a segment that is full and synced, in a file.
    Seal,
}
