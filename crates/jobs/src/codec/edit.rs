//! Entries that edit a job, or revive a finished one.
//!
//! ```text
//! edited   id · before · final facts · from queue varint · group str · 0 │ 1 · payload bytes
//! revived  id · before · final facts · from u8 · from queue varint · group str · 0 │ 1 · unique, as in an enqueued entry · 0 │ 1 · retention varint · 0 │ 1 · payload bytes
//! ```
//!
//! Both entries have all facts, changed or not, so applying them needs nothing but the state.
//! `before` and the final facts are as in [`step`](super::step).

use quire_model::Place;
use quire_model::codec::{CodecError, Decoder, Encoder};

use super::enqueued::StoredKey;
use super::fields::{expected, queue, read_id, read_later, write_id, write_later};
use super::step::FinalFacts;
use crate::id::QueueId;
use crate::{JobId, JobState};

/// An unfinished job is changed, or moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JobEdit<'a> {
    pub(crate) job: JobId,
    pub(crate) before: Place,
    /// The job after the edit; its content is unchanged.
    pub(crate) final_facts: FinalFacts,
    /// The queue that it was in: another than that of the final facts when it was moved.
    pub(crate) from: QueueId,
    pub(crate) group: &'a str,
    /// The new payload, when it is a new one.
    pub(crate) payload: Option<&'a [u8]>,
}

/// A finished job is pending again, with all its attempts before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JobRevival<'a> {
    pub(crate) job: JobId,
    pub(crate) before: Place,
    pub(crate) final_facts: FinalFacts,
    /// The state that it was in.
    pub(crate) from: JobState,
    /// The queue that it was in: another than that of the final facts when that was destroyed.
    pub(crate) was_in: QueueId,
    pub(crate) group: &'a str,
    /// The key that it has again, until it is started or finished.
    pub(crate) unique: Option<StoredKey<'a>>,
    pub(crate) retention_micros: Option<u64>,
    /// The new payload, when it is a new one.
    pub(crate) payload: Option<&'a [u8]>,
}

fn write_payload(payload: Option<&[u8]>, out: &mut Encoder) {
    match payload {
        None => out.u8(0),
        Some(payload) => out.u8(1).bytes(payload),
    };
}

fn read_payload<'a>(from: &mut Decoder<'a>) -> Result<Option<&'a [u8]>, CodecError> {
    match from.u8()? {
        0 => Ok(None),
        1 => from.bytes().map(Some),
        _ => Err(expected("whether there is a payload, 0 or 1")),
    }
}

impl<'a> JobEdit<'a> {
    pub(super) fn write(&self, out: &mut Encoder) {
        let job = self.job.place();
        write_id(job, out);
        self.final_facts.write(job, write_later(job, self.before, out)).varint(u64::from(self.from.0)).str(self.group);
        write_payload(self.payload, out);
    }

    pub(super) fn read(from: &mut Decoder<'a>) -> Result<Self, CodecError> {
        let job = read_id(from)?;
        Ok(JobEdit {
            job: JobId::new(job),
            before: read_later(job, from)?,
            final_facts: FinalFacts::read(job, from)?,
            from: queue(from)?,
            group: from.str()?,
            payload: read_payload(from)?,
        })
    }
}

impl<'a> JobRevival<'a> {
    pub(super) fn write(&self, out: &mut Encoder) {
        let job = self.job.place();
        write_id(job, out);
        self.final_facts.write(job, write_later(job, self.before, out)).u8(self.from as u8);
        out.varint(u64::from(self.was_in.0)).str(self.group);
        match &self.unique {
            None => {
                out.u8(0);
            }
            Some(unique) => unique.write(out.u8(1)),
        }
        match self.retention_micros {
            None => out.u8(0),
            Some(micros) => out.u8(1).varint(micros),
        };
        write_payload(self.payload, out);
    }

    pub(super) fn read(from: &mut Decoder<'a>) -> Result<Self, CodecError> {
        let job = read_id(from)?;
        Ok(JobRevival {
            job: JobId::new(job),
            before: read_later(job, from)?,
            final_facts: FinalFacts::read(job, from)?,
            from: JobState::from_number(from.u8()?).ok_or(expected("a state that this version knows"))?,
            was_in: queue(from)?,
            group: from.str()?,
            unique: match from.u8()? {
                0 => None,
                1 => Some(StoredKey::read(from)?),
                _ => return Err(expected("whether there is a key, 0 or 1")),
            },
            retention_micros: match from.u8()? {
                0 => None,
                1 => Some(from.varint()?),
                _ => return Err(expected("whether there is a retention, 0 or 1")),
            },
            payload: read_payload(from)?,
        })
    }
}
