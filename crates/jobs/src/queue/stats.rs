//! The number of jobs of a queue in each state.

use crate::JobState;

/// The number of jobs of a queue in each state, as of the last commit. Later changes by time are
/// not included. `completed`, `cancelled` and `dead` are totals, minus jobs that were deleted or
/// retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueStats {
    /// They wait for their scheduled time.
    pub scheduled: u64,
    /// Fetchable, within the limits of the queue.
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
    /// Returns the number of jobs in this state.
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
