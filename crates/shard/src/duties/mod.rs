//! The duties of a shard: its background work, when each duty is due, which thread runs it, and
//! which duties fail.

mod failing;
mod runner;
mod schedule;

use std::fmt;

pub use failing::DutyFailure;
pub(crate) use failing::Failures;
pub(crate) use runner::DutyRunner;
pub(crate) use schedule::{DueDuty, Schedule};

/// A task that a database runs in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    /// Sync requested commits; with [`Durability::Os`](quire_log::Durability::Os) every commit
    /// since the last sync.
    Sync,
    /// Prepare the next segment of the log.
    Prepare,
    /// Write the index file of a segment that is full and synced.
    Seal,
    /// Save the models' state, once enough log follows the last checkpoint.
    Checkpoint,
    /// Apply the passing of time to the queues: jobs whose delay or lease ended.
    Tick,
    /// Answer the compaction of another process; when due, rewrite segments of which enough no
    /// longer counts.
    Compact,
    /// Trim what topics, event stores and graphs no longer keep, when due.
    Retain,
    /// Enqueue a job for each event that matches a named subscription.
    Deliver,
    /// Write the lags of consumer groups to the statistics page, at most once a second, and only
    /// after new commits.
    Gauge,
}

impl Duty {
    /// Every duty.
    pub const ALL: [Duty; 9] = [
        Duty::Sync,
        Duty::Prepare,
        Duty::Seal,
        Duty::Checkpoint,
        Duty::Tick,
        Duty::Compact,
        Duty::Retain,
        Duty::Deliver,
        Duty::Gauge,
    ];
}

impl fmt::Display for Duty {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Duty::Sync => "sync",
            Duty::Prepare => "prepare",
            Duty::Seal => "seal",
            Duty::Checkpoint => "checkpoint",
            Duty::Tick => "tick",
            Duty::Compact => "compact",
            Duty::Retain => "retain",
            Duty::Deliver => "deliver",
            Duty::Gauge => "gauge",
        })
    }
}
