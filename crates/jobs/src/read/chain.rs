//! The history of a job: the chain of its steps, newest first.
//!
//! Every step is in the log and has the place of the step before. So the history needs no state,
//! and is readable after the job ended, until retention removes it. Heartbeats are no steps: only
//! the last progress and checkpoint are known.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use quire_model::{Entry, History, ModelId, Place, ReadError, Timestamp};

use super::names::QueueNames;
use crate::codec::{Effect, Step, To, unreadable};
use crate::{Cause, JobId, JobState};

/// One step of a job's life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// Its place in the log.
    pub place: Place,
    /// When.
    pub time: Timestamp,
    /// The event.
    pub event: JobEvent,
    /// The state that it led to; `None` when the state stayed, or the job is deleted.
    pub state: Option<JobState>,
    /// The number of started attempts.
    pub attempt: u16,
    /// When the state ends by itself: a lease, a wait.
    pub until: Option<Timestamp>,
    /// The worker, the reason of a cancellation or a hold, the error, or the other queue of a move;
    /// otherwise empty.
    pub note: String,
    /// The result of a completed job.
    pub result: Vec<u8>,
}

/// An event in the life of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobEvent {
    /// It was enqueued.
    Enqueued,
    /// It took a step.
    Step(Cause),
    /// It was moved, or its payload, priority or number of attempts was changed.
    Edited,
    /// It was dead, and is pending again.
    Revived,
    /// A heartbeat reported progress.
    Progress,
    /// It was moved to another queue, and edited there.
    MovedOut,
    /// The queue was used for the first time.
    QueueCreated,
    /// A setting of the queue was changed.
    QueueSet,
    /// Every job of the queue that was not active was cancelled.
    QueueCleared,
    /// The queue was removed, and all its jobs were cancelled.
    QueueDestroyed,
}

impl JobEvent {
    /// All that a job's steps are not.
    const OTHERS: [JobEvent; 9] = [
        JobEvent::Enqueued,
        JobEvent::Edited,
        JobEvent::Revived,
        JobEvent::Progress,
        JobEvent::MovedOut,
        JobEvent::QueueCreated,
        JobEvent::QueueSet,
        JobEvent::QueueCleared,
        JobEvent::QueueDestroyed,
    ];

    /// All of them.
    pub fn all() -> impl Iterator<Item = JobEvent> {
        JobEvent::OTHERS.into_iter().chain(Cause::ALL.into_iter().map(JobEvent::Step))
    }

    /// The event of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        JobEvent::all().find(|event| event.name() == name)
    }

    /// The name, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            JobEvent::Enqueued => "enqueued",
            JobEvent::Edited => "edited",
            JobEvent::Revived => "retried",
            JobEvent::Progress => "progress",
            JobEvent::MovedOut => "moved out",
            JobEvent::QueueCreated => "queue created",
            JobEvent::QueueSet => "queue set",
            JobEvent::QueueCleared => "queue cleared",
            JobEvent::QueueDestroyed => "queue destroyed",
            JobEvent::Step(cause) => cause.name(),
        }
    }

    /// Returns the name of the note of such a step: `worker`, `error` or `reason`.
    pub const fn note_name(self) -> &'static str {
        match self {
            JobEvent::Step(Cause::Leased) => "worker",
            JobEvent::Step(Cause::Failed | Cause::LeaseExpired | Cause::TimedOut | Cause::Unreadable) => "error",
            _ => "reason",
        }
    }

    /// Whether the event sets the job's run time.
    pub(crate) const fn says_when(self) -> bool {
        let is_step = matches!(self, JobEvent::Step(Cause::Rescheduled | Cause::Snoozed | Cause::Released));
        is_step || matches!(self, JobEvent::Enqueued | JobEvent::Revived)
    }

    /// Whether an attempt went wrong.
    pub const fn is_failure(self) -> bool {
        matches!(self, JobEvent::Step(Cause::Failed | Cause::LeaseExpired | Cause::TimedOut))
    }
}

/// The walk along a job's chain.
pub(crate) struct Chain<'h> {
    pub(crate) history: &'h dyn History,
    pub(crate) id: JobId,
    /// The step to read next.
    pub(crate) next: Option<Place>,
}

impl Chain<'_> {
    /// The step before; `None` at the end, and when retention has removed earlier steps.
    pub(crate) fn next(&mut self) -> Result<Option<Transition>, ReadError> {
        let Some(place) = self.next.take() else { return Ok(None) };
        let Some(entry) = self.history.entry(place)?.filter(|entry| entry.kind.model == ModelId::JOBS) else {
            return Ok(None);
        };
        let plain = plain(&entry);
        Ok(match Effect::read(&entry)? {
            Effect::Enqueued(enqueued) if place == self.id.place() => {
                let until = enqueued.run_at.filter(|run_at| *run_at > entry.time);
                let state = if until.is_some() { JobState::Scheduled } else { JobState::Pending };
                Some(Transition { state: Some(state), until, ..plain })
            }
            Effect::Edited(edited) if edited.job == self.id => {
                self.next = Some(edited.before);
                let from = (edited.from != edited.final_facts.queue).then_some(edited.from);
                let name = from.map(|from| QueueNames::default().of(self.history, from)).transpose()?;
                let note = name.map_or_else(String::new, |name| moved_from(&name));
                Some(Transition { event: JobEvent::Edited, note, ..plain })
            }
            Effect::Revived(revived) if revived.job == self.id => {
                self.next = Some(revived.before);
                Some(Transition { event: JobEvent::Revived, state: Some(JobState::Pending), ..plain })
            }
            Effect::Steps(steps) => {
                for step in steps.iter() {
                    let step = step.map_err(|error| unreadable(place, &error))?;
                    if step.job == self.id {
                        self.next = Some(step.before);
                        return Ok(Some(of_step(plain, steps.cause, steps.shared, &step)));
                    }
                }
                None
            }
            _ => None,
        })
    }

    /// The next step that is wanted.
    pub(crate) fn find(&mut self, wanted: impl Fn(&Transition) -> bool) -> Result<Option<Transition>, ReadError> {
        while let Some(step) = self.next()? {
            if wanted(&step) {
                return Ok(Some(step));
            }
        }
        Ok(None)
    }
}

/// The note of a moved job.
pub(crate) fn moved_from(queue: &str) -> String {
    format!("moved from {queue}")
}

/// An enqueue with its place and time only.
pub(crate) fn plain(entry: &Entry<'_>) -> Transition {
    Transition {
        place: entry.place,
        time: entry.time,
        event: JobEvent::Enqueued,
        state: None,
        attempt: 0,
        until: None,
        note: String::new(),
        result: Vec::new(),
    }
}

pub(crate) fn of_step(plain: Transition, cause: Cause, shared: &str, step: &Step<'_>) -> Transition {
    let until = match step.to {
        To::Scheduled { at } | To::Retrying { at } => Some(at),
        To::Active { deadline, .. } => Some(deadline),
        _ => None,
    };
    let (note, result) = match cause {
        Cause::Completed => (String::new(), step.detail.to_vec()),
        Cause::Failed | Cause::Unreadable => (String::from_utf8_lossy(step.detail).into_owned(), Vec::new()),
        Cause::LeaseExpired | Cause::TimedOut | Cause::Expired => (String::from(cause.name()), Vec::new()),
        _ => (String::from(shared), Vec::new()),
    };
    Transition {
        time: step.time(cause, plain.time),
        event: JobEvent::Step(cause),
        state: step.to.state(),
        attempt: step.attempt,
        until,
        note,
        result,
        ..plain
    }
}
