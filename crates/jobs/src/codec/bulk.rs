//! Entries of bulk changes: the request, and the progress.
//!
//! ```text
//! begun     filter · change [· creator]
//! filter    flags varint · [1: queue str] [2: kind str] [4: enqueued from u64] [8: enqueued before u64] [64: finished from u64]
//!           [128: finished before u64] [16: attempts min varint] [32: error str] [256: jobs varint · each id] · states u8 (bit n: state n) · tags varint · each str
//! change    0 cancel · reason str │ 1 hold · reason str │ 2 release │ 3 reschedule · at u64 │ 4 retry │ 5 retry · payload bytes │ 6 delete
//!           │ 7 move · queue str │ 8 priority u8 │ 9 attempts max varint │ 10 payload bytes
//! advanced  id of the begun entry · cursor: id · item varint · looked at varint · changed varint · refused varint · end u8 (0 none, 1 complete, 2 stopped)
//! ```

use alloc::vec::Vec;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{Creator, Place};

use super::fields::{expected, read_id, time, varint_u16, write_id};
use crate::bulk::BulkEnd;
use crate::{Change, Cursor, Filter, JobId, Priority, States};

const QUEUE: u16 = 1;
const KIND: u16 = 2;
const FROM: u16 = 4;
const BEFORE: u16 = 8;
const ATTEMPTS: u16 = 16;
const ERROR: u16 = 32;
const FINISHED_FROM: u16 = 64;
const FINISHED_BEFORE: u16 = 128;
const JOBS: u16 = 256;

/// A bulk change as requested.
#[derive(Debug, Clone)]
pub(crate) struct BulkChange<'a> {
    /// The filter without its tags and jobs.
    filter: Filter<'a>,
    tags: Vec<&'a str>,
    jobs: Option<Vec<JobId>>,
    pub(crate) change: Change<'a>,
    /// The client that began it, by whose rights it runs. `None`: it is not checked.
    pub(crate) creator: Option<Creator>,
}

/// The progress of a bulk change by one commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BulkAdvance {
    pub(crate) bulk: Place,
    pub(crate) cursor: Cursor,
    pub(crate) looked_at: u64,
    pub(crate) changed: u64,
    pub(crate) refused: u64,
    /// The end of the bulk change, if it has ended.
    pub(crate) end: Option<BulkEnd>,
}

impl<'a> BulkChange<'a> {
    pub(crate) fn new(filter: Filter<'a>, change: Change<'a>, creator: Option<Creator>) -> Self {
        let (tags, jobs) = (filter.tags.to_vec(), filter.jobs.map(<[JobId]>::to_vec));
        BulkChange { filter: Filter { tags: &[], jobs: None, ..filter }, tags, jobs, change, creator }
    }

    pub(crate) fn filter(&self) -> Filter<'_> {
        Filter { tags: &self.tags, jobs: self.jobs.as_deref(), ..self.filter }
    }

    pub(super) fn write(&self, out: &mut Encoder) {
        let Filter {
            jobs,
            queue,
            states,
            kind,
            tags,
            enqueued_from,
            enqueued_before,
            finished_from,
            finished_before,
            attempts_min,
            error,
        } = self.filter();
        let flags = [
            (QUEUE, queue.is_some()),
            (KIND, kind.is_some()),
            (FROM, enqueued_from.is_some()),
            (BEFORE, enqueued_before.is_some()),
            (ATTEMPTS, attempts_min.is_some()),
            (ERROR, error.is_some()),
            (FINISHED_FROM, finished_from.is_some()),
            (FINISHED_BEFORE, finished_before.is_some()),
            (JOBS, jobs.is_some()),
        ];
        out.varint(flags.iter().filter(|(_, given)| *given).map(|(flag, _)| u64::from(*flag)).sum());
        [queue, kind].into_iter().flatten().for_each(|word| {
            out.str(word);
        });
        [enqueued_from, enqueued_before, finished_from, finished_before].into_iter().flatten().for_each(|time| {
            out.u64(time.as_micros());
        });
        attempts_min.iter().for_each(|attempts| {
            out.varint(u64::from(*attempts));
        });
        error.iter().for_each(|text| {
            out.str(text);
        });
        jobs.iter().for_each(|jobs| {
            out.varint(jobs.len() as u64);
            jobs.iter().for_each(|job| write_id(job.place(), out));
        });
        out.u8(states.bits()).varint(tags.len() as u64);
        tags.iter().for_each(|tag| {
            out.str(tag);
        });
        write_change(&self.change, out);
        self.creator.iter().for_each(|creator| creator.encode(out));
    }

    pub(super) fn read(from: &mut Decoder<'a>) -> Result<Self, CodecError> {
        let flags = varint_u16(from)?;
        let given = |flag: u16| flags & flag != 0;
        let filter = Filter {
            queue: given(QUEUE).then(|| from.str()).transpose()?,
            kind: given(KIND).then(|| from.str()).transpose()?,
            enqueued_from: given(FROM).then(|| time(from)).transpose()?,
            enqueued_before: given(BEFORE).then(|| time(from)).transpose()?,
            finished_from: given(FINISHED_FROM).then(|| time(from)).transpose()?,
            finished_before: given(FINISHED_BEFORE).then(|| time(from)).transpose()?,
            attempts_min: given(ATTEMPTS).then(|| varint_u16(from)).transpose()?,
            error: given(ERROR).then(|| from.str()).transpose()?,
            ..Filter::default()
        };
        let ids = |from: &mut Decoder<'a>| {
            let count = from.varint()?;
            (0..count).map(|_| read_id(from).map(JobId::new)).collect::<Result<Vec<_>, CodecError>>()
        };
        let jobs = given(JOBS).then(|| ids(from)).transpose()?;
        let filter = Filter { states: States::from_bits(from.u8()?), ..filter };
        let count = from.varint()?;
        let tags = (0..count).map(|_| from.str()).collect::<Result<_, _>>()?;
        let change = read_change(from)?;
        Ok(BulkChange { filter, tags, jobs, change, creator: Creator::decode_rest(from)? })
    }
}

fn write_change(change: &Change<'_>, out: &mut Encoder) {
    match change {
        Change::Cancel { reason } => out.u8(0).str(reason),
        Change::Hold { reason } => out.u8(1).str(reason),
        Change::Release => out.u8(2),
        Change::Reschedule { run_at } => out.u8(3).u64(run_at.as_micros()),
        Change::Retry { payload: None } => out.u8(4),
        Change::Retry { payload: Some(payload) } => out.u8(5).bytes(payload),
        Change::Delete => out.u8(6),
        Change::Move { queue } => out.u8(7).str(queue),
        Change::Priority(priority) => out.u8(8).u8(priority.get()),
        Change::AttemptsMax(attempts) => out.u8(9).varint(u64::from(*attempts)),
        Change::Payload(payload) => out.u8(10).bytes(payload),
    };
}

fn read_change<'a>(from: &mut Decoder<'a>) -> Result<Change<'a>, CodecError> {
    Ok(match from.u8()? {
        0 => Change::Cancel { reason: from.str()? },
        1 => Change::Hold { reason: from.str()? },
        2 => Change::Release,
        3 => Change::Reschedule { run_at: time(from)? },
        4 => Change::Retry { payload: None },
        5 => Change::Retry { payload: Some(from.bytes()?) },
        6 => Change::Delete,
        7 => Change::Move { queue: from.str()? },
        8 => Change::Priority(Priority::new(from.u8()?)),
        9 => Change::AttemptsMax(varint_u16(from)?),
        10 => Change::Payload(from.bytes()?),
        _ => return Err(expected("a change that this version knows")),
    })
}

impl BulkAdvance {
    pub(super) fn write(&self, out: &mut Encoder) {
        write_id(self.bulk, out);
        self.cursor.write(out);
        out.varint(self.looked_at).varint(self.changed).varint(self.refused).u8(BulkEnd::number(self.end));
    }

    pub(super) fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        Ok(BulkAdvance {
            bulk: read_id(from)?,
            cursor: Cursor::read(from)?,
            looked_at: from.varint()?,
            changed: from.varint()?,
            refused: from.varint()?,
            end: BulkEnd::of_number(from.u8()?),
        })
    }
}
