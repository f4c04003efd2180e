//! What happened to a job: the walk over its tag.
//!
//! Every transition is an entry with the job's tag, so the history needs no state, and outlives the job until
//! retention takes it.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use quire_model::{Entry, History, Place, ReadError, Timestamp};

use crate::JobId;
use crate::codec::{Effect, Verdict, job_tag};
use crate::state::{JobState, Jobs};

/// One step of a job's life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// Where it stands in the log: go on reading from [`Place::after`] it.
    pub place: Place,
    /// When.
    pub time: Timestamp,
    /// The state that it led to.
    pub state: JobState,
    /// What happened.
    pub kind: TransitionKind,
}

/// What happened to a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransitionKind {
    /// It was enqueued.
    Enqueued {
        /// To run from then on.
        run_at: Timestamp,
    },
    /// Its time to run had come.
    Due,
    /// A worker fetched it; the token is the transition's place.
    Leased {
        /// The number of the attempt, from 1.
        attempt: u16,
        /// Who fetched it.
        worker: String,
        /// Until when.
        deadline: Timestamp,
    },
    /// A heartbeat made the lease last longer.
    Extended {
        /// Until when.
        deadline: Timestamp,
    },
    /// It was acknowledged.
    Completed {
        /// In which attempt.
        attempt: u16,
        /// What came out.
        result: Vec<u8>,
    },
    /// An attempt went wrong.
    Failed {
        /// Which.
        attempt: u16,
        /// How.
        failure: Failure,
        /// When the next may start; `None` when the job is dead.
        retry_at: Option<Timestamp>,
    },
}

/// How an attempt went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The worker said so.
    Error(String),
    /// The worker was not heard of in time.
    LeaseExpired,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Error(error) => f.write_str(error),
            Failure::LeaseExpired => f.write_str("lease expired"),
        }
    }
}

impl Jobs {
    /// The life of a job from a place on, at most `count_max` steps, oldest first; empty when there is no such job or
    /// no more. Begin at [`Place::START`].
    ///
    /// # Errors
    /// When an entry can't be read.
    pub fn history(
        &self,
        history: &dyn History,
        id: JobId,
        from: Place,
        count_max: usize,
    ) -> Result<Vec<Transition>, ReadError> {
        let tag = job_tag(id);
        let mut transitions = Vec::new();
        let mut from = from;
        while transitions.len() < count_max
            && let Some(entry) = history.next(&[tag.tag()], from)?
        {
            transitions.push(transition(&entry)?);
            from = entry.place.after();
        }
        Ok(transitions)
    }
}

/// The state of a job after this entry that carries its tag.
pub(crate) fn state_after(entry: &Entry<'_>) -> Result<JobState, ReadError> {
    transition(entry).map(|transition| transition.state)
}

fn transition(entry: &Entry<'_>) -> Result<Transition, ReadError> {
    let (state, kind) = match Effect::read(entry)? {
        Effect::QueueCreated { .. } => {
            return Err(ReadError::damaged(Some(entry.place), "a queue's entry carries the tag of a job"));
        }
        Effect::Enqueued(enqueued) => {
            (enqueued.job(entry.time).state(), TransitionKind::Enqueued { run_at: enqueued.run_at })
        }
        Effect::Due { .. } => (JobState::Pending, TransitionKind::Due),
        Effect::Leased { attempt, deadline, worker, .. } => {
            (JobState::Active, TransitionKind::Leased { attempt, worker: String::from(worker), deadline })
        }
        Effect::Extended { deadline, .. } => (JobState::Active, TransitionKind::Extended { deadline }),
        Effect::Completed { attempt, result, .. } => {
            (JobState::Completed, TransitionKind::Completed { attempt, result: result.to_vec() })
        }
        Effect::Failed { attempt, verdict, error, .. } => {
            (verdict.state(), failed(entry.time, attempt, Failure::Error(String::from(error)), verdict))
        }
        Effect::LeaseExpired { attempt, verdict, .. } => {
            (verdict.state(), failed(entry.time, attempt, Failure::LeaseExpired, verdict))
        }
    };
    Ok(Transition { place: entry.place, time: entry.time, state, kind })
}

fn failed(time: Timestamp, attempt: u16, failure: Failure, verdict: Verdict) -> TransitionKind {
    let retry_at = match verdict {
        Verdict::Dead => None,
        Verdict::Pending => Some(time),
        Verdict::Retrying { due } => Some(due),
    };
    TransitionKind::Failed { attempt, failure, retry_at }
}
