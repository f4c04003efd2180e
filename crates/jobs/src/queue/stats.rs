//! How many jobs of a queue are in which state.

use crate::JobState;

/// How many jobs of a queue are in which state, as of the last commit: what time has brought since is not taken in. Of the
/// finished ones, how many there were, but for those that were deleted or retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueStats {
    /// Their time to run has not come.
    pub scheduled: u64,
    /// May be fetched, as far as the queue's settings let them.
    pub pending: u64,
    /// Held by workers.
    pub active: u64,
    /// Waiting for their next attempt.
    pub retrying: u64,
    /// Held back.
    pub held: u64,
    /// Done.
    pub completed: u64,
    /// Called off.
    pub cancelled: u64,
    /// Given up.
    pub dead: u64,
}

impl QueueStats {
    /// How many are in this state.
    pub const fn of(&self, state: JobState) -> u64 {
        match state {
            JobState::Scheduled => self.scheduled,
            JobState::Pending => self.pending,
            JobState::Active => self.active,
            JobState::Retrying => self.retrying,
            JobState::Held => self.held,
            JobState::Completed => self.completed,
            JobState::Cancelled => self.cancelled,
            JobState::Dead => self.dead,
        }
    }
}
