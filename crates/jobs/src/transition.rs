//! One job's step from one state to the next: the transition table as a function.
//!
//! Deciding and applying both go through here, so a draft and a replay can't part ways. An effect that the table has no
//! row for was never decided: it panics.

use quire_model::{Place, Timestamp};

use crate::codec::{Effect, Enqueued, Verdict};
use crate::state::{Job, JobState, Phase};
use crate::{JobId, LeaseToken};

/// What an effect leaves of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Live(Job),
    Finished(JobState),
}

impl Standing {
    pub(crate) fn state(&self) -> JobState {
        match self {
            Standing::Live(job) => job.state(),
            Standing::Finished(state) => *state,
        }
    }
}

impl Verdict {
    pub(crate) fn state(self) -> JobState {
        match self {
            Verdict::Dead => JobState::Dead,
            Verdict::Pending => JobState::Pending,
            Verdict::Retrying { .. } => JobState::Retrying,
        }
    }
}

impl Enqueued<'_> {
    /// The job in its first state, in a record of this time.
    pub(crate) fn job(&self, time: Timestamp) -> Job {
        let phase = if self.run_at > time { Phase::Scheduled { run_at: self.run_at } } else { Phase::Pending };
        Job {
            queue: self.queue,
            priority: self.priority,
            attempt: 0,
            attempts_max: self.attempts_max,
            backoff: self.backoff,
            phase,
        }
    }
}

impl Effect<'_> {
    /// The jobs that were there before and are changed by this.
    pub(crate) fn jobs(&self) -> &[JobId] {
        match self {
            Effect::QueueCreated { .. } | Effect::Enqueued(_) => &[],
            Effect::Leased { job, .. }
            | Effect::Extended { job, .. }
            | Effect::Completed { job, .. }
            | Effect::Failed { job, .. }
            | Effect::LeaseExpired { job, .. } => core::slice::from_ref(job),
            Effect::Due { jobs } => jobs,
        }
    }
}

impl Job {
    /// What is left of this job when the entry at `place` says `effect` of it.
    pub(crate) fn after(self, effect: &Effect<'_>, place: Place) -> Standing {
        let live = |attempt, phase| Standing::Live(Job { attempt, phase, ..self });
        match (self.phase, effect) {
            (Phase::Pending, Effect::Leased { attempt, deadline, .. }) => {
                live(*attempt, Phase::Active { token: LeaseToken::new(place), deadline: *deadline })
            }
            (Phase::Active { token, .. }, Effect::Extended { deadline, .. }) => {
                live(self.attempt, Phase::Active { token, deadline: *deadline })
            }
            (Phase::Active { .. }, Effect::Completed { .. }) => Standing::Finished(JobState::Completed),
            (Phase::Active { .. }, Effect::Failed { verdict, .. } | Effect::LeaseExpired { verdict, .. }) => {
                match verdict {
                    Verdict::Dead => Standing::Finished(JobState::Dead),
                    Verdict::Pending => live(self.attempt, Phase::Pending),
                    Verdict::Retrying { due } => live(self.attempt, Phase::Retrying { due: *due }),
                }
            }
            (Phase::Scheduled { .. } | Phase::Retrying { .. }, Effect::Due { .. }) => {
                live(self.attempt, Phase::Pending)
            }
            (phase, effect) => panic!("entry {place} says {effect:?} of a job that is {phase:?}"),
        }
    }
}
