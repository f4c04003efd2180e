//! The tags under which this model's entries are found again.

use alloc::vec::Vec;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{Effects, EntryKind, ModelId, NewEntry, Placement, Sequence, SequenceRequest, Tag, TagBuf, Tags};

use super::fields::{read_id, write_id};
use crate::id::QueueId;
use crate::{JobId, JobState};

pub(crate) fn queue_tag(queue: QueueId) -> TagBuf {
    TagBuf::new(ModelId::JOBS, b'q').number(queue.0)
}

/// Encodes as [`queue_tag`] does, without an allocation.
pub(crate) fn queue_tag_bytes(queue: QueueId) -> [u8; 6] {
    let [a, b, c, d] = queue.0.to_le_bytes();
    [ModelId::JOBS.get(), b'q', a, b, c, d]
}

/// The queue whose numbers an entry takes.
pub(crate) fn queue_of(tags: Tags<'_>) -> Option<QueueId> {
    let number = tags.first()?.as_bytes().strip_prefix(&[ModelId::JOBS.get(), b'q'])?;
    Decoder::new(number).u32().ok().map(QueueId)
}

pub(crate) fn name_tag(name: &str) -> TagBuf {
    TagBuf::new(ModelId::JOBS, b'n').bytes(name.as_bytes())
}

pub(crate) fn finished_tag(queue: QueueId, state: JobState) -> TagBuf {
    TagBuf::new(ModelId::JOBS, b'f').number(queue.0).bytes(&[state as u8])
}

pub(crate) fn job_tag(job: JobId) -> TagBuf {
    let mut id = Encoder::new();
    write_id(job.place(), &mut id);
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

/// More than the tags of most entries take.
const TAGS_BYTES: usize = 48;

/// The most tags whose list needs no allocation.
const FEW: usize = 8;

/// The tags of an entry under construction, each with its length before it, in one allocation.
#[derive(Debug, Default)]
pub(crate) struct TagBuffer {
    bytes: Encoder,
    count: usize,
}

/// Returns the length of a varint, in bytes.
fn varint_bytes(number: u64) -> usize {
    (64 - (number | 1).leading_zeros() as usize).div_ceil(7)
}

impl TagBuffer {
    /// An empty list in this encoder, which is empty.
    pub(crate) fn new(bytes: Encoder) -> Self {
        TagBuffer { bytes, count: 0 }
    }

    pub(crate) fn into_encoder(self) -> Encoder {
        self.bytes
    }

    fn add(&mut self, role: u8, rest: &[u8]) {
        self.count += 1;
        self.length(2 + rest.len());
        self.bytes.u8(ModelId::JOBS.get()).u8(role).raw(rest);
    }

    fn length(&mut self, bytes: usize) {
        if self.bytes.as_slice().is_empty() {
            self.bytes.reserve(TAGS_BYTES);
        }
        match Tags::length(bytes) {
            [length, 0] => self.bytes.u8(length),
            length => self.bytes.raw(&length),
        };
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }

    pub(crate) fn finished(&mut self, queue: QueueId, state: JobState) {
        let [a, b, c, d] = queue.0.to_le_bytes();
        self.add(b'f', &[a, b, c, d, state as u8]);
    }

    pub(crate) fn job(&mut self, job: JobId) {
        self.count += 1;
        let place = job.place();
        let length = 2 + varint_bytes(place.position.get()) + varint_bytes(u64::from(place.index));
        self.length(length);
        self.bytes.u8(ModelId::JOBS.get()).u8(b'j');
        write_id(place, &mut self.bytes);
    }

    pub(crate) fn name(&mut self, name: &str) {
        self.add(b'n', name.as_bytes());
    }

    pub(crate) fn user(&mut self, word: &str) {
        self.add(b't', word.as_bytes());
    }

    /// Passes on the tags. When the entry takes numbers of a queue, the queue's tag comes first.
    pub(crate) fn with<R>(&self, queue: Option<QueueId>, use_them: impl FnOnce(&[Tag<'_>]) -> R) -> R {
        let queue = queue.map(queue_tag_bytes);
        let tags = queue.iter().map(|bytes| Tag::new(bytes)).chain(Tags::from_encoded(self.bytes.as_slice()).iter());
        let count = usize::from(queue.is_some()) + self.count;
        if count > FEW {
            let mut all = Vec::with_capacity(count);
            all.extend(tags);
            return use_them(&all);
        }
        let mut few = [Tag::new(b"-"); FEW];
        few.iter_mut().zip(tags).for_each(|(place, tag)| *place = tag);
        use_them(&few[..count])
    }
}

/// Pushes an entry of this model, which takes `numbers` numbers of its first tag.
pub(crate) fn push(effects: &mut dyn Effects, kind: u8, tags: &[Tag<'_>], numbers: usize, body: &[&[u8]]) -> Placement {
    let count = u32::try_from(numbers).expect("an entry has few steps");
    let sequenced = (count > 0).then_some(SequenceRequest { origin: Sequence::new(0), count });
    effects.push(NewEntry { kind: EntryKind { model: ModelId::JOBS, kind }, tags, sequenced, body })
}
