//! What the entries of streams hold. Numbers are little-endian; `…` takes the rest.
//!
//! ```text
//! kind 1  topic created      topic u32 │ partitions u32 │ name…
//! kind 2  batch produced     the record batch as it came in; its offsets are the entry's sequence and count
//! kind 3  group created      group u32 │ name…
//! kind 4  offset committed   group u32 │ topic u32 │ partition u32 │ offset u64 │ leader epoch u32 │ metadata…
//! ```
//!
//! A leader epoch that is not known is all ones. A body is a fixed part, made on the stack, and the rest, which the log
//! copies from where it lies.

use quire_model::codec::{CodecError, Decoder};
use quire_model::{EntryKind, ModelId, Sequence};

use crate::{GroupId, TopicId};

pub(crate) const TOPIC_CREATED: EntryKind = EntryKind { model: ModelId::STREAMS, kind: 1 };
pub(crate) const BATCH_PRODUCED: EntryKind = EntryKind { model: ModelId::STREAMS, kind: 2 };
pub(crate) const GROUP_CREATED: EntryKind = EntryKind { model: ModelId::STREAMS, kind: 3 };
pub(crate) const OFFSET_COMMITTED: EntryKind = EntryKind { model: ModelId::STREAMS, kind: 4 };

const NO_LEADER_EPOCH: u32 = u32::MAX;

/// The body of kind 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TopicBody<'a> {
    pub(crate) topic: TopicId,
    pub(crate) partitions: u32,
    pub(crate) name: &'a str,
}

impl<'a> TopicBody<'a> {
    /// What stands before the name.
    pub(crate) fn fixed(&self) -> [u8; 8] {
        let mut fixed = [0; 8];
        fixed[..4].copy_from_slice(&self.topic.get().to_le_bytes());
        fixed[4..].copy_from_slice(&self.partitions.to_le_bytes());
        fixed
    }

    pub(crate) fn decode(body: &'a [u8]) -> Result<Self, CodecError> {
        let mut from = Decoder::new(body);
        let topic = TopicId::new(from.u32()?);
        let partitions = from.u32()?;
        Ok(TopicBody { topic, partitions, name: text(&mut from)? })
    }
}

/// The body of kind 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupBody<'a> {
    pub(crate) group: GroupId,
    pub(crate) name: &'a str,
}

impl<'a> GroupBody<'a> {
    /// What stands before the name.
    pub(crate) fn fixed(&self) -> [u8; 4] {
        self.group.get().to_le_bytes()
    }

    pub(crate) fn decode(body: &'a [u8]) -> Result<Self, CodecError> {
        let mut from = Decoder::new(body);
        Ok(GroupBody { group: GroupId::new(from.u32()?), name: text(&mut from)? })
    }
}

/// The body of kind 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OffsetBody<'a> {
    pub(crate) group: GroupId,
    pub(crate) topic: TopicId,
    pub(crate) partition: u32,
    pub(crate) offset: Sequence,
    pub(crate) leader_epoch: Option<u32>,
    pub(crate) metadata: &'a str,
}

impl<'a> OffsetBody<'a> {
    /// What stands before the metadata.
    pub(crate) fn fixed(&self) -> [u8; 24] {
        let mut fixed = [0; 24];
        fixed[..4].copy_from_slice(&self.group.get().to_le_bytes());
        fixed[4..8].copy_from_slice(&self.topic.get().to_le_bytes());
        fixed[8..12].copy_from_slice(&self.partition.to_le_bytes());
        fixed[12..20].copy_from_slice(&self.offset.get().to_le_bytes());
        fixed[20..].copy_from_slice(&encode_leader_epoch(self.leader_epoch).to_le_bytes());
        fixed
    }

    pub(crate) fn decode(body: &'a [u8]) -> Result<Self, CodecError> {
        let mut from = Decoder::new(body);
        Ok(OffsetBody {
            group: GroupId::new(from.u32()?),
            topic: TopicId::new(from.u32()?),
            partition: from.u32()?,
            offset: Sequence::new(from.u64()?),
            leader_epoch: decode_leader_epoch(from.u32()?),
            metadata: text(&mut from)?,
        })
    }
}

/// A leader epoch as entries and checkpoints hold it.
pub(crate) fn encode_leader_epoch(epoch: Option<u32>) -> u32 {
    epoch.unwrap_or(NO_LEADER_EPOCH)
}

/// A leader epoch as entries and checkpoints hold it.
pub(crate) fn decode_leader_epoch(epoch: u32) -> Option<u32> {
    (epoch != NO_LEADER_EPOCH).then_some(epoch)
}

fn text<'a>(from: &mut Decoder<'a>) -> Result<&'a str, CodecError> {
    let bytes = from.rest();
    core::str::from_utf8(bytes).map_err(|_| CodecError { expected: "UTF-8 text", bytes_left: bytes.len() })
}
