//! Finished jobs that are kept for a time, by the retention of their queue or their own.
//!
//! Time is counted in whole seconds here, rounded up: with two indexes a job takes 32 bytes until
//! its time is over. A job without a retention is not here.

use quire_model::codec::{CodecError, Decoder};
use quire_model::{Parts, Timestamp};

use crate::JobId;
use crate::codec::{expected, read_id, write_id};
use crate::ordered::{OrderedKey, OrderedMap};

/// The end of a retention, in seconds since 1970.
type RetainedUntil = u32;

impl OrderedKey for (RetainedUntil, JobId) {}

/// See the module.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RetainedJobs {
    jobs: OrderedMap<JobId, RetainedUntil>,
    ends: OrderedMap<(RetainedUntil, JobId)>,
}

impl RetainedJobs {
    /// Keeps a job that has ended.
    pub(crate) fn keep(&mut self, job: JobId, until: Timestamp) {
        let until = until.as_micros().div_ceil(1_000_000);
        self.put(job, RetainedUntil::try_from(until).unwrap_or(RetainedUntil::MAX));
    }

    fn put(&mut self, job: JobId, until: RetainedUntil) {
        self.jobs.insert(job, until);
        self.ends.add((until, job));
    }

    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    pub(crate) fn contains(&self, job: JobId) -> bool {
        self.jobs.contains_key(&job)
    }

    /// A job is deleted.
    pub(crate) fn remove(&mut self, job: JobId) {
        if let Some(until) = self.jobs.remove(&job) {
            self.ends.take(&(until, job));
        }
    }

    /// Lets go of those whose time is over.
    pub(crate) fn pass(&mut self, now: Timestamp) {
        while let Some(((until, job), ())) = self.ends.first()
            && u64::from(*until) * 1_000_000 <= now.as_micros()
        {
            self.remove(*job);
        }
    }

    pub(crate) fn save(&self, parts: &mut Parts<'_>) {
        parts.encoder().varint(self.jobs.len() as u64);
        for (job, until) in &self.jobs {
            let out = parts.encoder();
            write_id(job.place(), out);
            out.u32(*until);
        }
    }

    pub(crate) fn load(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let mut kept = RetainedJobs::default();
        for _ in 0..from.varint()? {
            let (job, until) = (JobId::new(read_id(from)?), from.u32()?);
            if kept.contains(job) {
                return Err(expected("each job that is kept once"));
            }
            kept.put(job, until);
        }
        Ok(kept)
    }
}
