//! The replaceable components of a log, and its background duties.

use std::sync::Arc;

use crate::storage::{Disk, Storage};
use crate::time::clock::{Clock, SystemClock};

/// The components that the owner of a log can replace.
#[derive(Debug, Clone)]
pub struct Components {
    /// The file system. Default: [`Disk`].
    pub storage: Arc<dyn Storage>,
    /// The clock. Default: [`SystemClock`].
    pub clock: Arc<dyn Clock>,
    /// Which threads carry out the background duties. Default:
    /// [`Background::Threads`](crate::Background::Threads).
    pub background: Background,
}

impl Default for Components {
    fn default() -> Self {
        Components { storage: Arc::new(Disk), clock: Arc::new(SystemClock), background: Background::default() }
    }
}

/// Which threads carry out the background duties.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Background {
    /// Threads of the log.
    #[default]
    Threads,
    /// Only threads that call [`Log::carry_out`](crate::Log::carry_out), so that a simulation
    /// controls the order. Nothing waits for a duty: the writer makes the next segment itself when
    /// it needs one.
    Caller,
}

/// A background duty of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogDuty {
    /// Sync the requested records and, in an `os` log, all appended records.
    Sync,
    /// Prepare the next segment.
    Prepare,
    /// Write the index file of a segment that is full and synced.
    Seal,
}
