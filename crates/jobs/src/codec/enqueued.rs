//! The enqueued entry: all facts of a job from its producer.
//!
//! ```text
//! queue varint · priority u8 · attempts max varint · flags varint
//! · [1: run at u64] [2: expires at u64] [4: timeout varint] [8: group str]
//! · [16: unique: scope u8 · hold (0 until finished │ 1 until started │ 2 · varint) · key bytes]
//! · [32: backoff: 0 none │ 1 fixed · varint │ 2 linear · base varint · max varint │ 3 exponential · base · max │ 4 list · count varint · varints]
//! · [128: jitter percent u8] [64: kind str] [256: retention varint] · payload…
//! ```
//!
//! An omitted field has its default. A job without a time may run at the time of its record.

use alloc::vec::Vec;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{Effects, Entry, Timestamp};

use super::fields::{expected, queue, time, varint_u16};
use super::tags::{TagBuffer, push};
use crate::id::QueueId;
use crate::{Backoff, JobId, JobSpec, Priority, Unique, UniqueHold, UniqueScope};

/// The kind of an enqueued entry.
pub(crate) const ENQUEUED: u8 = 2;

const RUN_AT: u64 = 1;
const EXPIRES_AT: u64 = 2;
const TIMEOUT: u64 = 4;
const GROUP: u64 = 8;
const UNIQUE: u64 = 16;
const BACKOFF: u64 = 32;
const KIND: u64 = 64;
// The second byte has the flags of rare fields.
const JITTER: u64 = 128;
const RETENTION: u64 = 256;

/// An enqueued entry, except the tags that users gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobEntry<'a> {
    pub(crate) queue: QueueId,
    pub(crate) priority: Priority,
    pub(crate) attempts_max: u16,
    /// `None`: at once.
    pub(crate) run_at: Option<Timestamp>,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) timeout_micros: Option<u64>,
    pub(crate) group: &'a str,
    pub(crate) unique: Option<StoredKey<'a>>,
    pub(crate) backoff: Backoff<Vec<u64>>,
    pub(crate) jitter_percent: u8,
    pub(crate) kind: &'a str,
    pub(crate) retention_micros: Option<u64>,
    pub(crate) payload: &'a [u8],
}

/// The stored facts of a job's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredKey<'a> {
    pub(crate) scope: UniqueScope,
    pub(crate) hold: UniqueHold,
    pub(crate) key: &'a [u8],
}

/// Pushes a job into the record, encoded in `head`. Its id is the place that the entry gets.
pub(crate) fn push_enqueued(
    effects: &mut dyn Effects,
    head: &mut Encoder,
    queue: QueueId,
    run_at: Option<Timestamp>,
    job: &JobSpec<'_>,
) -> JobId {
    let mut tags = TagBuffer::default();
    if !job.tags.is_empty() {
        let mut words = job.tags.to_vec();
        words.sort_unstable();
        words.dedup();
        words.iter().for_each(|word| tags.user(word));
    }
    head.clear();
    head.reserve(64);
    write_head(head, queue, run_at, job);
    JobId::new(tags.with(Some(queue), |tags| push(effects, ENQUEUED, tags, 1, &[head.as_slice(), job.payload])).place)
}

fn write_head(head: &mut Encoder, queue: QueueId, run_at: Option<Timestamp>, job: &JobSpec<'_>) {
    let plain_backoff = job.backoff == Backoff::default();
    let flags = [
        (RUN_AT, run_at.is_some()),
        (EXPIRES_AT, job.expires_at.is_some()),
        (TIMEOUT, job.timeout_micros.is_some()),
        (GROUP, !job.group.is_empty()),
        (UNIQUE, job.unique.is_some()),
        (BACKOFF, !plain_backoff),
        (JITTER, job.jitter_percent > 0),
        (KIND, !job.kind.is_empty()),
        (RETENTION, job.retention_micros.is_some()),
    ];
    head.varint(u64::from(queue.0)).u8(job.priority.get()).varint(u64::from(job.attempts_max));
    head.varint(flags.iter().filter(|(_, given)| *given).map(|(flag, _)| flag).sum());
    [run_at, job.expires_at].into_iter().flatten().for_each(|time| {
        head.u64(time.as_micros());
    });
    job.timeout_micros.iter().for_each(|micros| {
        head.varint(*micros);
    });
    if !job.group.is_empty() {
        head.str(job.group);
    }
    if let Some(Unique { scope, hold, key, .. }) = job.unique {
        StoredKey { scope, hold, key }.write(head);
    }
    if !plain_backoff {
        write_backoff(head, &job.backoff);
    }
    if job.jitter_percent > 0 {
        head.u8(job.jitter_percent);
    }
    if !job.kind.is_empty() {
        head.str(job.kind);
    }
    job.retention_micros.iter().for_each(|micros| {
        head.varint(*micros);
    });
}

fn write_backoff(head: &mut Encoder, backoff: &Backoff<&[u64]>) {
    match backoff {
        Backoff::None => head.u8(0),
        Backoff::Fixed { micros } => head.u8(1).varint(*micros),
        Backoff::Linear { base_micros, max_micros } => head.u8(2).varint(*base_micros).varint(*max_micros),
        Backoff::Exponential { base_micros, max_micros } => head.u8(3).varint(*base_micros).varint(*max_micros),
        Backoff::List(waits) => {
            head.u8(4).varint(waits.len() as u64);
            waits.iter().fold(head, |head, wait| head.varint(*wait))
        }
    };
}

impl<'a> JobEntry<'a> {
    /// Decodes an entry, if it is of this kind.
    pub(crate) fn of(entry: &Entry<'a>) -> Result<Option<Self>, CodecError> {
        if entry.kind.kind == ENQUEUED { JobEntry::read(&mut Decoder::new(entry.body)).map(Some) } else { Ok(None) }
    }

    pub(super) fn read(from: &mut Decoder<'a>) -> Result<Self, CodecError> {
        let (queue, priority, attempts_max) = (queue(from)?, Priority::new(from.u8()?), varint_u16(from)?);
        let flags = from.varint()?;
        let given = |flag: u64| flags & flag != 0;
        Ok(JobEntry {
            queue,
            priority,
            attempts_max,
            run_at: given(RUN_AT).then(|| time(from)).transpose()?,
            expires_at: given(EXPIRES_AT).then(|| time(from)).transpose()?,
            timeout_micros: given(TIMEOUT).then(|| from.varint()).transpose()?,
            group: if given(GROUP) { from.str()? } else { "" },
            unique: given(UNIQUE).then(|| StoredKey::read(from)).transpose()?,
            backoff: if given(BACKOFF) { read_backoff(from)? } else { Backoff::default() },
            jitter_percent: if given(JITTER) { from.u8()? } else { 0 },
            kind: if given(KIND) { from.str()? } else { "" },
            retention_micros: given(RETENTION).then(|| from.varint()).transpose()?,
            payload: from.rest(),
        })
    }
}

impl<'a> StoredKey<'a> {
    pub(super) fn write(&self, out: &mut Encoder) {
        out.u8(self.scope as u8);
        match self.hold {
            UniqueHold::UntilFinished => out.u8(0),
            UniqueHold::UntilStarted => out.u8(1),
            UniqueHold::For(micros) => out.u8(2).varint(micros),
        };
        out.bytes(self.key);
    }

    pub(super) fn read(from: &mut Decoder<'a>) -> Result<Self, CodecError> {
        let scope = match from.u8()? {
            0 => UniqueScope::Queue,
            1 => UniqueScope::Everywhere,
            _ => return Err(expected("the scope of a key, 0 or 1")),
        };
        let hold = match from.u8()? {
            0 => UniqueHold::UntilFinished,
            1 => UniqueHold::UntilStarted,
            2 => UniqueHold::For(from.varint()?),
            _ => return Err(expected("how long a key is held, 0 to 2")),
        };
        Ok(StoredKey { scope, hold, key: from.bytes()? })
    }
}

fn read_backoff(from: &mut Decoder<'_>) -> Result<Backoff<Vec<u64>>, CodecError> {
    Ok(match from.u8()? {
        0 => Backoff::None,
        1 => Backoff::Fixed { micros: from.varint()? },
        2 => Backoff::Linear { base_micros: from.varint()?, max_micros: from.varint()? },
        3 => Backoff::Exponential { base_micros: from.varint()?, max_micros: from.varint()? },
        4 => {
            let count = from.varint()?;
            Backoff::List((0..count).map(|_| from.varint()).collect::<Result<_, _>>()?)
        }
        _ => return Err(expected("a backoff shape that this version knows")),
    })
}
