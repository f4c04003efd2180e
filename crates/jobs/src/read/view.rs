//! One job as a reader gets it: its fields and its state.
//!
//! Ids and times come from the state, everything else from the log. A finished job is read from the
//! log alone.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use quire_model::{Entry, History, Place, ReadError, Timestamp};

use super::chain::{Chain, JobEvent};
use super::logged::{JobEnd, LastStep, Status, ended, enqueued_at, gone, noted_left, payload_left};
use super::names::QueueNames;
use crate::codec::{JobEntry, user_tags};
use crate::job::Job;
use crate::{Backoff, Cause, JobId, JobState, Jobs, LeaseToken, Priority};

/// A job with all that is known of it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobView {
    /// Its id.
    pub id: JobId,
    /// Its queue, also when that is destroyed.
    pub queue: String,
    /// The name of the handler.
    pub kind: String,
    /// The job's group.
    pub group: String,
    /// The payload.
    pub payload: Vec<u8>,
    /// The priority.
    pub priority: Priority,
    /// The words that it is tagged with, in order.
    pub tags: Vec<String>,
    /// Its unique key, whether or not it still has it.
    pub unique_key: Option<Vec<u8>>,
    /// When it was enqueued.
    pub enqueued_at: Timestamp,
    /// When it was to run, by the last request: of its producer, or of a reschedule, snooze,
    /// release or retry. For a request to run at once, the time of the request.
    pub run_at: Timestamp,
    /// When it is no longer worth to begin; `None` of one that expired and was retried, too.
    pub expires_at: Option<Timestamp>,
    /// The longest duration of an attempt, in microseconds.
    pub timeout_micros: Option<u64>,
    /// The largest number of attempts.
    pub attempts_max: u16,
    /// The waits between attempts.
    pub backoff: Backoff<Vec<u64>>,
    /// The percentage by which a wait may be shorter.
    pub jitter_percent: u8,
    /// Its own retention after it finishes, in microseconds, if it has one.
    pub retention_micros: Option<u64>,
    /// The number of started attempts.
    pub attempt: u16,
    /// The state, with its facts.
    pub status: Status,
    /// The last progress that a worker reported.
    pub progress: Option<Vec<u8>>,
    /// The checkpoint for the next attempt. A dead job has one in case it is retried.
    pub checkpoint: Option<Vec<u8>>,
    /// The error of the last failed attempt. `None` when no attempt failed, and once the job is
    /// completed; its history has the errors then.
    pub last_error: Option<String>,
}

impl JobView {
    /// The state alone.
    pub fn state(&self) -> JobState {
        match self.status {
            Status::Scheduled { .. } => JobState::Scheduled,
            Status::Pending => JobState::Pending,
            Status::Active { .. } => JobState::Active,
            Status::Retrying { .. } => JobState::Retrying,
            Status::Held { .. } => JobState::Held,
            Status::Completed { .. } => JobState::Completed,
            Status::Cancelled { .. } => JobState::Cancelled,
            Status::Dead { .. } => JobState::Dead,
        }
    }
}

impl Jobs {
    /// Whether this lease holds the job. An expired lease counts until a command has noticed the
    /// expiry.
    pub fn is_leased(&self, id: JobId, token: LeaseToken) -> bool {
        self.known(id).is_some_and(|job| job.is_held_by(token))
    }

    /// A job, live or finished; `None` when the id is unknown or the job was removed.
    ///
    /// # Errors
    /// When the job's entries can't be read.
    pub fn job(&self, history: &dyn History, id: JobId) -> Result<Option<JobView>, ReadError> {
        let Some((entry, enqueued)) = enqueued_at(history, id)? else { return Ok(None) };
        let Some(end) = self.end_or_standing(history, id)? else { return Ok(None) };
        self.view(history, &entry, &enqueued, end)
    }

    /// Returns the end of a job; `None` when it is live, was deleted, or never existed.
    pub(crate) fn end(&self, history: &dyn History, id: JobId) -> Result<Option<JobEnd>, ReadError> {
        Ok(self.end_or_standing(history, id)?.filter(|end| end.ended.state.is_finished()))
    }

    /// Returns the end of a job, or its current state.
    fn end_or_standing(&self, history: &dyn History, id: JobId) -> Result<Option<JobEnd>, ReadError> {
        let Some(job) = self.known(id) else { return ended(history, id) };
        let final_facts = job.final_facts(id, self.extra(id, &job));
        let ended = LastStep { state: job.state, final_facts, place: job.last(), attempt: job.attempt };
        Ok(Some(JobEnd { ended, status: self.status(history, id, &job)? }))
    }

    fn view(
        &self,
        history: &dyn History,
        entry: &Entry<'_>,
        enqueued: &JobEntry<'_>,
        end: JobEnd,
    ) -> Result<Option<JobView>, ReadError> {
        let JobEnd { ended: LastStep { state, final_facts, place, attempt }, status } = end;
        let id = JobId::new(entry.place);
        let mut chain = Chain { history, id, next: Some(place) };
        let (mut run_at, mut last_error) = (None, None);
        while (run_at.is_none() || last_error.is_none() && state != JobState::Completed)
            && let Some(step) = chain.next()?
        {
            if run_at.is_none() && step.event.says_when() {
                run_at = Some(step.until.unwrap_or(step.time));
            }
            if last_error.is_none() && step.event.is_failure() && state != JobState::Completed {
                last_error = Some(step.note);
            }
        }
        // The log may have removed some entries of a finished job, or all of them.
        let may_be_gone = matches!(state, JobState::Completed | JobState::Cancelled);
        let payload = match payload_left(history, final_facts.content)? {
            None if may_be_gone => return Ok(None),
            payload => payload.ok_or_else(|| gone(final_facts.content))?,
        };
        let said = |place: Option<Place>| match place.map(|place| noted_left(history, place)).transpose()? {
            Some(None) if !may_be_gone => Err(gone(final_facts.content)),
            said => Ok(said.flatten()),
        };
        Ok(Some(JobView {
            id,
            queue: String::from(&*match self.queues.get(&final_facts.queue) {
                Some(queue) => Arc::clone(&queue.name),
                None => QueueNames::default().of(history, final_facts.queue)?,
            }),
            kind: String::from(enqueued.kind),
            group: String::from(enqueued.group),
            payload,
            priority: final_facts.priority,
            tags: user_tags(entry.tags).map(String::from).collect(),
            unique_key: enqueued.unique.map(|unique| unique.key.to_vec()),
            enqueued_at: entry.time,
            run_at: run_at.unwrap_or_else(|| enqueued.run_at.unwrap_or(entry.time)),
            expires_at: match self.jobs.get(&id).filter(|_| !state.is_finished()) {
                Some(job) => self.extra(id, job).and_then(|extra| extra.expires_at),
                None => enqueued.expires_at,
            },
            timeout_micros: enqueued.timeout_micros,
            attempts_max: final_facts.attempts_max,
            backoff: enqueued.backoff.clone(),
            jitter_percent: enqueued.jitter_percent,
            retention_micros: enqueued.retention_micros,
            attempt,
            status,
            progress: said(final_facts.progress)?.and_then(|(progress, _)| progress),
            checkpoint: said(final_facts.checkpoint)?.and_then(|(_, checkpoint)| checkpoint),
            last_error,
        }))
    }

    /// Returns the state of a job in memory.
    fn status(&self, history: &dyn History, id: JobId, job: &Job) -> Result<Status, ReadError> {
        let mut chain = Chain { history, id, next: Some(job.last()) };
        let mut note = |wanted: &[Cause]| {
            let is_wanted = |event: JobEvent| matches!(event, JobEvent::Step(cause) if wanted.contains(&cause));
            Ok::<_, ReadError>(chain.find(|step| is_wanted(step.event))?.map_or_else(String::new, |step| step.note))
        };
        Ok(match job.state {
            JobState::Scheduled => Status::Scheduled { run_at: job.until() },
            JobState::Pending => Status::Pending,
            JobState::Retrying => Status::Retrying { due: job.until() },
            JobState::Active => Status::Active {
                token: LeaseToken::new(job.last()),
                deadline: job.until(),
                worker: note(&[Cause::Leased])?,
            },
            JobState::Cancelled => {
                Status::Cancelled { at: job.until(), reason: String::from(self.queue(job.queue).why_cleared(job)) }
            }
            _ => Status::Held { reason: note(&[Cause::Held, Cause::Unreadable])? },
        })
    }
}
