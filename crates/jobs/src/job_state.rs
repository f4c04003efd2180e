//! The states of a job.

use core::fmt;

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum JobState {
    /// It waits for its scheduled time.
    Scheduled,
    /// It may be fetched.
    Pending,
    /// A worker holds it.
    Active,
    /// An attempt failed; it waits for the next.
    Retrying,
    /// It is on hold.
    Held,
    /// Done.
    Completed,
    /// Called off.
    Cancelled,
    /// Given up.
    Dead,
}

impl JobState {
    /// All of them, in the order of a job's life.
    pub const ALL: [JobState; 8] = [
        JobState::Scheduled,
        JobState::Pending,
        JobState::Active,
        JobState::Retrying,
        JobState::Held,
        JobState::Completed,
        JobState::Cancelled,
        JobState::Dead,
    ];

    /// The name, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            JobState::Scheduled => "scheduled",
            JobState::Pending => "pending",
            JobState::Active => "active",
            JobState::Retrying => "retrying",
            JobState::Held => "held",
            JobState::Completed => "completed",
            JobState::Cancelled => "cancelled",
            JobState::Dead => "dead",
        }
    }

    /// The state of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        JobState::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Whether a job in this state is no longer to be worked on.
    pub const fn is_finished(self) -> bool {
        matches!(self, JobState::Completed | JobState::Cancelled | JobState::Dead)
    }

    pub(crate) fn from_number(number: u8) -> Option<Self> {
        JobState::ALL.get(usize::from(number)).copied()
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
