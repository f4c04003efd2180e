//! The jobs that a search finds and a bulk change changes.

use quire_model::Timestamp;

use crate::name::check_queue_name;
use crate::{JobId, JobLimit, JobState, Refusal};

/// A filter of jobs. A job matches when it meets every given condition.
#[derive(Debug, Clone, Copy, Default, Hash)]
pub struct Filter<'c> {
    /// One of these, at most 10,000; one that is given twice counts once.
    pub jobs: Option<&'c [JobId]>,
    /// In this queue, or one that had its name before.
    pub queue: Option<&'c str>,
    /// In one of these states.
    pub states: States,
    /// The kind.
    pub kind: Option<&'c str>,
    /// With all of these tags.
    pub tags: &'c [&'c str],
    /// Enqueued at this time or later.
    pub enqueued_from: Option<Timestamp>,
    /// Enqueued before this time.
    pub enqueued_before: Option<Timestamp>,
    /// Finished at this time or later.
    pub finished_from: Option<Timestamp>,
    /// Finished before this time.
    pub finished_before: Option<Timestamp>,
    /// The least number of started attempts.
    pub attempts_min: Option<u16>,
    /// The last error holds this text.
    pub error: Option<&'c str>,
}

/// A set of states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct States(u8);

impl States {
    /// These.
    pub fn of(states: impl IntoIterator<Item = JobState>) -> Self {
        States(states.into_iter().fold(0, |bits, state| bits | 1 << state as u8))
    }

    /// Whether a state is among them.
    pub fn contains(self, state: JobState) -> bool {
        self.0 & 1 << state as u8 != 0
    }

    pub(crate) fn bits(self) -> u8 {
        self.0
    }

    pub(crate) fn from_bits(bits: u8) -> Self {
        States(bits)
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = JobState> {
        JobState::ALL.into_iter().filter(move |state| self.contains(*state))
    }
}

impl Default for States {
    /// All of them.
    fn default() -> Self {
        States(u8::MAX)
    }
}

impl Filter<'_> {
    /// Checks every size and count.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        self.jobs.iter().try_for_each(|jobs| JobLimit::FilterJobs.check(jobs.len() as u64))?;
        self.queue.iter().try_for_each(|queue| check_queue_name(queue))?;
        self.kind.iter().try_for_each(|kind| JobLimit::KindBytes.check(kind.len() as u64))?;
        self.error.iter().try_for_each(|error| JobLimit::ReasonBytes.check(error.len() as u64))?;
        JobLimit::Tags.check(self.tags.len() as u64)?;
        self.tags.iter().try_for_each(|tag| JobLimit::TagBytes.check(tag.len() as u64))
    }
}
