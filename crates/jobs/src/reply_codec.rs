//! The encoding of replies: a number for the kind, and its fields. The answer that is stored with
//! an idempotency key consists of such replies. Numbers are never reused.

use alloc::sync::Arc;
use alloc::vec::Vec;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{ClaimRefusal, PermissionRefusal, Timestamp};

use crate::codec::{expected, read_id, time, varint_u16, write_id};
use crate::command::{FetchedJob, Reply};
use crate::refusal::{JobLimit, Refusal};
use crate::{BulkId, JobId, JobState, LeaseToken, Priority};

/// The settings that a refusal can name.
const ACTIVE_SETTINGS: [&str; 2] = ["active_max", "group_active_max"];

/// The fields whose names a refusal can name.
const NAMED_FIELDS: [&str; 4] = ["kind", "group", "tag", "worker"];

impl Reply {
    /// Writes the reply.
    pub fn encode(&self, out: &mut Encoder) {
        match self {
            Reply::Enqueued { job, state, duplicate } => {
                write_id(job.place(), out.u8(1));
                out.u8(*state as u8).u8((*duplicate).into());
            }
            Reply::Fetched(jobs) => {
                out.u8(2).varint(jobs.len() as u64);
                jobs.iter().for_each(|job| encode_fetched(job, out));
            }
            Reply::Acked => _ = out.u8(3),
            Reply::Failed { retry_at } => encode_time(*retry_at, out.u8(4)),
            Reply::Snoozed { until } => _ = out.u8(5).u64(until.as_micros()),
            Reply::Extended { deadline } => _ = out.u8(6).u64(deadline.as_micros()),
            Reply::Changed { state } => match state {
                None => _ = out.u8(7).u8(0),
                Some(state) => _ = out.u8(7).u8(1).u8(*state as u8),
            },
            Reply::QueueSet => _ = out.u8(8),
            Reply::Cleared { jobs } => _ = out.u8(9).varint(*jobs),
            Reply::BulkBegun { bulk } => write_id(bulk.place(), out.u8(10)),
            Reply::Each(answers) => {
                out.u8(11).varint(answers.len() as u64);
                for answer in answers {
                    match answer {
                        Ok(reply) => reply.encode(out.u8(1)),
                        Err(refusal) => encode_refusal(refusal, out.u8(0)),
                    }
                }
            }
            Reply::Ticked { jobs, more } => _ = out.u8(12).varint(*jobs as u64).u8((*more).into()),
        }
    }

    /// Reads a reply that [`Reply::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes are not such a reply.
    pub fn decode(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        Reply::decode_within(from, true)
    }

    fn decode_within(from: &mut Decoder<'_>, may_be_each: bool) -> Result<Self, CodecError> {
        Ok(match from.u8()? {
            1 => Reply::Enqueued { job: job(from)?, state: state(from)?, duplicate: flag(from)? },
            2 => Reply::Fetched(list(from, decode_fetched)?),
            3 => Reply::Acked,
            4 => Reply::Failed { retry_at: decode_time(from)? },
            5 => Reply::Snoozed { until: time(from)? },
            6 => Reply::Extended { deadline: time(from)? },
            7 => Reply::Changed { state: if flag(from)? { Some(state(from)?) } else { None } },
            8 => Reply::QueueSet,
            9 => Reply::Cleared { jobs: from.varint()? },
            10 => Reply::BulkBegun { bulk: BulkId::new(read_id(from)?) },
            11 if may_be_each => Reply::Each(list(from, |from| {
                if flag(from)? { Reply::decode_within(from, false).map(Ok) } else { decode_refusal(from).map(Err) }
            })?),
            12 => {
                let jobs = usize::try_from(from.varint()?).map_err(|_| expected("a count"))?;
                Reply::Ticked { jobs, more: flag(from)? }
            }
            _ => return Err(expected("a reply of jobs")),
        })
    }
}

fn encode_fetched(fetched: &FetchedJob, out: &mut Encoder) {
    let FetchedJob {
        job,
        token,
        queue,
        kind,
        group,
        attempt,
        attempts_max,
        priority,
        payload,
        checkpoint,
        deadline,
        run_until,
    } = fetched;
    write_id(job.place(), out);
    write_id(token.place(), out);
    out.str(queue).str(kind).str(group).varint(u64::from(*attempt)).varint(u64::from(*attempts_max));
    out.u8(priority.get()).bytes(payload);
    match checkpoint {
        None => _ = out.u8(0),
        Some(checkpoint) => _ = out.u8(1).bytes(checkpoint),
    }
    out.u64(deadline.as_micros());
    encode_time(*run_until, out);
}

fn decode_fetched(from: &mut Decoder<'_>) -> Result<FetchedJob, CodecError> {
    Ok(FetchedJob {
        job: job(from)?,
        token: LeaseToken::new(read_id(from)?),
        queue: Arc::from(from.str()?),
        kind: from.string()?,
        group: from.string()?,
        attempt: varint_u16(from)?,
        attempts_max: varint_u16(from)?,
        priority: Priority::new(from.u8()?),
        payload: Vec::from(from.bytes()?),
        checkpoint: if flag(from)? { Some(Vec::from(from.bytes()?)) } else { None },
        deadline: time(from)?,
        run_until: decode_time(from)?,
    })
}

fn encode_refusal(refusal: &Refusal, out: &mut Encoder) {
    match refusal {
        Refusal::InvalidName { name } => _ = out.u8(1).str(name),
        Refusal::StaleLease { job, state } => {
            write_id(job.place(), out.u8(2));
            out.u8(*state as u8);
        }
        Refusal::UnknownJob { job } => write_id(job.place(), out.u8(3)),
        Refusal::UnknownQueue { queue } => _ = out.u8(4).str(queue),
        Refusal::WrongState { job, state } => {
            write_id(job.place(), out.u8(5));
            out.u8(*state as u8);
        }
        Refusal::Duplicate { job } => write_id(job.place(), out.u8(6)),
        Refusal::QueueDraining { queue } => _ = out.u8(7).str(queue),
        Refusal::Overloaded { queue, jobs_max, retry_after_micros } => {
            out.u8(8).str(queue).varint(u64::from(*jobs_max)).varint(*retry_after_micros);
        }
        Refusal::TooManyActive { queue, setting, most } => {
            out.u8(9).str(queue).u8(number_of(setting, &ACTIVE_SETTINGS)).varint(u64::from(*most));
        }
        Refusal::TooFewAttempts { job, least } => {
            write_id(job.place(), out.u8(10));
            out.varint(u64::from(*least));
        }
        Refusal::InvalidWeights => _ = out.u8(11),
        Refusal::NestedEach => _ = out.u8(12),
        Refusal::OutOfRange { limit, given } => _ = out.u8(13).u8(*limit as u8).varint(*given),
        Refusal::ControlCharacter { field, name } => _ = out.u8(14).u8(number_of(field, &NAMED_FIELDS)).str(name),
        Refusal::Claim(claim) => claim.encode(out.u8(15)),
        Refusal::NotPermitted(refusal) => refusal.encode(out.u8(16)),
    }
}

fn decode_refusal(from: &mut Decoder<'_>) -> Result<Refusal, CodecError> {
    Ok(match from.u8()? {
        1 => Refusal::InvalidName { name: from.string()? },
        2 => Refusal::StaleLease { job: job(from)?, state: state(from)? },
        3 => Refusal::UnknownJob { job: job(from)? },
        4 => Refusal::UnknownQueue { queue: from.string()? },
        5 => Refusal::WrongState { job: job(from)?, state: state(from)? },
        6 => Refusal::Duplicate { job: job(from)? },
        7 => Refusal::QueueDraining { queue: from.string()? },
        8 => Refusal::Overloaded {
            queue: from.string()?,
            jobs_max: from.varint_u32()?,
            retry_after_micros: from.varint()?,
        },
        9 => Refusal::TooManyActive {
            queue: from.string()?,
            setting: word_of(from, &ACTIVE_SETTINGS)?,
            most: from.varint_u32()?,
        },
        10 => Refusal::TooFewAttempts { job: job(from)?, least: varint_u16(from)? },
        11 => Refusal::InvalidWeights,
        12 => Refusal::NestedEach,
        13 => {
            let limit = JobLimit::ALL.get(usize::from(from.u8()?)).copied();
            Refusal::OutOfRange { limit: limit.ok_or(expected("a limit of jobs"))?, given: from.varint()? }
        }
        14 => Refusal::ControlCharacter { field: word_of(from, &NAMED_FIELDS)?, name: from.string()? },
        15 => Refusal::Claim(ClaimRefusal::decode(from)?),
        16 => Refusal::NotPermitted(PermissionRefusal::decode(from)?),
        _ => return Err(expected("a refusal of jobs")),
    })
}

fn number_of(word: &str, words: &[&str]) -> u8 {
    let index = words.iter().position(|known| *known == word);
    index.and_then(|index| u8::try_from(index).ok()).expect("refusals name fields and settings of these lists")
}

fn word_of(from: &mut Decoder<'_>, words: &[&'static str]) -> Result<&'static str, CodecError> {
    words.get(usize::from(from.u8()?)).copied().ok_or(expected("the number of a word"))
}

fn list<T>(
    from: &mut Decoder<'_>,
    mut read: impl FnMut(&mut Decoder<'_>) -> Result<T, CodecError>,
) -> Result<Vec<T>, CodecError> {
    let count = from.varint()?;
    // A wrong count ends at the end of the bytes, before it takes memory.
    (0..count).map(|_| read(from)).collect()
}

fn encode_time(time: Option<Timestamp>, out: &mut Encoder) {
    match time {
        None => _ = out.u8(0),
        Some(time) => _ = out.u8(1).u64(time.as_micros()),
    }
}

fn decode_time(from: &mut Decoder<'_>) -> Result<Option<Timestamp>, CodecError> {
    if flag(from)? { time(from).map(Some) } else { Ok(None) }
}

fn job(from: &mut Decoder<'_>) -> Result<JobId, CodecError> {
    read_id(from).map(JobId::new)
}

fn state(from: &mut Decoder<'_>) -> Result<JobState, CodecError> {
    JobState::from_number(from.u8()?).ok_or(expected("a state of a job"))
}

fn flag(from: &mut Decoder<'_>) -> Result<bool, CodecError> {
    match from.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(expected("0 or 1")),
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use quire_model::{ClaimLimit, NameKind, Place, Position};

    use super::*;

    fn refusals() -> Vec<Refusal> {
        let (job, state) = (JobId::new(Place::new(Position::new(300), 2)), JobState::Dead);
        let queue = || String::from("mails");
        let over =
            ClaimRefusal::OverLimit { limit: ClaimLimit::Queues, count: 1_000_000, more: 1, count_max: 1_000_000 };
        let limits = JobLimit::ALL.into_iter().map(|limit| Refusal::OutOfRange { limit, given: u64::MAX });
        let settings = ACTIVE_SETTINGS.map(|setting| Refusal::TooManyActive { queue: queue(), setting, most: 7 });
        let fields = NAMED_FIELDS.map(|field| Refusal::ControlCharacter { field, name: String::from("a\u{7}") });
        let others = [
            Refusal::InvalidName { name: String::from("//") },
            Refusal::StaleLease { job, state },
            Refusal::UnknownJob { job },
            Refusal::UnknownQueue { queue: queue() },
            Refusal::WrongState { job, state },
            Refusal::Duplicate { job },
            Refusal::QueueDraining { queue: queue() },
            Refusal::Overloaded { queue: queue(), jobs_max: 5, retry_after_micros: 1_000_000 },
            Refusal::TooFewAttempts { job, least: 3 },
            Refusal::InvalidWeights,
            Refusal::NestedEach,
            Refusal::Claim(over),
            Refusal::Claim(ClaimRefusal::taken("a.b", NameKind::Store, "a/b")),
        ];
        limits.chain(settings).chain(fields).chain(others).collect()
    }

    fn replies() -> Vec<Reply> {
        let place = Place::new(Position::new(300), 2);
        let (job, at) = (JobId::new(place), Timestamp::from_micros(1_790_000_000_000_000));
        let fetched = FetchedJob {
            job,
            token: LeaseToken::new(Place::new(Position::new(301), 0)),
            queue: Arc::from("mails"),
            kind: String::from("welcome"),
            group: String::new(),
            attempt: 300,
            attempts_max: 65_535,
            priority: Priority::HIGH,
            payload: alloc::vec![7; 200],
            checkpoint: Some(alloc::vec![1]),
            deadline: at,
            run_until: Some(at),
        };
        let bare = FetchedJob { checkpoint: None, run_until: None, payload: Vec::new(), ..fetched.clone() };
        let changed = JobState::ALL.into_iter().map(|state| Reply::Changed { state: Some(state) });
        let others = [
            Reply::Enqueued { job, state: JobState::Pending, duplicate: false },
            Reply::Enqueued { job, state: JobState::Active, duplicate: true },
            Reply::Fetched(Vec::new()),
            Reply::Fetched(alloc::vec![fetched, bare]),
            Reply::Acked,
            Reply::Failed { retry_at: None },
            Reply::Failed { retry_at: Some(at) },
            Reply::Snoozed { until: at },
            Reply::Extended { deadline: at },
            Reply::Changed { state: None },
            Reply::QueueSet,
            Reply::Cleared { jobs: 1 << 33 },
            Reply::BulkBegun { bulk: BulkId::new(place) },
            Reply::Ticked { jobs: 5, more: true },
        ];
        changed.chain(others).collect()
    }

    #[test]
    fn every_reply_is_read_as_it_was_written_and_no_part_of_it_is_one() {
        let each = replies().into_iter().map(Ok).chain(refusals().into_iter().map(Err)).collect();
        for reply in replies().into_iter().chain([Reply::Each(each)]) {
            let mut out = Encoder::new();
            reply.encode(&mut out);
            let mut from = Decoder::new(out.as_slice());
            assert_eq!(Reply::decode(&mut from), Ok(reply.clone()));
            from.end().expect("nothing is left");
            for length in 0..out.as_slice().len() {
                let cut = Reply::decode(&mut Decoder::new(&out.as_slice()[..length]));
                assert!(cut.is_err(), "{reply:?} up to byte {length}");
            }
        }
    }

    #[test]
    fn a_limit_has_the_number_of_its_place_in_the_list() {
        assert!(JobLimit::ALL.into_iter().enumerate().all(|(number, limit)| limit as usize == number));
    }
}
