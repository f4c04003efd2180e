//! The state as bytes.
//!
//! ```text
//! version u8 = 1
//! queues varint · per queue, by number:  name str · completed varint · dead varint · their ids
//! jobs   varint · per job, by id:        id · queue varint · priority u8 · attempt varint · attempts max varint
//!                                        · base varint · max varint · phase
//! id     position varint · index varint
//! phase  0 scheduled · run at u64 │ 1 pending │ 2 active · token as an id · deadline u64 │ 3 retrying · due u64
//! ```
//!
//! Indexes and timers are not written: they follow from the jobs.

use alloc::collections::BTreeSet;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{Place, Position};

use crate::codec::{time, varint_u16};
use crate::queue::{Queue, QueueId};
use crate::state::{Job, Jobs, Phase};
use crate::{Backoff, JobId, LeaseToken, Priority};

const VERSION: u8 = 1;

const SCHEDULED: u8 = 0;
const PENDING: u8 = 1;
const ACTIVE: u8 = 2;
const RETRYING: u8 = 3;

pub(crate) fn save(state: &Jobs, out: &mut Encoder) {
    out.u8(VERSION).varint(state.queues.len() as u64);
    for queue in &state.queues {
        out.str(&queue.name).varint(queue.completed).varint(queue.dead.len() as u64);
        queue.dead.iter().for_each(|id| save_place(id.place(), out));
    }
    out.varint(state.jobs.len() as u64);
    for (id, job) in &state.jobs {
        save_place(id.place(), out);
        out.varint(u64::from(job.queue.0)).u8(job.priority.get());
        out.varint(u64::from(job.attempt)).varint(u64::from(job.attempts_max));
        out.varint(job.backoff.base_micros).varint(job.backoff.max_micros);
        match job.phase {
            Phase::Scheduled { run_at } => out.u8(SCHEDULED).u64(run_at.as_micros()),
            Phase::Pending => out.u8(PENDING),
            Phase::Active { token, deadline } => {
                save_place(token.place(), out.u8(ACTIVE));
                out.u64(deadline.as_micros())
            }
            Phase::Retrying { due } => out.u8(RETRYING).u64(due.as_micros()),
        };
    }
}

pub(crate) fn load(from: &mut Decoder<'_>) -> Result<Jobs, CodecError> {
    if from.u8()? != VERSION {
        return Err(expected("a checkpoint of the jobs model, version 1"));
    }
    let mut state = Jobs::default();
    for _ in 0..from.varint()? {
        let mut queue = Queue::new(from.string()?);
        queue.completed = from.varint()?;
        let mut dead = BTreeSet::new();
        for _ in 0..from.varint()? {
            dead.insert(JobId::new(load_place(from)?));
        }
        queue.dead = dead;
        state.add_queue(queue);
    }
    for _ in 0..from.varint()? {
        let id = JobId::new(load_place(from)?);
        let job = load_job(from)?;
        if job.queue.index() >= state.queues.len() {
            return Err(expected("the number of a queue that is there"));
        }
        if state.jobs.insert(id, job).is_some() {
            return Err(expected("each job once"));
        }
        state.with_queue(job.queue, |queue| queue.insert(id, &job));
    }
    Ok(state)
}

fn load_job(from: &mut Decoder<'_>) -> Result<Job, CodecError> {
    Ok(Job {
        queue: QueueId(from.varint_u32()?),
        priority: Priority::new(from.u8()?),
        attempt: varint_u16(from)?,
        attempts_max: varint_u16(from)?,
        backoff: Backoff { base_micros: from.varint()?, max_micros: from.varint()? },
        phase: match from.u8()? {
            SCHEDULED => Phase::Scheduled { run_at: time(from)? },
            PENDING => Phase::Pending,
            ACTIVE => Phase::Active { token: LeaseToken::new(load_place(from)?), deadline: time(from)? },
            RETRYING => Phase::Retrying { due: time(from)? },
            _ => return Err(expected("a phase from 0 to 3")),
        },
    })
}

fn save_place(place: Place, out: &mut Encoder) {
    out.varint(place.position.get()).varint(u64::from(place.index));
}

fn load_place(from: &mut Decoder<'_>) -> Result<Place, CodecError> {
    Ok(Place::new(Position::new(from.varint()?), from.varint_u32()?))
}

const fn expected(what: &'static str) -> CodecError {
    CodecError { expected: what, bytes_left: 0 }
}
