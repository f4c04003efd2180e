//! The effects of the model: decoding entries of every kind, and pushing them.

use alloc::format;
use alloc::vec::Vec;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{Effects, Entry, Place, Placement, ReadError, Timestamp};

use super::bulk::{BulkAdvance, BulkChange};
use super::edit::{JobEdit, JobRevival};
use super::enqueued::{ENQUEUED, JobEntry};
use super::fields::{expected, queue, read_id, time, write_id};
use super::settings;
use super::step::Steps;
use super::tags::{TagBuffer, push};
use crate::id::QueueId;
use crate::{Cause, JobId, QueueSettings};

const QUEUE_CREATED: u8 = 1;
const QUEUE_SET: u8 = 3;
const QUEUE_CLEARED: u8 = 4;
const QUEUE_DESTROYED: u8 = 5;
const EXTENDED: u8 = 6;
const NOTED: u8 = 7;
const EDITED: u8 = 8;
const REVIVED: u8 = 9;
const BULK_BEGUN: u8 = 10;
const BULK_ADVANCED: u8 = 11;

const KEY_HELD: u8 = 12;
const MOVED_OUT: u8 = 13;

const PROGRESS: u8 = 1;
const CHECKPOINT: u8 = 2;

/// The decided fact in an entry.
#[derive(Debug, Clone)]
pub(crate) enum Effect<'a> {
    QueueCreated { queue: QueueId, name: &'a str },
    Enqueued(JobEntry<'a>),
    QueueSet { queue: QueueId, settings: QueueSettings },
    QueueCleared { queue: QueueId },
    QueueDestroyed { queue: QueueId },
    Extended { jobs: Vec<(JobId, Timestamp)> },
    Noted { job: JobId, progress: Option<&'a [u8]>, checkpoint: Option<&'a [u8]> },
    Edited(JobEdit<'a>),
    Revived(JobRevival<'a>),
    MovedOut { job: JobId, to: QueueId },
    KeyHeld { job: JobId, scope: Option<QueueId>, until: Timestamp, key: &'a [u8] },
    BulkBegun(BulkChange<'a>),
    BulkAdvanced(BulkAdvance),
    Steps(Steps<'a>),
}

impl<'a> Effect<'a> {
    /// Pushes the entry of this effect. When it is a life-cycle event, it takes a number of its
    /// queue.
    ///
    /// # Panics
    /// Pushes the entry. Enqueued entries and steps are pushed by [`push_enqueued`] and [`Run`].
    pub(crate) fn push(&self, effects: &mut dyn Effects, queue: Option<QueueId>) -> Placement {
        let mut tags = TagBuffer::default();
        let mut head = Encoder::with_capacity(64);
        let (kind, rest): (u8, &[u8]) = match self {
            Effect::QueueCreated { queue, name } => {
                tags.name(name);
                head.varint(u64::from(queue.0));
                (QUEUE_CREATED, name.as_bytes())
            }
            Effect::QueueSet { queue, settings } => {
                settings::write(settings, head.varint(u64::from(queue.0)));
                (QUEUE_SET, &[])
            }
            Effect::QueueCleared { queue } => {
                head.varint(u64::from(queue.0));
                (QUEUE_CLEARED, &[])
            }
            Effect::QueueDestroyed { queue } => {
                head.varint(u64::from(queue.0));
                (QUEUE_DESTROYED, &[])
            }
            Effect::Extended { jobs } => {
                head.varint(jobs.len() as u64);
                for (job, deadline) in jobs {
                    write_id(job.place(), &mut head);
                    head.u64(deadline.as_micros());
                }
                (EXTENDED, &[])
            }
            Effect::Noted { job, progress, checkpoint } => {
                write_id(job.place(), &mut head);
                let flag = |given: bool, flag: u8| if given { flag } else { 0 };
                head.u8(flag(progress.is_some(), PROGRESS) | flag(checkpoint.is_some(), CHECKPOINT));
                progress.iter().chain(checkpoint).for_each(|bytes| {
                    head.bytes(bytes);
                });
                (NOTED, &[])
            }
            Effect::Edited(edited) => {
                tags.job(edited.job);
                edited.write(&mut head);
                (EDITED, &[])
            }
            Effect::Revived(revived) => {
                tags.job(revived.job);
                revived.write(&mut head);
                (REVIVED, &[])
            }
            Effect::MovedOut { job, to } => {
                write_id(job.place(), &mut head);
                head.varint(u64::from(to.0));
                (MOVED_OUT, &[])
            }
            Effect::KeyHeld { job, scope, until, key } => {
                write_id(job.place(), &mut head);
                match scope {
                    None => head.u8(0),
                    Some(queue) => head.u8(1).varint(u64::from(queue.0)),
                };
                head.u64(until.as_micros());
                (KEY_HELD, key)
            }
            Effect::BulkBegun(begun) => {
                begun.write(&mut head);
                (BULK_BEGUN, &[])
            }
            Effect::BulkAdvanced(advanced) => {
                advanced.write(&mut head);
                (BULK_ADVANCED, &[])
            }
            Effect::Enqueued(_) | Effect::Steps(_) => {
                panic!("an enqueue and steps are pushed elsewhere, with other tags")
            }
        };
        tags.with(queue, |tags| push(effects, kind, tags, usize::from(queue.is_some()), &[head.as_slice(), rest]))
    }

    /// Decodes an entry of the model.
    pub(crate) fn of(entry: &Entry<'a>) -> Result<Self, CodecError> {
        let mut body = Decoder::new(entry.body);
        let body = &mut body;
        let effect = match entry.kind.kind {
            QUEUE_CREATED => Effect::QueueCreated { queue: queue(body)?, name: text(body)? },
            ENQUEUED => Effect::Enqueued(JobEntry::read(body)?),
            QUEUE_SET => Effect::QueueSet { queue: queue(body)?, settings: settings::read(body)? },
            QUEUE_CLEARED => Effect::QueueCleared { queue: queue(body)? },
            QUEUE_DESTROYED => Effect::QueueDestroyed { queue: queue(body)? },
            EXTENDED => {
                let count = body.varint()?;
                let one = |_| Ok((JobId::new(read_id(body)?), time(body)?));
                Effect::Extended { jobs: (0..count).map(one).collect::<Result<_, CodecError>>()? }
            }
            NOTED => {
                let job = JobId::new(read_id(body)?);
                let flags = body.u8()?;
                let mut given = |flag| (flags & flag != 0).then(|| body.bytes()).transpose();
                Effect::Noted { job, progress: given(PROGRESS)?, checkpoint: given(CHECKPOINT)? }
            }
            EDITED => Effect::Edited(JobEdit::read(body)?),
            REVIVED => Effect::Revived(JobRevival::read(body)?),
            MOVED_OUT => Effect::MovedOut { job: JobId::new(read_id(body)?), to: queue(body)? },
            KEY_HELD => {
                let job = JobId::new(read_id(body)?);
                let scope = match body.u8()? {
                    0 => None,
                    1 => Some(queue(body)?),
                    _ => return Err(expected("the scope of a key, 0 or 1")),
                };
                Effect::KeyHeld { job, scope, until: time(body)?, key: body.rest() }
            }
            BULK_BEGUN => Effect::BulkBegun(BulkChange::read(body)?),
            BULK_ADVANCED => Effect::BulkAdvanced(BulkAdvance::read(body)?),
            kind => {
                let cause = Cause::of_kind(kind).ok_or(expected("an entry kind of the jobs model"))?;
                return Ok(Effect::Steps(Steps::read(cause, body)?));
            }
        };
        body.end()?;
        Ok(effect)
    }

    /// [`Effect::of`] for readers of the log, which can report damage.
    pub(crate) fn read(entry: &Entry<'a>) -> Result<Self, ReadError> {
        Effect::of(entry).map_err(|error| unreadable(entry.place, &error))
    }
}

pub(crate) fn unreadable(place: Place, error: &CodecError) -> ReadError {
    ReadError::damaged(Some(place), format!("{error}"))
}

fn text<'a>(from: &mut Decoder<'a>) -> Result<&'a str, CodecError> {
    str::from_utf8(from.rest()).map_err(|_| expected("UTF-8 text"))
}
