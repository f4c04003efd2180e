//! The entries of this model: tags and bodies.
//!
//! | kind | entry         | tags                    | body |
//! |------|---------------|-------------------------|------|
//! | 1    | queue created | queue                   | `queue varint · name…` |
//! | 2    | enqueued      | queue, job, user tags   | `queue varint · priority u8 · attempts max varint · run at u64 · shape u8 = 1 · base varint · max varint · kind str · payload…` |
//! | 3    | leased        | job                     | `attempt varint · deadline u64 · worker…` |
//! | 4    | extended      | job                     | `deadline u64` |
//! | 5    | completed     | job                     | `attempt varint · result…` |
//! | 6    | failed        | job                     | `attempt varint · verdict · error…` |
//! | 7    | lease expired | job                     | `attempt varint · verdict` |
//! | 8    | due           | job, 1 to 255 times     | empty: each of them may run now |
//!
//! `…` takes the rest of the body. Times are microseconds since the epoch. A verdict is `0` dead, `1` pending, or
//! `2 · due u64` retrying. The shape of a backoff is 1, exponential; other numbers are for later shapes.
//!
//! ```text
//! queue tag   ┌────┬─────┬────────────┐    job tag   ┌────┬─────┬─────────────────┬──────────────┐
//!             │ 03 │ 'q' │ queue u32  │              │ 03 │ 'j' │ position varint │ index varint │
//!             └────┴─────┴────────────┘              └────┴─────┴─────────────────┴──────────────┘
//! user tag    ┌────┬─────┬────────────┐
//!             │ 03 │ 't' │ UTF-8 …    │    the same word in every queue: intersect with the queue's tag
//!             └────┴─────┴────────────┘
//! ```
//!
//! The job that an entry is about is the one whose tag it carries; of an enqueued entry it is the entry's own place.

use alloc::vec::Vec;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{
    Effects, Entry, EntryKind, ModelId, NewEntry, Place, Placed, Position, ReadError, Tag, TagBuf, Tags, Timestamp,
};

use crate::queue::QueueId;
use crate::{Backoff, JobId, NewJob, Priority};

const QUEUE_CREATED: u8 = 1;
const ENQUEUED: u8 = 2;
const LEASED: u8 = 3;
const EXTENDED: u8 = 4;
const COMPLETED: u8 = 5;
const FAILED: u8 = 6;
const LEASE_EXPIRED: u8 = 7;
const DUE: u8 = 8;

const BACKOFF_EXPONENTIAL: u8 = 1;

const VERDICT_DEAD: u8 = 0;
const VERDICT_PENDING: u8 = 1;
const VERDICT_RETRYING: u8 = 2;

/// How many jobs one entry can say "due" of: as many as an entry has tags.
pub(crate) const DUE_JOBS_MAX: usize = 255;

/// What an entry says: a decided fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect<'a> {
    QueueCreated { queue: QueueId, name: &'a str },
    Enqueued(Enqueued<'a>),
    Leased { job: JobId, attempt: u16, deadline: Timestamp, worker: &'a str },
    Extended { job: JobId, deadline: Timestamp },
    Completed { job: JobId, attempt: u16, result: &'a [u8] },
    Failed { job: JobId, attempt: u16, verdict: Verdict, error: &'a str },
    LeaseExpired { job: JobId, attempt: u16, verdict: Verdict },
    Due { jobs: Vec<JobId> },
}

/// What an enqueued entry says, but for the tags that users gave it: see [`user_tags`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Enqueued<'a> {
    pub(crate) queue: QueueId,
    pub(crate) priority: Priority,
    pub(crate) attempts_max: u16,
    pub(crate) run_at: Timestamp,
    pub(crate) backoff: Backoff,
    pub(crate) kind: &'a str,
    pub(crate) payload: &'a [u8],
}

/// What becomes of a job whose attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Dead,
    Pending,
    Retrying { due: Timestamp },
}

pub(crate) fn queue_tag(queue: QueueId) -> TagBuf {
    TagBuf::new(ModelId::JOBS, b'q').number(queue.0)
}

pub(crate) fn job_tag(job: JobId) -> TagBuf {
    let mut id = Encoder::new();
    id.varint(job.place().position.get()).varint(u64::from(job.place().index));
    TagBuf::new(ModelId::JOBS, b'j').bytes(id.as_slice())
}

pub(crate) fn user_tag(word: &str) -> TagBuf {
    TagBuf::new(ModelId::JOBS, b't').bytes(word.as_bytes())
}

/// The words that users tagged a job with.
pub(crate) fn user_tags<'a>(tags: Tags<'a>) -> impl Iterator<Item = &'a str> {
    let prefix = [ModelId::JOBS.get(), b't'];
    tags.iter().filter_map(move |tag| tag.as_bytes().strip_prefix(&prefix)).filter_map(|word| str::from_utf8(word).ok())
}

/// Pushes a job into the record. Its id is the place that the entry gets.
pub(crate) fn push_enqueued<'c>(
    effects: &mut dyn Effects,
    queue: QueueId,
    run_at: Timestamp,
    job: &NewJob<'c>,
) -> (JobId, Enqueued<'c>) {
    let id = JobId::new(effects.next_place());
    let mut words = job.tags.to_vec();
    words.sort_unstable();
    words.dedup();
    let tags: Vec<TagBuf> =
        [queue_tag(queue), job_tag(id)].into_iter().chain(words.into_iter().map(user_tag)).collect();
    let tags: Vec<Tag<'_>> = tags.iter().map(TagBuf::tag).collect();

    let mut head = Encoder::new();
    head.varint(u64::from(queue.0)).u8(job.priority.get()).varint(u64::from(job.attempts_max));
    head.u64(run_at.as_micros()).u8(BACKOFF_EXPONENTIAL);
    head.varint(job.backoff.base_micros).varint(job.backoff.max_micros).str(job.kind);

    let placed = push(effects, ENQUEUED, &tags, &[head.as_slice(), job.payload]);
    assert_eq!(placed.place, id.place(), "the entry stands where the log said it would");
    let NewJob { priority, attempts_max, backoff, kind, payload, .. } = *job;
    (id, Enqueued { queue, priority, attempts_max, run_at, backoff, kind, payload })
}

fn push(effects: &mut dyn Effects, kind: u8, tags: &[Tag<'_>], body: &[&[u8]]) -> Placed {
    effects.push(NewEntry { kind: EntryKind { model: ModelId::JOBS, kind }, tags, sequenced: None, body })
}

impl<'a> Effect<'a> {
    /// Pushes the entry that says this.
    ///
    /// # Panics
    /// Of an enqueued entry: [`push_enqueued`] has what it needs.
    pub(crate) fn push(&self, effects: &mut dyn Effects) -> Placed {
        let mut head = Encoder::new();
        match self {
            Effect::QueueCreated { queue, name } => {
                head.varint(u64::from(queue.0));
                push(effects, QUEUE_CREATED, &[queue_tag(*queue).tag()], &[head.as_slice(), name.as_bytes()])
            }
            Effect::Enqueued(_) => panic!("enqueued entries are pushed with their tags"),
            Effect::Leased { job, attempt, deadline, worker } => {
                head.varint(u64::from(*attempt)).u64(deadline.as_micros());
                push(effects, LEASED, &[job_tag(*job).tag()], &[head.as_slice(), worker.as_bytes()])
            }
            Effect::Extended { job, deadline } => {
                head.u64(deadline.as_micros());
                push(effects, EXTENDED, &[job_tag(*job).tag()], &[head.as_slice()])
            }
            Effect::Completed { job, attempt, result } => {
                head.varint(u64::from(*attempt));
                push(effects, COMPLETED, &[job_tag(*job).tag()], &[head.as_slice(), result])
            }
            Effect::Failed { job, attempt, verdict, error } => {
                head.varint(u64::from(*attempt));
                verdict.write(&mut head);
                push(effects, FAILED, &[job_tag(*job).tag()], &[head.as_slice(), error.as_bytes()])
            }
            Effect::LeaseExpired { job, attempt, verdict } => {
                head.varint(u64::from(*attempt));
                verdict.write(&mut head);
                push(effects, LEASE_EXPIRED, &[job_tag(*job).tag()], &[head.as_slice()])
            }
            Effect::Due { jobs } => {
                let tags: Vec<TagBuf> = jobs.iter().copied().map(job_tag).collect();
                let tags: Vec<Tag<'_>> = tags.iter().map(TagBuf::tag).collect();
                push(effects, DUE, &tags, &[])
            }
        }
    }

    /// What this entry of the model says.
    pub(crate) fn of(entry: &Entry<'a>) -> Result<Self, CodecError> {
        let job = || jobs_of(entry.tags).next().unwrap_or(Err(expected("the tag of a job")));
        let mut body = Decoder::new(entry.body);
        let effect = match entry.kind.kind {
            QUEUE_CREATED => Effect::QueueCreated { queue: QueueId(body.varint_u32()?), name: text(&mut body)? },
            ENQUEUED => Effect::Enqueued(Enqueued {
                queue: QueueId(body.varint_u32()?),
                priority: Priority::new(body.u8()?),
                attempts_max: varint_u16(&mut body)?,
                run_at: time(&mut body)?,
                backoff: backoff(&mut body)?,
                kind: body.str()?,
                payload: body.rest(),
            }),
            LEASED => Effect::Leased {
                job: job()?,
                attempt: varint_u16(&mut body)?,
                deadline: time(&mut body)?,
                worker: text(&mut body)?,
            },
            EXTENDED => Effect::Extended { job: job()?, deadline: time(&mut body)? },
            COMPLETED => Effect::Completed { job: job()?, attempt: varint_u16(&mut body)?, result: body.rest() },
            FAILED => Effect::Failed {
                job: job()?,
                attempt: varint_u16(&mut body)?,
                verdict: Verdict::read(&mut body)?,
                error: text(&mut body)?,
            },
            LEASE_EXPIRED => Effect::LeaseExpired {
                job: job()?,
                attempt: varint_u16(&mut body)?,
                verdict: Verdict::read(&mut body)?,
            },
            DUE => Effect::Due { jobs: jobs_of(entry.tags).collect::<Result<_, _>>()? },
            _ => return Err(expected("an entry kind of the jobs model")),
        };
        body.end()?;
        Ok(effect)
    }

    /// [`Effect::of`], for those who read the log and can be told that it is damaged.
    pub(crate) fn read(entry: &Entry<'a>) -> Result<Self, ReadError> {
        Effect::of(entry).map_err(|error| ReadError::damaged(Some(entry.place), alloc::format!("{error}")))
    }
}

impl Verdict {
    pub(crate) fn write(self, out: &mut Encoder) {
        match self {
            Verdict::Dead => out.u8(VERDICT_DEAD),
            Verdict::Pending => out.u8(VERDICT_PENDING),
            Verdict::Retrying { due } => out.u8(VERDICT_RETRYING).u64(due.as_micros()),
        };
    }

    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        match from.u8()? {
            VERDICT_DEAD => Ok(Verdict::Dead),
            VERDICT_PENDING => Ok(Verdict::Pending),
            VERDICT_RETRYING => Ok(Verdict::Retrying { due: time(from)? }),
            _ => Err(expected("a verdict from 0 to 2")),
        }
    }
}

/// The jobs whose tags these are.
fn jobs_of(tags: Tags<'_>) -> impl Iterator<Item = Result<JobId, CodecError>> {
    let prefix = [ModelId::JOBS.get(), b'j'];
    tags.iter().filter_map(move |tag| tag.as_bytes().strip_prefix(&prefix)).map(|id| {
        let mut id = Decoder::new(id);
        let place = Place::new(Position::new(id.varint()?), id.varint_u32()?);
        id.end()?;
        Ok(JobId::new(place))
    })
}

const fn expected(what: &'static str) -> CodecError {
    CodecError { expected: what, bytes_left: 0 }
}

pub(crate) fn time(from: &mut Decoder<'_>) -> Result<Timestamp, CodecError> {
    from.u64().map(Timestamp::from_micros)
}

pub(crate) fn varint_u16(from: &mut Decoder<'_>) -> Result<u16, CodecError> {
    u16::try_from(from.varint()?).map_err(|_| expected("a varint of at most 16 bits"))
}

fn backoff(from: &mut Decoder<'_>) -> Result<Backoff, CodecError> {
    match from.u8()? {
        BACKOFF_EXPONENTIAL => Ok(Backoff { base_micros: from.varint()?, max_micros: from.varint()? }),
        _ => Err(expected("a backoff shape that this version knows")),
    }
}

fn text<'a>(from: &mut Decoder<'a>) -> Result<&'a str, CodecError> {
    str::from_utf8(from.rest()).map_err(|_| expected("UTF-8 text"))
}
