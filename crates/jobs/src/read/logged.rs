//! Facts about a job that are only in the log: its end, its enqueue, its payload, its heartbeats.

use alloc::string::String;
use alloc::vec::Vec;

use quire_model::{Entry, History, ModelId, Place, ReadError, Timestamp};

use crate::codec::{Effect, FinalFacts, JobEntry, Step, job_tag, unreadable};
use crate::{Cause, JobId, JobState, LeaseToken};

/// The state of a job, with what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// It waits for its scheduled time.
    Scheduled {
        /// The scheduled time.
        run_at: Timestamp,
    },
    /// It may be fetched.
    Pending,
    /// A worker holds it.
    Active {
        /// The lease.
        token: LeaseToken,
        /// The time at which the lease ends.
        deadline: Timestamp,
        /// The worker.
        worker: String,
    },
    /// It waits for its next attempt.
    Retrying {
        /// The time at which the job may start.
        due: Timestamp,
    },
    /// It is on hold.
    Held {
        /// Why.
        reason: String,
    },
    /// Done.
    Completed {
        /// When.
        at: Timestamp,
        /// The result.
        result: Vec<u8>,
    },
    /// Called off.
    Cancelled {
        /// When.
        at: Timestamp,
        /// Why.
        reason: String,
    },
    /// Given up.
    Dead {
        /// When.
        at: Timestamp,
        /// The cause of the end.
        cause: Cause,
    },
}

impl Status {
    /// When the job was finished; `None` while it is not.
    pub fn finished_at(&self) -> Option<Timestamp> {
        match self {
            Status::Completed { at, .. } | Status::Cancelled { at, .. } | Status::Dead { at, .. } => Some(*at),
            Status::Scheduled { .. } | Status::Pending | Status::Active { .. } => None,
            Status::Retrying { .. } | Status::Held { .. } => None,
        }
    }
}

/// The last step of a job that is not live.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LastStep {
    pub(crate) state: JobState,
    pub(crate) final_facts: FinalFacts,
    /// The place of its last step.
    pub(crate) place: Place,
    pub(crate) attempt: u16,
}

/// The end of a job, with its further facts.
#[derive(Debug, Clone)]
pub(crate) struct JobEnd {
    pub(crate) ended: LastStep,
    pub(crate) status: Status,
}

/// Reads the end of a job that is no longer in memory; `None` when it was deleted, or never
/// existed.
pub(crate) fn ended(history: &dyn History, id: JobId) -> Result<Option<JobEnd>, ReadError> {
    let Some(last) = history.previous(&[job_tag(id).tag()], Place::END)? else { return Ok(None) };
    let Effect::Steps(steps) = Effect::read(&last)? else { return Ok(None) };
    for step in steps.iter() {
        let step = step.map_err(|error| unreadable(last.place, &error))?;
        if step.job == id {
            return Ok(ended_by(&last, steps.cause, steps.shared, &step));
        }
    }
    Ok(None)
}

fn ended_by(entry: &Entry<'_>, cause: Cause, shared: &str, step: &Step<'_>) -> Option<JobEnd> {
    let state = step.to.state()?;
    let status = match state {
        JobState::Completed => Status::Completed { at: entry.time, result: step.detail.to_vec() },
        JobState::Cancelled => Status::Cancelled {
            at: step.time(cause, entry.time),
            reason: String::from(if cause == Cause::Replaced { "replaced by a newer job of its key" } else { shared }),
        },
        _ => Status::Dead { at: entry.time, cause },
    };
    let ended = LastStep { state, final_facts: step.to.final_facts()?, place: entry.place, attempt: step.attempt };
    Some(JobEnd { ended, status })
}

/// The enqueue entry of a job; `None` when the id is unknown or its entry was removed.
pub(crate) fn enqueued_at(history: &dyn History, id: JobId) -> Result<Option<(Entry<'_>, JobEntry<'_>)>, ReadError> {
    let Some(entry) = history.entry(id.place())?.filter(|entry| entry.kind.model == ModelId::JOBS) else {
        return Ok(None);
    };
    match Effect::read(&entry)? {
        Effect::Enqueued(enqueued) => Ok(Some((entry, enqueued))),
        _ => Ok(None),
    }
}

/// The payload in the entry at this place; `None` when the entry no longer exists.
pub(crate) fn payload_left(history: &dyn History, place: Place) -> Result<Option<Vec<u8>>, ReadError> {
    let payload = match history.entry(place)?.map(|entry| Effect::read(&entry)).transpose()? {
        Some(Effect::Enqueued(enqueued)) => Some(enqueued.payload),
        Some(Effect::Edited(edited)) => edited.payload,
        Some(Effect::Revived(revived)) => revived.payload,
        _ => None,
    };
    Ok(payload.map(<[u8]>::to_vec))
}

/// Like [`payload_left`], for a job whose entries must exist: a missing entry is damage.
pub(crate) fn payload_at(history: &dyn History, place: Place) -> Result<Vec<u8>, ReadError> {
    payload_left(history, place)?.ok_or_else(|| gone(place))
}

/// The progress and the checkpoint of a heartbeat.
pub(crate) type HeartbeatData = (Option<Vec<u8>>, Option<Vec<u8>>);

/// Reads the heartbeat at this place; `None` when the entry no longer exists.
pub(crate) fn noted_left(history: &dyn History, place: Place) -> Result<Option<HeartbeatData>, ReadError> {
    Ok(match history.entry(place)?.map(|entry| Effect::read(&entry)).transpose()? {
        Some(Effect::Noted { progress, checkpoint, .. }) => {
            Some((progress.map(<[u8]>::to_vec), checkpoint.map(<[u8]>::to_vec)))
        }
        _ => None,
    })
}

/// Like [`noted_left`], for a job whose entries must exist: a missing entry is damage.
pub(crate) fn noted_at(history: &dyn History, place: Place) -> Result<HeartbeatData, ReadError> {
    noted_left(history, place)?.ok_or_else(|| gone(place))
}

pub(crate) fn gone(place: Place) -> ReadError {
    ReadError::damaged(Some(place), "the entry of a job is missing")
}
