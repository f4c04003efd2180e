//! The content of the entries of streams. Numbers are little-endian; `v` is a varint, `+` a varint
//! length and that many bytes, `…` the rest.
//!
//! ```text
//! kind 1  topic created      topic u32 │ partitions u32 │ settings + │ name…
//! kind 2  batch produced     the record batch as it came in; its offsets are the entry's sequence and count
//! kind 3  group created      group u32 │ name…
//! kind 4  offset committed   group u32 │ topic u32 │ partition u32 │ offset u64 │ leader epoch u32 │ metadata…
//! kind 5  topic deleted      topic u32
//! kind 6  topic altered      topic u32 │ partitions u32 │ settings +
//! kind 7  records deleted    topic u32 │ partition u32 │ start u64
//! kind 8  producer given     producer v │ topics before v
//! kind 9  generation begun   group u32 │ generation u32 │ protocol type + │ protocol + │ n v │ n × (instance +, member +)
//! kind 10 offset deleted     group u32 │ topic u32 │ partition u32
//! kind 11 group deleted      group u32
//! kind 12 member replaced    group u32 │ instance + │ member +
//! kind 13 unread protected   group u32 │ topic u32 │ 1, or 0 for no longer, u8
//! kind 14 member joined      group u32 │ topic u32 │ n v │ n × gone member v │ member v │ lease in ms v │ name…
//! kind 15 member renewed     group u32 │ topic u32 │ member v
//! kind 16 members gone       group u32 │ topic u32 │ n v │ n × member v
//! ```
//!
//! All ones stand for an unknown leader epoch.
//!
//! Settings are those that differ from their defaults, each a number u8 and a value v: 1 retention
//! in ms, 2 retention in bytes, 3 largest batch in bytes, 4 codec, 5 cleanup (1 compact, 2 compact
//! and delete), 6 how many ms a record without a value is kept, 7 which settings were set to their
//! defaults (bit n for number n).
//!
//! Entries on the produce and commit paths have a fixed part, made on the stack, and a rest, which
//! the log copies from its source.

use alloc::vec::Vec;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{EntryKind, ModelId, Sequence};

use crate::{Generation, GroupId, KeptSettings, MemberId, ProducerId, StaticMember, TopicId, TopicSettings};

pub(crate) const TOPIC_CREATED: EntryKind = EntryKind { model: ModelId::STREAMS, kind: 1 };
pub(crate) const BATCH_PRODUCED: EntryKind = EntryKind { model: ModelId::STREAMS, kind: 2 };
pub(crate) const GROUP_CREATED: EntryKind = EntryKind { model: ModelId::STREAMS, kind: 3 };
pub(crate) const OFFSET_COMMITTED: EntryKind = EntryKind { model: ModelId::STREAMS, kind: 4 };

pub(crate) const TOPIC_DELETED: EntryKind = EntryKind { model: ModelId::STREAMS, kind: 5 };
pub(crate) const TOPIC_ALTERED: EntryKind = EntryKind { model: ModelId::STREAMS, kind: 6 };
pub(crate) const RECORDS_DELETED: EntryKind = EntryKind { model: ModelId::STREAMS, kind: 7 };
pub(crate) const PRODUCER_GIVEN: EntryKind = EntryKind { model: ModelId::STREAMS, kind: 8 };
pub(crate) const GENERATION_BEGUN: EntryKind = EntryKind { model: ModelId::STREAMS, kind: 9 };
pub(crate) const OFFSET_DELETED: EntryKind = EntryKind { model: ModelId::STREAMS, kind: 10 };
pub(crate) const GROUP_DELETED: EntryKind = EntryKind { model: ModelId::STREAMS, kind: 11 };
pub(crate) const MEMBER_REPLACED: EntryKind = EntryKind { model: ModelId::STREAMS, kind: 12 };

pub(crate) const UNREAD_PROTECTED: EntryKind = EntryKind { model: ModelId::STREAMS, kind: 13 };
pub(crate) const MEMBER_JOINED: EntryKind = EntryKind { model: ModelId::STREAMS, kind: 14 };
pub(crate) const MEMBER_RENEWED: EntryKind = EntryKind { model: ModelId::STREAMS, kind: 15 };
pub(crate) const MEMBERS_GONE: EntryKind = EntryKind { model: ModelId::STREAMS, kind: 16 };

const NO_LEADER_EPOCH: u32 = u32::MAX;

/// The body of kind 1, and of kind 6 with an empty name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TopicBody<'a> {
    pub(crate) topic: TopicId,
    pub(crate) partitions: u32,
    pub(crate) settings: TopicSettings,
    pub(crate) kept: KeptSettings,
    pub(crate) name: &'a str,
}

impl<'a> TopicBody<'a> {
    pub(crate) fn encode(&self) -> Encoder {
        let mut out = Encoder::new();
        out.u32(self.topic.get()).u32(self.partitions);
        self.settings.encode(&self.kept, &mut out);
        out.raw(self.name.as_bytes());
        out
    }

    pub(crate) fn decode(body: &'a [u8]) -> Result<Self, CodecError> {
        let mut from = Decoder::new(body);
        let topic = TopicId::new(from.u32()?);
        let partitions = from.u32()?;
        let (settings, kept) = TopicSettings::decode(&mut from)?;
        Ok(TopicBody { topic, partitions, settings, kept, name: text(&mut from)? })
    }
}

/// The body of kind 7.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StartBody {
    pub(crate) topic: TopicId,
    pub(crate) partition: u32,
    pub(crate) start: Sequence,
}

impl StartBody {
    pub(crate) fn encode(&self) -> Encoder {
        let mut out = Encoder::new();
        out.u32(self.topic.get()).u32(self.partition).u64(self.start.get());
        out
    }

    pub(crate) fn decode(body: &[u8]) -> Result<Self, CodecError> {
        let mut from = Decoder::new(body);
        let (topic, partition) = (TopicId::new(from.u32()?), from.u32()?);
        Ok(StartBody { topic, partition, start: Sequence::new(from.u64()?) })
    }
}

/// The body of kind 8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProducerBody {
    pub(crate) producer: ProducerId,
    pub(crate) topics_before: TopicId,
}

impl ProducerBody {
    pub(crate) fn encode(&self) -> Encoder {
        let mut out = Encoder::new();
        out.varint(self.producer.get()).varint(self.topics_before.get().into());
        out
    }

    pub(crate) fn decode(body: &[u8]) -> Result<Self, CodecError> {
        let mut from = Decoder::new(body);
        let producer = ProducerId::new(from.varint()?);
        Ok(ProducerBody { producer, topics_before: TopicId::new(from.varint_u32()?) })
    }
}

/// The body of kind 9.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GenerationBody<'a> {
    pub(crate) group: GroupId,
    pub(crate) generation: Generation,
    pub(crate) protocol_type: &'a str,
    pub(crate) protocol: &'a str,
    pub(crate) members: Vec<StaticMember<'a>>,
}

impl<'a> GenerationBody<'a> {
    pub(crate) fn encode(&self) -> Encoder {
        let mut out = Encoder::new();
        out.u32(self.group.get()).u32(self.generation.get()).str(self.protocol_type).str(self.protocol);
        out.varint(self.members.len() as u64);
        for member in &self.members {
            out.str(member.instance).str(member.member);
        }
        out
    }

    pub(crate) fn decode(body: &'a [u8]) -> Result<Self, CodecError> {
        let mut from = Decoder::new(body);
        let (group, generation) = (GroupId::new(from.u32()?), Generation::new(from.u32()?));
        let (protocol_type, protocol) = (from.str()?, from.str()?);
        let members = (0..from.varint()?).map(|_| Ok(StaticMember { instance: from.str()?, member: from.str()? }));
        Ok(GenerationBody { group, generation, protocol_type, protocol, members: members.collect::<Result<_, _>>()? })
    }
}

/// The body of kind 10: group, topic, partition.
pub(crate) fn encode_offset_deleted(group: GroupId, topic: TopicId, partition: u32) -> Encoder {
    let mut out = Encoder::new();
    out.u32(group.get()).u32(topic.get()).u32(partition);
    out
}

/// The body of kind 10.
pub(crate) fn decode_offset_deleted(body: &[u8]) -> Result<(GroupId, TopicId, u32), CodecError> {
    let mut from = Decoder::new(body);
    Ok((GroupId::new(from.u32()?), TopicId::new(from.u32()?), from.u32()?))
}

/// The body of kind 12.
pub(crate) fn encode_member_replaced(group: GroupId, member: StaticMember<'_>) -> Encoder {
    let mut out = Encoder::new();
    out.u32(group.get()).str(member.instance).str(member.member);
    out
}

/// The body of kind 12.
pub(crate) fn decode_member_replaced(body: &[u8]) -> Result<(GroupId, StaticMember<'_>), CodecError> {
    let mut from = Decoder::new(body);
    Ok((GroupId::new(from.u32()?), StaticMember { instance: from.str()?, member: from.str()? }))
}

/// The body of kind 13: group, topic, whether.
pub(crate) fn encode_protected(group: GroupId, topic: TopicId, protects: bool) -> Encoder {
    let mut out = Encoder::new();
    out.u32(group.get()).u32(topic.get()).u8(protects.into());
    out
}

/// The body of kind 13.
pub(crate) fn decode_protected(body: &[u8]) -> Result<(GroupId, TopicId, bool), CodecError> {
    let mut from = Decoder::new(body);
    Ok((GroupId::new(from.u32()?), TopicId::new(from.u32()?), from.u8()? != 0))
}

/// The body of kind 15.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RenewedBody {
    pub(crate) group: GroupId,
    pub(crate) topic: TopicId,
    pub(crate) member: MemberId,
}

impl RenewedBody {
    pub(crate) fn encode(&self) -> Encoder {
        let mut out = Encoder::new();
        out.u32(self.group.get()).u32(self.topic.get()).varint(self.member.get());
        out
    }

    pub(crate) fn decode(body: &[u8]) -> Result<Self, CodecError> {
        let mut from = Decoder::new(body);
        let (group, topic) = (GroupId::new(from.u32()?), TopicId::new(from.u32()?));
        Ok(RenewedBody { group, topic, member: MemberId::new(from.varint()?) })
    }
}

/// The body of kind 16, and the beginning of the body of kind 14: members that were removed from a
/// roster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemovedMembersBody {
    pub(crate) group: GroupId,
    pub(crate) topic: TopicId,
    pub(crate) members: Vec<MemberId>,
}

impl RemovedMembersBody {
    pub(crate) fn encode(&self) -> Encoder {
        let mut out = Encoder::new();
        out.u32(self.group.get()).u32(self.topic.get()).varint(self.members.len() as u64);
        for member in &self.members {
            out.varint(member.get());
        }
        out
    }

    pub(crate) fn decode(body: &[u8]) -> Result<Self, CodecError> {
        RemovedMembersBody::take(&mut Decoder::new(body))
    }

    fn take(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let (group, topic) = (GroupId::new(from.u32()?), TopicId::new(from.u32()?));
        let members = (0..from.varint()?).map(|_| Ok(MemberId::new(from.varint()?)));
        Ok(RemovedMembersBody { group, topic, members: members.collect::<Result<_, _>>()? })
    }
}

/// The body of kind 14.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JoinedBody<'a> {
    pub(crate) gone: RemovedMembersBody,
    pub(crate) member: MemberId,
    pub(crate) lease_ms: u32,
    pub(crate) name: &'a str,
}

impl<'a> JoinedBody<'a> {
    pub(crate) fn encode(&self) -> Encoder {
        let mut out = self.gone.encode();
        out.varint(self.member.get()).varint(self.lease_ms.into()).raw(self.name.as_bytes());
        out
    }

    pub(crate) fn decode(body: &'a [u8]) -> Result<Self, CodecError> {
        let mut from = Decoder::new(body);
        let (gone, member) = (RemovedMembersBody::take(&mut from)?, MemberId::new(from.varint()?));
        Ok(JoinedBody { gone, member, lease_ms: from.varint_u32()?, name: text(&mut from)? })
    }
}

/// The body of kinds 5 and 11: an id.
pub(crate) fn decode_id(body: &[u8]) -> Result<u32, CodecError> {
    Decoder::new(body).u32()
}

/// The begin of the bodies of kinds 13 to 16: a group and a topic.
pub(crate) fn decode_group_and_topic(body: &[u8]) -> Result<(GroupId, TopicId), CodecError> {
    let mut from = Decoder::new(body);
    Ok((GroupId::new(from.u32()?), TopicId::new(from.u32()?)))
}

/// The body of kind 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupBody<'a> {
    pub(crate) group: GroupId,
    pub(crate) name: &'a str,
}

impl<'a> GroupBody<'a> {
    /// The part before the name.
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
    /// The part before the metadata.
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
