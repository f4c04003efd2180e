//! The state as bytes.
//!
//! ```text
//! version u8 = 5 · queues created varint
//! queues varint · per queue, by number:  number varint · name str · settings · time u64 · turns varint · meter
//!                                        · 0 │ 1 · destroyed at u64 · gone before u64
//!                                        · completed varint · cancelled and told of varint · dead varint · their ids
//!                                        · slots of groups varint · per slot: 0 free │ 1 · name str · turn varint · meter
//! jobs   varint · per job, by id:        id · queue varint · group varint · priority u8 · attempt varint · attempts max varint
//!                                        · last · state u8 · [until u64: scheduled, active, retrying, cancelled] · extra
//! id     position varint · index varint
//! last   a place behind the id, as in an entry of steps
//! extra  flags u8 · [1: expires at u64] [2: run until u64] [4: key] [8: progress id] [16: checkpoint id] [32: content id] [64: retention varint]
//!        [128: an attempt was lost]
//! key    0 everywhere │ 1 · queue varint · bytes
//! meter  full at u64 (high) u64 (low) · starts varint · u64 each
//! keys   varint · per key: key · id · 0 until finished │ 1 until started │ 2 · u64
//! kept   varint · per job, by id: id · until u32, in seconds
//! bulks  varint · per bulk: id · cursor: id · item varint · looked at varint · changed varint · refused varint · end u8 (0 none, 1 complete, 2 stopped)
//! ```
//!
//! Indexes and timers are not written: they follow from the jobs.
//!
//! Version 4 has the same form without the bit 128, and can be read too: a database whose earlier
//! records were compacted cannot replay them instead.

use alloc::boxed::Box;
use alloc::vec::Vec;

use quire_model::Parts;
use quire_model::codec::{CodecError, Decoder, Encoder};

use crate::bulk::Bulks;
use crate::codec::{expected, queue, read_id, read_later, settings, time, varint_u16, write_id, write_later};
use crate::id::QueueId;
use crate::job::{Holder, Job, Key, KeyEnd, RareFields, RetainedJobs};
use crate::queue::{ChangeMark, Meter, Queue, QueueIndexes};
use crate::{JobId, JobState, Jobs, Priority};

const VERSION: u8 = 5;
/// The version before, which can still be read.
const VERSION_BEFORE: u8 = 4;

/// The turns of a queue's groups, which are set once the jobs are read.
struct Turns {
    queue: QueueId,
    turns: u64,
    groups: Vec<(u32, u64)>,
}

/// Writes the state, in parts.
pub(crate) fn save(state: &Jobs, sink: &mut dyn FnMut(&[u8])) {
    let mut parts = Parts::to(sink);
    parts.encoder().u8(VERSION).varint(u64::from(state.queues_created)).varint(state.queues.len() as u64);
    for (id, queue) in &state.queues {
        save_queue(*id, queue, &mut parts);
    }
    parts.encoder().varint(state.jobs.len() as u64);
    for (id, job) in &state.jobs {
        match state.detached_at(job) {
            None => save_job(*id, job, state.extra(*id, job), parts.encoder()),
            // The loaded job is among the cleared ones.
            Some(at) => {
                let mut extra = state.extra(*id, job).cloned().unwrap_or_default();
                extra.cancel();
                save_job(*id, &job.cleared(at), Some(&extra), parts.encoder());
            }
        }
    }
    let keys = || state.keys.iter().filter(|(_, holder)| state.keeps_key(holder));
    parts.encoder().varint(keys().count() as u64);
    for (key, holder) in keys() {
        let out = parts.encoder();
        save_key(key, out);
        write_id(holder.job.place(), out);
        match holder.until {
            KeyEnd::Finished => out.u8(0),
            KeyEnd::Started => out.u8(1),
            KeyEnd::At(time) => out.u8(2).u64(time.as_micros()),
        };
    }
    state.kept.save(&mut parts);
    state.bulks.save(parts.encoder());
    parts.end();
}

fn save_queue(id: QueueId, queue: &Queue, parts: &mut Parts<'_>) {
    let idle = queue.idle_indexes();
    let QueueIndexes { settings, groups, meter, dead, .. } = idle.as_ref().unwrap_or(queue);
    let out = parts.encoder();
    settings::write(settings, out.varint(u64::from(id.0)).str(&queue.name));
    out.u64(queue.time.as_micros()).varint(groups.turns);
    meter.save(out);
    match queue.destroyed_at {
        None => out.u8(0),
        Some(time) => out.u8(1).u64(time.as_micros()),
    };
    out.u64(queue.gone_before.as_micros());
    let [completed, cancelled, dead_count] =
        [JobState::Completed, JobState::Cancelled, JobState::Dead].map(|state| queue.counts[state as usize]);
    // Cleared jobs without a step yet are saved among the jobs.
    out.varint(completed).varint(cancelled - queue.untold_count() as u64).varint(dead_count);
    dead.iter().for_each(|id| write_id(id.place(), parts.encoder()));
    parts.encoder().varint(groups.slots().len() as u64);
    for group in groups.slots() {
        let out = parts.encoder();
        match group {
            None => {
                out.u8(0);
            }
            Some(group) => group.meter.save(out.u8(1).str(&group.name).varint(group.turn)),
        }
    }
}

fn has_until(state: JobState) -> bool {
    matches!(state, JobState::Scheduled | JobState::Active | JobState::Retrying | JobState::Cancelled)
}

fn save_job(id: JobId, job: &Job, extra: Option<&RareFields>, out: &mut Encoder) {
    write_id(id.place(), out);
    out.varint(u64::from(job.queue.0)).varint(u64::from(job.group)).u8(job.priority.get());
    out.varint(u64::from(job.attempt)).varint(u64::from(job.attempts_max));
    write_later(id.place(), job.last(), out).u8(job.state as u8);
    if has_until(job.state) {
        out.u64(job.until().as_micros());
    }
    let none = RareFields::default();
    let RareFields { expires_at, run_until, key, progress, checkpoint, content, retention_micros } =
        extra.unwrap_or(&none);
    let flags = [
        expires_at.is_some(),
        run_until.is_some(),
        key.is_some(),
        progress.is_some(),
        checkpoint.is_some(),
        content.is_some(),
        retention_micros.is_some(),
        job.lost,
    ];
    out.u8((0..).zip(flags).map(|(bit, given)| u8::from(given) << bit).sum());
    [expires_at, run_until].into_iter().flatten().for_each(|time| {
        out.u64(time.as_micros());
    });
    key.iter().for_each(|key| save_key(key, out));
    [progress, checkpoint, content].into_iter().flatten().for_each(|place| write_id(*place, out));
    retention_micros.iter().for_each(|micros| {
        out.varint(*micros);
    });
}

fn save_key(key: &Key, out: &mut Encoder) {
    match key.queue {
        None => out.u8(0),
        Some(queue) => out.u8(1).varint(u64::from(queue.0)),
    };
    out.bytes(&key.bytes);
}

pub(crate) fn load(from: &mut Decoder<'_>) -> Result<Jobs, CodecError> {
    if !matches!(from.u8()?, VERSION | VERSION_BEFORE) {
        return Err(expected("a checkpoint of the jobs model, version 4 or 5"));
    }
    let mut state = Jobs { queues_created: from.varint_u32()?, ..Jobs::default() };
    let mut turns: Vec<Turns> = Vec::new();
    for _ in 0..from.varint()? {
        let id = queue(from)?;
        let mut queue = Queue::new(from.str()?);
        queue.settings = settings::read(from)?;
        queue.time = time(from)?;
        let queue_turns = from.varint()?;
        queue.meter = Meter::load(from)?;
        queue.destroyed_at = match from.u8()? {
            0 => None,
            1 => Some(time(from)?),
            _ => return Err(expected("whether a queue is destroyed, 0 or 1")),
        };
        queue.gone_before = time(from)?;
        for state in [JobState::Completed, JobState::Cancelled, JobState::Dead] {
            queue.counts[state as usize] = from.varint()?;
        }
        for _ in 0..queue.counts[JobState::Dead as usize] {
            queue.dead.insert(JobId::new(read_id(from)?));
        }
        let mut group_turns = Vec::new();
        for number in 0..from.varint_u32()? {
            match from.u8()? {
                0 => queue.groups.restore(None),
                1 => {
                    let (name, turn) = (from.str()?, from.varint()?);
                    queue.groups.restore(Some((name, Meter::load(from)?)));
                    group_turns.push((number, turn));
                }
                _ => return Err(expected("a group or a free slot, 0 or 1")),
            }
        }
        group_turns.iter().for_each(|(number, turn)| queue.groups.set_turn(*number, *turn));
        queue.groups.turns = queue_turns;
        queue.sleep();
        turns.push(Turns { queue: id, turns: queue_turns, groups: group_turns });
        state.add_queue(id, queue);
    }
    for _ in 0..from.varint()? {
        load_job(&mut state, from)?;
    }
    for Turns { queue: id, turns: queue_turns, groups: group_turns } in turns {
        let queue = state.queue_mut(id);
        if queue.is_awake() {
            let (now, QueueIndexes { groups, settings, .. }) = (queue.time, &mut **queue);
            for (number, turn) in group_turns {
                groups.change(number, settings, now, |group| group.turn = turn);
            }
            groups.turns = queue_turns;
        }
        state.end_change(id, ChangeMark::default());
    }
    for _ in 0..from.varint()? {
        let (key, job) = (load_key(from)?, JobId::new(read_id(from)?));
        let until = match from.u8()? {
            0 => KeyEnd::Finished,
            1 => KeyEnd::Started,
            2 => KeyEnd::At(time(from)?),
            _ => return Err(expected("what ends a key, 0 to 2")),
        };
        if state.keys.timed(job).is_some() {
            return Err(expected("one key of a job"));
        }
        state.keys.take(key, Holder { job, until });
    }
    state.kept = RetainedJobs::load(from)?;
    state.bulks = Bulks::load(from)?;
    Ok(state)
}

fn load_job(state: &mut Jobs, from: &mut Decoder<'_>) -> Result<(), CodecError> {
    let id = JobId::new(read_id(from)?);
    let (number, group, priority) = (queue(from)?, from.varint_u32()?, Priority::new(from.u8()?));
    let (attempt, attempts_max) = (varint_u16(from)?, varint_u16(from)?);
    let mut job = Job::enqueued(id, number, group, priority, attempts_max);
    job.attempt = attempt;
    job.set_last(read_later(id.place(), from)?);
    job.state = JobState::from_number(from.u8()?)
        .filter(|state| !matches!(state, JobState::Completed | JobState::Dead))
        .ok_or(expected("the state of a job that is in memory"))?;
    if has_until(job.state) {
        job.set_until(time(from)?);
    }
    let flags = from.u8()?;
    let given = |bit: u8| flags & 1 << bit != 0;
    let extra = RareFields {
        expires_at: given(0).then(|| time(from)).transpose()?,
        run_until: given(1).then(|| time(from)).transpose()?,
        key: given(2).then(|| load_key(from).map(Box::new)).transpose()?,
        progress: given(3).then(|| read_id(from)).transpose()?,
        checkpoint: given(4).then(|| read_id(from)).transpose()?,
        content: given(5).then(|| read_id(from)).transpose()?,
        retention_micros: given(6).then(|| from.varint()).transpose()?,
    };
    job.extra = extra.is_some();
    job.lost = given(7);
    let queue = state.queues.get_mut(&number).ok_or(expected("the number of an existing queue"))?;
    if job.state == JobState::Cancelled {
        state.untold.insert(number);
    } else if !queue.awake().groups.has(group) {
        return Err(expected("the number of an existing group"));
    }
    if state.jobs.insert(id, job).is_some() {
        return Err(expected("each job once"));
    }
    queue.insert(id, &job, extra.expires_at);
    if job.extra {
        state.extras.insert(id, extra);
    }
    Ok(())
}

fn load_key(from: &mut Decoder<'_>) -> Result<Key, CodecError> {
    let queue = match from.u8()? {
        0 => None,
        1 => Some(queue(from)?),
        _ => return Err(expected("the scope of a key, 0 or 1")),
    };
    Ok(Key { queue, bytes: from.bytes()?.into() })
}
