//! One job as it can be read: what it is and where it stands.
//!
//! Ids and times come from the state, everything else from the log. A finished job is read from the log alone.

use alloc::string::String;
use alloc::vec::Vec;

use quire_model::{Entry, History, ModelId, Place, ReadError, Tags, Timestamp};

use crate::codec::{Effect, Enqueued, Verdict, job_tag, user_tags};
use crate::state::{JobState, Jobs, Phase};
use crate::{Backoff, Failure, JobId, LeaseToken, Priority};

/// A job with all that is known of it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobView {
    /// Its id.
    pub id: JobId,
    /// Its queue.
    pub queue: String,
    /// The name of the handler.
    pub kind: String,
    /// What the producer gave.
    pub payload: Vec<u8>,
    /// How urgent it is.
    pub priority: Priority,
    /// The words that it is tagged with, in order.
    pub tags: Vec<String>,
    /// When it was enqueued.
    pub enqueued_at: Timestamp,
    /// From when on it was to run: `enqueued_at` when that was at once.
    pub run_at: Timestamp,
    /// How many attempts it gets.
    pub attempts_max: u16,
    /// How long it waits between them.
    pub backoff: Backoff,
    /// How many attempts have started.
    pub attempt: u16,
    /// Where it stands.
    pub status: Status,
    /// How the last attempt before now went wrong. `None` when none did, and once the job is completed: then its
    /// history tells.
    pub last_failure: Option<Failure>,
}

/// The state of a job, with what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// Its time to run has not come.
    Scheduled {
        /// It comes then.
        run_at: Timestamp,
    },
    /// It may be fetched.
    Pending,
    /// A worker holds it.
    Active {
        /// The lease.
        token: LeaseToken,
        /// From this time on the lease no longer holds.
        deadline: Timestamp,
        /// Who holds it.
        worker: String,
    },
    /// It waits for its next attempt.
    Retrying {
        /// Which may start then.
        due: Timestamp,
    },
    /// Done.
    Completed {
        /// When.
        at: Timestamp,
        /// What came out.
        result: Vec<u8>,
    },
    /// Given up.
    Dead {
        /// When.
        at: Timestamp,
    },
}

impl JobView {
    /// The state alone.
    pub fn state(&self) -> JobState {
        match self.status {
            Status::Scheduled { .. } => JobState::Scheduled,
            Status::Pending => JobState::Pending,
            Status::Active { .. } => JobState::Active,
            Status::Retrying { .. } => JobState::Retrying,
            Status::Completed { .. } => JobState::Completed,
            Status::Dead { .. } => JobState::Dead,
        }
    }
}

impl Jobs {
    /// A job, live or finished; `None` when there is none of this id (any more).
    ///
    /// # Errors
    /// When its entries can't be read.
    pub fn job(&self, history: &dyn History, id: JobId) -> Result<Option<JobView>, ReadError> {
        let Some(entry) = history.entry(id.place())?.filter(|entry| entry.kind.model == ModelId::JOBS) else {
            return Ok(None);
        };
        let Effect::Enqueued(enqueued) = Effect::read(&entry)? else { return Ok(None) };
        let (attempt, status) = match self.jobs.get(&id) {
            Some(job) => (job.attempt, live_status(history, job.phase)?),
            None => match finished_status(history, id)? {
                Some(finished) => finished,
                None => return Ok(None),
            },
        };
        let before = match status {
            Status::Active { token, .. } => Some(token.place()),
            Status::Completed { .. } => None,
            _ => Some(Place::END),
        };
        let last_failure = before.map_or(Ok(None), |before| last_failure(history, id, before))?;
        Ok(Some(self.view(id, &entry, &enqueued, attempt, status, last_failure)))
    }

    fn view(
        &self,
        id: JobId,
        entry: &Entry<'_>,
        enqueued: &Enqueued<'_>,
        attempt: u16,
        status: Status,
        last_failure: Option<Failure>,
    ) -> JobView {
        JobView {
            id,
            queue: self.queue(enqueued.queue).name.clone(),
            kind: String::from(enqueued.kind),
            payload: enqueued.payload.to_vec(),
            priority: enqueued.priority,
            tags: words(entry.tags),
            enqueued_at: entry.time,
            run_at: enqueued.run_at,
            attempts_max: enqueued.attempts_max,
            backoff: enqueued.backoff,
            attempt,
            status,
            last_failure,
        }
    }
}

fn words(tags: Tags<'_>) -> Vec<String> {
    user_tags(tags).map(String::from).collect()
}

fn live_status(history: &dyn History, phase: Phase) -> Result<Status, ReadError> {
    Ok(match phase {
        Phase::Scheduled { run_at } => Status::Scheduled { run_at },
        Phase::Pending => Status::Pending,
        Phase::Retrying { due } => Status::Retrying { due },
        Phase::Active { token, deadline } => {
            let worker = match history.entry(token.place())?.map(|entry| Effect::read(&entry)).transpose()? {
                Some(Effect::Leased { worker, .. }) => String::from(worker),
                _ => String::new(),
            };
            Status::Active { token, deadline, worker }
        }
    })
}

/// The attempt and status of a job that is not live.
fn finished_status(history: &dyn History, id: JobId) -> Result<Option<(u16, Status)>, ReadError> {
    let Some(last) = history.previous(&[job_tag(id).tag()], Place::END)? else { return Ok(None) };
    Ok(match Effect::read(&last)? {
        Effect::Completed { attempt, result, .. } => {
            Some((attempt, Status::Completed { at: last.time, result: result.to_vec() }))
        }
        Effect::Failed { attempt, verdict: Verdict::Dead, .. }
        | Effect::LeaseExpired { attempt, verdict: Verdict::Dead, .. } => {
            Some((attempt, Status::Dead { at: last.time }))
        }
        _ => None,
    })
}

/// How the last attempt that ended before this place went wrong.
fn last_failure(history: &dyn History, id: JobId, before: Place) -> Result<Option<Failure>, ReadError> {
    let tag = job_tag(id);
    let mut before = before;
    while let Some(entry) = history.previous(&[tag.tag()], before)? {
        match Effect::read(&entry)? {
            Effect::Failed { error, .. } => return Ok(Some(Failure::Error(String::from(error)))),
            Effect::LeaseExpired { .. } => return Ok(Some(Failure::LeaseExpired)),
            _ => before = entry.place,
        }
    }
    Ok(None)
}
