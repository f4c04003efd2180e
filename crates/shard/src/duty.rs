//! What a shard does in the background.

use std::fmt;

/// What a database does in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    /// Sync what was requested; with [`Durability::Os`](quire_log::Durability::Os) also what was committed since the last time.
    Sync,
    /// Make the next segment of the log ready.
    Prepare,
    /// Make the index of a segment of the log that is full and synced, in a file.
    Seal,
    /// Save the models' state, when there is enough log behind the last time.
    Checkpoint,
    /// Take in what time has brought to the queues.
    Tick,
    /// Do what the compaction of another process asks for; rewrite segments of which enough no longer counts, when it is time to
    /// look.
    Compact,
    /// Let go of the records that their topics keep no longer, when it is time to look for them.
    Retain,
    /// Make jobs of the events that named subscriptions ask for.
    Deliver,
    /// Tell on the statistics page how far consumer groups are behind, when anything was published since the last time, and a second is
    /// over.
    Gauge,
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
