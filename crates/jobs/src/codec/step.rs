//! Steps of jobs from one state to the next: any number of jobs of one queue, of one cause, in one
//! entry.
//!
//! ```text
//! shared str                 of a lease its worker, of a cancel or hold its reason; of the others empty
//! per step, to the end:      id · before: position − id's position varint · index varint · attempt varint · to · detail bytes
//! to   0 pending │ 1 scheduled · at u64 │ 2 retrying · at u64 │ 3 active · deadline u64 │ 4 active · deadline u64 · run until u64 │ 5 held
//!      │ 6 completed · final facts │ 7 cancelled · final facts │ 8 dead · final facts │ 9 deleted · final facts
//! final facts                    queue varint · priority u8 · attempts max varint · content · flags u8 · [1: progress] [2: checkpoint]
//! content, progress, checkpoint      position − id's position varint · index varint
//! ```
//!
//! `before` is the place of the previous step, or of the enqueue; a job's history is read along
//! this chain. `detail` depends on the step: the result of a completed job, the error of a failed
//! one, the number of the earlier state of a finished job that is deleted, or the time (u64) at
//! which a job was cancelled with its queue. The content is the place of the payload: the enqueue
//! or an edit. Progress and checkpoint are the places of the last heartbeats that stored them.

use core::mem;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{Effects, ModelId, Place, Timestamp};

use super::fields::{expected, queue, read_id, read_later, time, varint_u16, write_id, write_later};
use super::tags::{TagBuffer, push};
use crate::id::QueueId;
use crate::{Cause, JobId, JobState, Priority};

/// The most steps of an entry: an entry has at most 255 tags.
const STEPS_MAX: usize = 200;

/// More than one step takes without its detail: most entries have one.
const ONE_STEP_BYTES: usize = 96;

const KIND_FIRST: u8 = 16;

impl Cause {
    pub(crate) const fn kind(self) -> u8 {
        KIND_FIRST + self as u8
    }

    pub(crate) fn of_kind(kind: u8) -> Option<Self> {
        Cause::ALL.get(usize::from(kind.checked_sub(KIND_FIRST)?)).copied()
    }
}

/// The state to which a step leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum To {
    Pending,
    Scheduled { at: Timestamp },
    Retrying { at: Timestamp },
    Active { deadline: Timestamp, run_until: Option<Timestamp> },
    Held,
    Completed(FinalFacts),
    Cancelled(FinalFacts),
    Dead(FinalFacts),
    Deleted(FinalFacts),
}

/// The facts about a finished job in its last entry, for reads that find the job there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FinalFacts {
    pub(crate) queue: QueueId,
    pub(crate) priority: Priority,
    pub(crate) attempts_max: u16,
    pub(crate) content: Place,
    pub(crate) progress: Option<Place>,
    pub(crate) checkpoint: Option<Place>,
}

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step<'a> {
    pub(crate) job: JobId,
    pub(crate) before: Place,
    pub(crate) attempt: u16,
    pub(crate) to: To,
    pub(crate) detail: &'a [u8],
}

/// The steps of an entry.
#[derive(Debug, Clone)]
pub(crate) struct Steps<'a> {
    pub(crate) cause: Cause,
    pub(crate) shared: &'a str,
    body: Decoder<'a>,
}

impl<'a> Steps<'a> {
    pub(super) fn read(cause: Cause, body: &mut Decoder<'a>) -> Result<Self, CodecError> {
        Ok(Steps { cause, shared: body.str()?, body: Decoder::new(body.rest()) })
    }

    /// The steps, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Result<Step<'a>, CodecError>> + use<'a> {
        let mut body = self.body.clone();
        core::iter::from_fn(move || (!body.is_empty()).then(|| Step::read(&mut body)))
    }
}

impl To {
    /// The state, when the job is still there.
    pub(crate) fn state(self) -> Option<JobState> {
        Some(match self {
            To::Pending => JobState::Pending,
            To::Scheduled { .. } => JobState::Scheduled,
            To::Retrying { .. } => JobState::Retrying,
            To::Active { .. } => JobState::Active,
            To::Held => JobState::Held,
            To::Completed(_) => JobState::Completed,
            To::Cancelled(_) => JobState::Cancelled,
            To::Dead(_) => JobState::Dead,
            To::Deleted(_) => return None,
        })
    }

    pub(crate) fn final_facts(self) -> Option<FinalFacts> {
        match self {
            To::Completed(final_facts)
            | To::Cancelled(final_facts)
            | To::Dead(final_facts)
            | To::Deleted(final_facts) => Some(final_facts),
            _ => None,
        }
    }

    fn write(self, job: Place, out: &mut Encoder) {
        match self {
            To::Pending => out.u8(0),
            To::Scheduled { at } => out.u8(1).u64(at.as_micros()),
            To::Retrying { at } => out.u8(2).u64(at.as_micros()),
            To::Active { deadline, run_until: None } => out.u8(3).u64(deadline.as_micros()),
            To::Active { deadline, run_until: Some(until) } => {
                out.u8(4).u64(deadline.as_micros()).u64(until.as_micros())
            }
            To::Held => out.u8(5),
            To::Completed(final_facts) => final_facts.write(job, out.u8(6)),
            To::Cancelled(final_facts) => final_facts.write(job, out.u8(7)),
            To::Dead(final_facts) => final_facts.write(job, out.u8(8)),
            To::Deleted(final_facts) => final_facts.write(job, out.u8(9)),
        };
    }

    fn read(job: Place, from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        Ok(match from.u8()? {
            0 => To::Pending,
            1 => To::Scheduled { at: time(from)? },
            2 => To::Retrying { at: time(from)? },
            3 => To::Active { deadline: time(from)?, run_until: None },
            4 => To::Active { deadline: time(from)?, run_until: Some(time(from)?) },
            5 => To::Held,
            6 => To::Completed(FinalFacts::read(job, from)?),
            7 => To::Cancelled(FinalFacts::read(job, from)?),
            8 => To::Dead(FinalFacts::read(job, from)?),
            9 => To::Deleted(FinalFacts::read(job, from)?),
            _ => return Err(expected("a state that this version knows")),
        })
    }
}

impl FinalFacts {
    pub(crate) fn write(self, job: Place, out: &mut Encoder) -> &mut Encoder {
        out.varint(u64::from(self.queue.0)).u8(self.priority.get()).varint(u64::from(self.attempts_max));
        write_later(job, self.content, out);
        out.u8(u8::from(self.progress.is_some()) | u8::from(self.checkpoint.is_some()) << 1);
        self.progress.iter().chain(&self.checkpoint).for_each(|place| {
            write_later(job, *place, out);
        });
        out
    }

    pub(crate) fn read(job: Place, from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let (queue, priority, attempts_max) = (queue(from)?, Priority::new(from.u8()?), varint_u16(from)?);
        let content = read_later(job, from)?;
        let flags = from.u8()?;
        let mut given = |flag: u8| (flags & flag != 0).then(|| read_later(job, from)).transpose();
        let (progress, checkpoint) = (given(1)?, given(2)?);
        Ok(FinalFacts { queue, priority, attempts_max, content, progress, checkpoint })
    }
}

impl<'a> Step<'a> {
    /// When the step happened, in an entry of time `entry`. The step of a job that was cancelled
    /// with its queue is logged later than it happened.
    pub(crate) fn time(&self, cause: Cause, entry: Timestamp) -> Timestamp {
        match self.detail.try_into() {
            Ok(at) if cause == Cause::Cancelled => Timestamp::from_micros(u64::from_le_bytes(at)),
            _ => entry,
        }
    }

    fn write(&self, out: &mut Encoder) {
        let job = self.job.place();
        write_id(job, out);
        write_later(job, self.before, out).varint(u64::from(self.attempt));
        self.to.write(job, out);
        out.bytes(self.detail);
    }

    fn read(from: &mut Decoder<'a>) -> Result<Self, CodecError> {
        let job = read_id(from)?;
        Ok(Step {
            job: JobId::new(job),
            before: read_later(job, from)?,
            attempt: varint_u16(from)?,
            to: To::read(job, from)?,
            detail: from.bytes()?,
        })
    }
}

/// An entry under construction: steps of one cause in one queue, in the order of their decisions.
/// The buffer is reused for later entries.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// The cause and the queue of all steps; `None` before the first step.
    of: Option<(Cause, QueueId)>,
    /// The encoded text and steps.
    body: Encoder,
    count: usize,
    /// The tags of finished jobs: one for each final state, and one for each job.
    tags: TagBuffer,
    /// The final states whose tag is in `tags`, one bit for each.
    states: u8,
}

impl Run {
    /// One that encodes in memory that is kept with the log.
    #[inline]
    pub(crate) fn new(effects: &mut dyn Effects) -> Self {
        Run { body: effects.scratch(), tags: TagBuffer::new(effects.scratch()), ..Run::default() }
    }

    /// Gives the memory back that it encoded in.
    pub(crate) fn give_back(&mut self, effects: &mut dyn Effects) {
        effects.keep(mem::take(&mut self.body));
        effects.keep(mem::take(&mut self.tags).into_encoder());
    }

    /// Returns an encoder for another entry, between two entries of this run.
    pub(crate) fn buffer(&mut self) -> &mut Encoder {
        assert!(self.of.is_none(), "an entry that was begun is pushed before another is encoded");
        &mut self.body
    }

    /// Begins another entry.
    pub(crate) fn begin(&mut self, cause: Cause, queue: QueueId, shared: &str) {
        self.body.clear();
        self.body.reserve(ONE_STEP_BYTES + shared.len());
        self.body.str(shared);
        self.tags.clear();
        (self.of, self.count, self.states) = (Some((cause, queue)), 0, 0);
    }

    /// Whether a step with this cause, queue and text can join the entry under construction.
    pub(crate) fn takes(&self, cause: Cause, queue: QueueId, shared: &str) -> bool {
        self.of == Some((cause, queue))
            && self.count < STEPS_MAX
            && Decoder::new(self.body.as_slice()).bytes().is_ok_and(|said| is_same(said, shared.as_bytes()))
    }

    /// Adds a step of a job of the queue.
    pub(crate) fn add(&mut self, step: &Step<'_>) {
        step.write(&mut self.body);
        self.count += 1;
        if step.to.final_facts().is_none() {
            return;
        }
        let (_, queue) = self.of.expect("an entry was begun");
        if let Some(state) = step.to.state().filter(|state| self.states & 1 << *state as u8 == 0) {
            self.states |= 1 << state as u8;
            self.tags.finished(queue, state);
        }
        self.tags.job(step.job);
    }

    /// Pushes the entry under construction, unless it has no steps. Later steps begin another
    /// entry.
    pub(crate) fn push(&mut self, effects: &mut dyn Effects) {
        if let Some((cause, queue)) = self.of.take()
            && self.count > 0
        {
            self.tags.with(Some(queue), |tags| push(effects, cause.kind(), tags, self.count, &[self.body.as_slice()]));
        }
    }
}

/// Whether both are the same. Nothing is the same as nothing without a look: processors with
/// AVX-512 take 70 ns for the C library's comparison of no bytes, which loads from where no memory
/// is (Intel, glibc 2.36).
#[inline]
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && (one.is_empty() || one == other)
}

const _: () = assert!(ModelId::JOBS.get() == 3, "the tags in the page of the file format");
