//! An entry as the events that it is.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use quire_model::{Entry, History, ModelId, ReadError, Sequence};

use crate::codec::{Effect, queue_of, unreadable, user_tags};
use crate::id::QueueId;
use crate::read::chain::{JobEvent, Transition, moved_from, of_step, plain};
use crate::read::logged::enqueued_at;
use crate::read::names::QueueNames;
use crate::{Cursor, JobId, JobState};

/// Something that happened to a job, or to a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LifeEvent {
    /// The cursor at which a reading continues after the event.
    pub after: Cursor,
    /// Its number among those of its queue, from 0.
    pub number: Sequence,
    /// The queue that it happened in.
    pub queue: Arc<str>,
    /// The job; `None` when it happened to the queue.
    pub job: Option<JobId>,
    /// The name of the job's handler; empty when the log no longer has the job's enqueue.
    pub kind: String,
    /// The event, its time, and the state to which it led.
    pub step: Transition,
    /// The payload of an enqueued or edited job; the result of a completed one; the progress of a
    /// heartbeat.
    pub data: Vec<u8>,
}

/// An event without the facts from the job's enqueue.
pub(super) struct EventDraft {
    pub(super) after: Cursor,
    pub(super) number: Sequence,
    pub(super) job: Option<JobId>,
    step: Transition,
    /// The other queue of a move.
    moved: Option<QueueId>,
    data: Vec<u8>,
}

/// The wanted events of an entry after the first `skip`, in order. An entry that is no queue's has
/// none.
pub(super) fn told(
    entry: &Entry<'_>,
    skip: u32,
    wanted: impl Fn(JobEvent, Option<JobId>) -> bool,
) -> Result<Vec<EventDraft>, ReadError> {
    let Some(first) = entry.sequence.filter(|_| entry.kind.model == ModelId::JOBS) else { return Ok(Vec::new()) };
    let plain = plain(entry);
    let effect = Effect::read(entry)?;
    let moved = match &effect {
        Effect::Edited(edited) if edited.from != edited.final_facts.queue => Some(edited.from),
        Effect::MovedOut { to, .. } => Some(*to),
        _ => None,
    };
    let mut all = Vec::new();
    let mut add = |index: u32, job: Option<JobId>, step: Transition, data: &[u8]| {
        if index < skip || !wanted(step.event, job) {
            return;
        }
        let (place, items) = if index + 1 < entry.count { (entry.place, index + 1) } else { (entry.place.after(), 0) };
        let number = Sequence::new(first.get() + u64::from(index));
        all.push(EventDraft { after: Cursor { place, items }, number, job, step, moved, data: data.to_vec() });
    };
    match effect {
        Effect::Enqueued(enqueued) => {
            let until = enqueued.run_at.filter(|run_at| *run_at > entry.time);
            let state = Some(if until.is_some() { JobState::Scheduled } else { JobState::Pending });
            add(0, Some(JobId::new(entry.place)), Transition { state, until, ..plain }, enqueued.payload);
        }
        Effect::Steps(steps) => {
            for (index, step) in (0..).zip(steps.iter()) {
                let step = step.map_err(|error| unreadable(entry.place, &error))?;
                let job = Some(step.job);
                let mut step = of_step(plain.clone(), steps.cause, steps.shared, &step);
                let data = core::mem::take(&mut step.result);
                add(index, job, step, &data);
            }
        }
        Effect::Noted { job, progress, .. } => {
            add(0, Some(job), Transition { event: JobEvent::Progress, ..plain }, progress.unwrap_or_default());
        }
        Effect::Edited(edited) => {
            let step = Transition { event: JobEvent::Edited, ..plain };
            add(0, Some(edited.job), step, edited.payload.unwrap_or_default());
        }
        Effect::Revived(revived) => {
            let step = Transition { event: JobEvent::Revived, state: Some(JobState::Pending), ..plain };
            add(0, Some(revived.job), step, revived.payload.unwrap_or_default());
        }
        Effect::MovedOut { job, .. } => add(0, Some(job), Transition { event: JobEvent::MovedOut, ..plain }, b""),
        Effect::QueueCreated { .. } => add(0, None, Transition { event: JobEvent::QueueCreated, ..plain }, b""),
        Effect::QueueSet { .. } => add(0, None, Transition { event: JobEvent::QueueSet, ..plain }, b""),
        Effect::QueueCleared { .. } => add(0, None, Transition { event: JobEvent::QueueCleared, ..plain }, b""),
        Effect::QueueDestroyed { .. } => add(0, None, Transition { event: JobEvent::QueueDestroyed, ..plain }, b""),
        Effect::Extended { .. } | Effect::KeyHeld { .. } | Effect::BulkBegun(_) | Effect::BulkAdvanced(_) => {}
    }
    Ok(all)
}

impl EventDraft {
    /// The event with the facts from its job's enqueue; `None` when its kind or tags do not match
    /// `wanted`.
    pub(super) fn whole(
        self,
        history: &dyn History,
        names: &mut QueueNames,
        entry: &Entry<'_>,
        wanted: impl Fn(&str, &[&str]) -> bool,
    ) -> Result<Option<LifeEvent>, ReadError> {
        let EventDraft { after, number, job, mut step, moved, data } = self;
        let enqueued = match job {
            Some(job) => enqueued_at(history, job)?,
            None => None,
        };
        let (kind, tags) = match &enqueued {
            Some((entry, enqueued)) => (enqueued.kind, user_tags(entry.tags).collect()),
            None => ("", Vec::new()),
        };
        if !wanted(kind, &tags) {
            return Ok(None);
        }
        if let Some(other) = moved {
            let name = names.of(history, other)?;
            step.note = if step.event == JobEvent::MovedOut { format!("moved to {name}") } else { moved_from(&name) };
        }
        let queue = match queue_of(entry.tags) {
            Some(queue) => names.of(history, queue)?,
            None => Arc::from(""),
        };
        Ok(Some(LifeEvent { after, number, queue, job, kind: String::from(kind), step, data }))
    }
}
