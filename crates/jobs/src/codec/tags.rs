//! The tags under which this model's entries are found again.

use alloc::vec::Vec;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{ModelId, Tag, TagBuf, Tags};

use crate::codec::read_id;
use crate::queue::QueueId;
use crate::{JobId, JobState};

pub(crate) fn queue_tag(queue: QueueId) -> TagBuf {
    TagBuf::new(ModelId::JOBS, b'q').number(queue.0)
}

/// The queue whose numbers an entry takes.
pub(crate) fn queue_of(tags: Tags<'_>) -> Option<QueueId> {
    let number = tags.first()?.as_bytes().strip_prefix(&[ModelId::JOBS.get(), b'q'])?;
    Decoder::new(number).u32().ok().map(QueueId)
}

pub(crate) fn finished_tag(queue: QueueId, state: JobState) -> TagBuf {
    TagBuf::new(ModelId::JOBS, b'f').number(queue.0).bytes(&[state as u8])
}

pub(crate) fn job_tag(job: JobId) -> TagBuf {
    let mut id = Encoder::new();
    super::write_id(job.place(), &mut id);
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

/// The jobs whose tags these are.
pub(crate) fn jobs_of(tags: Tags<'_>) -> impl Iterator<Item = Result<JobId, CodecError>> {
    let prefix = [ModelId::JOBS.get(), b'j'];
    tags.iter().filter_map(move |tag| tag.as_bytes().strip_prefix(&prefix)).map(|id| {
        let mut id = Decoder::new(id);
        let place = read_id(&mut id)?;
        id.end()?;
        Ok(JobId::new(place))
    })
}

/// The tags of an entry in the making, behind each other: one allocation for all of them.
#[derive(Debug, Default)]
pub(crate) struct TagList {
    bytes: Encoder,
    ends: Vec<usize>,
}

impl TagList {
    fn begin(&mut self, role: u8) -> &mut Encoder {
        self.bytes.u8(ModelId::JOBS.get()).u8(role)
    }

    fn end(&mut self) {
        self.ends.push(self.bytes.as_slice().len());
    }

    pub(crate) fn queue(&mut self, queue: QueueId) {
        self.begin(b'q').u32(queue.0);
        self.end();
    }

    pub(crate) fn finished(&mut self, queue: QueueId, state: JobState) {
        self.begin(b'f').u32(queue.0).u8(state as u8);
        self.end();
    }

    pub(crate) fn job(&mut self, job: JobId) {
        super::write_id(job.place(), self.begin(b'j'));
        self.end();
    }

    pub(crate) fn user(&mut self, word: &str) {
        self.begin(b't').raw(word.as_bytes());
        self.end();
    }

    /// Gives the tags.
    pub(crate) fn with<R>(&self, use_them: impl FnOnce(&[Tag<'_>]) -> R) -> R {
        let bytes = self.bytes.as_slice();
        if let [end] = self.ends[..] {
            return use_them(&[Tag::new(&bytes[..end])]);
        }
        let mut begin = 0;
        let tag = |end: &usize| Tag::new(&bytes[core::mem::replace(&mut begin, *end)..*end]);
        let tags: Vec<Tag<'_>> = self.ends.iter().map(tag).collect();
        use_them(&tags)
    }
}
