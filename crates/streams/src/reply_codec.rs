//! The encoding of replies: a number for the kind, and its fields. The answer that is stored with
//! an idempotency key consists of such replies. Numbers are never reused.

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{Place, Position, Sequence, Timestamp};

use crate::reply::{MemberJoined, OffsetCommitted, ProduceResult, RecordsDeleted, Reply, TopicAltered, TopicCreated};
use crate::wire::Codec;
use crate::{GroupId, KeptSettings, MemberId, ProducerId, TopicId, TopicSettings};

/// Flags of a produced batch.
const DUPLICATE: u8 = 1;
const APPEND_TIME: u8 = 2;

impl Reply {
    /// Writes the reply.
    pub fn encode(&self, out: &mut Encoder) {
        match self {
            Reply::TopicCreated(TopicCreated { topic, partitions }) => {
                out.u8(1).u32(topic.get()).varint(u64::from(*partitions));
            }
            Reply::Produced(produced) => {
                out.u8(2);
                encode_produced(produced, out);
            }
            Reply::OffsetCommitted(offset) => encode_offset(out.u8(3), offset),
            Reply::TopicDeleted(topic) => _ = out.u8(4).u32(topic.get()),
            Reply::TopicAltered(TopicAltered { topic, partitions, settings }) => {
                out.u8(5).u32(topic.get()).varint(u64::from(*partitions));
                settings.encode(&KeptSettings::default(), out);
            }
            Reply::RecordsDeleted(RecordsDeleted { topic, partition, start }) => {
                out.u8(6).u32(topic.get()).varint(u64::from(*partition)).varint(start.get());
            }
            Reply::ProducerInitialized(producer) => _ = out.u8(7).varint(producer.get()),
            Reply::OffsetDeleted(offset) => encode_offset(out.u8(8), offset),
            Reply::GenerationBegun(group) => _ = out.u8(9).u32(group.get()),
            Reply::MemberReplaced(group) => _ = out.u8(10).u32(group.get()),
            Reply::GroupDeleted(group) => _ = out.u8(11).u32(group.get()),
            Reply::UnreadProtected(group) => _ = out.u8(12).u32(group.get()),
            Reply::MemberJoined(MemberJoined { group, topic, member }) => {
                out.u8(13).u32(group.get()).u32(topic.get()).varint(member.get());
            }
            Reply::MemberRenewed(group) => _ = out.u8(14).u32(group.get()),
            Reply::MemberLeft(group) => _ = out.u8(15).u32(group.get()),
        }
    }

    /// Reads a reply that [`Reply::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes are not such a reply.
    pub fn decode(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        Ok(match from.u8()? {
            1 => Reply::TopicCreated(TopicCreated { topic: topic(from)?, partitions: from.varint_u32()? }),
            2 => Reply::Produced(decode_produced(from)?),
            3 => Reply::OffsetCommitted(decode_offset(from)?),
            4 => Reply::TopicDeleted(topic(from)?),
            5 => {
                let (topic, partitions) = (topic(from)?, from.varint_u32()?);
                let (settings, _) = TopicSettings::decode(from)?;
                Reply::TopicAltered(TopicAltered { topic, partitions, settings })
            }
            6 => {
                let (topic, partition) = (topic(from)?, from.varint_u32()?);
                Reply::RecordsDeleted(RecordsDeleted { topic, partition, start: Sequence::new(from.varint()?) })
            }
            7 => Reply::ProducerInitialized(ProducerId::new(from.varint()?)),
            8 => Reply::OffsetDeleted(decode_offset(from)?),
            9 => Reply::GenerationBegun(group(from)?),
            10 => Reply::MemberReplaced(group(from)?),
            11 => Reply::GroupDeleted(group(from)?),
            12 => Reply::UnreadProtected(group(from)?),
            13 => {
                let (group, topic) = (group(from)?, topic(from)?);
                Reply::MemberJoined(MemberJoined { group, topic, member: MemberId::new(from.varint()?) })
            }
            14 => Reply::MemberRenewed(group(from)?),
            15 => Reply::MemberLeft(group(from)?),
            _ => return Err(CodecError { expected: "a reply of streams", bytes_left: 0 }),
        })
    }
}

fn encode_produced(produced: &ProduceResult, out: &mut Encoder) {
    let ProduceResult {
        topic,
        partition,
        base_offset,
        last_offset,
        time,
        place,
        is_duplicate,
        is_append_time,
        compression,
    } = produced;
    let flags = if *is_duplicate { DUPLICATE } else { 0 } | if *is_append_time { APPEND_TIME } else { 0 };
    out.u32(topic.get()).varint(u64::from(*partition)).varint(base_offset.get()).varint(last_offset.get());
    out.u64(time.as_micros()).varint(place.position.get()).varint(u64::from(place.index));
    out.u8(flags).u8(*compression as u8);
}

fn decode_produced(from: &mut Decoder<'_>) -> Result<ProduceResult, CodecError> {
    let (topic, partition) = (topic(from)?, from.varint_u32()?);
    let (base_offset, last_offset) = (Sequence::new(from.varint()?), Sequence::new(from.varint()?));
    let time = Timestamp::from_micros(from.u64()?);
    let place = Place::new(Position::new(from.varint()?), from.varint_u32()?);
    let (flags, codec) = (from.u8()?, from.u8()?);
    if flags & !(DUPLICATE | APPEND_TIME) != 0 {
        return Err(CodecError { expected: "flags of a produced batch", bytes_left: 0 });
    }
    let compression = Codec::of_number(codec).ok_or(CodecError { expected: "a codec", bytes_left: 0 })?;
    let (is_duplicate, is_append_time) = (flags & DUPLICATE != 0, flags & APPEND_TIME != 0);
    Ok(ProduceResult {
        topic,
        partition,
        base_offset,
        last_offset,
        time,
        place,
        is_duplicate,
        is_append_time,
        compression,
    })
}

fn encode_offset(out: &mut Encoder, offset: &OffsetCommitted) {
    out.u32(offset.group.get()).u32(offset.topic.get()).varint(u64::from(offset.partition));
}

fn decode_offset(from: &mut Decoder<'_>) -> Result<OffsetCommitted, CodecError> {
    Ok(OffsetCommitted { group: group(from)?, topic: topic(from)?, partition: from.varint_u32()? })
}

fn topic(from: &mut Decoder<'_>) -> Result<TopicId, CodecError> {
    from.u32().map(TopicId::new)
}

fn group(from: &mut Decoder<'_>) -> Result<GroupId, CodecError> {
    from.u32().map(GroupId::new)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::Cleanup;

    fn samples() -> Vec<Reply> {
        let (group, topic) = (GroupId::new(3), TopicId::new(700));
        let offset = OffsetCommitted { group, topic, partition: 300 };
        let produced = ProduceResult {
            topic,
            partition: 9,
            base_offset: Sequence::new(1 << 40),
            last_offset: Sequence::new((1 << 40) + 5),
            time: Timestamp::from_micros(1_790_000_000_000_000),
            place: Place::new(Position::new(77), 4),
            is_duplicate: true,
            is_append_time: false,
            compression: Codec::Zstd,
        };
        let settings = TopicSettings { cleanup: Cleanup::Compact, retention_ms: Some(5), ..TopicSettings::default() };
        alloc::vec![
            Reply::TopicCreated(TopicCreated { topic, partitions: 12 }),
            Reply::Produced(produced),
            Reply::Produced(ProduceResult { is_duplicate: false, is_append_time: true, ..produced }),
            Reply::OffsetCommitted(offset),
            Reply::TopicDeleted(topic),
            Reply::TopicAltered(TopicAltered { topic, partitions: 12, settings }),
            Reply::RecordsDeleted(RecordsDeleted { topic, partition: 1, start: Sequence::new(500) }),
            Reply::ProducerInitialized(ProducerId::new(5)),
            Reply::OffsetDeleted(offset),
            Reply::GenerationBegun(group),
            Reply::MemberReplaced(group),
            Reply::GroupDeleted(group),
            Reply::UnreadProtected(group),
            Reply::MemberJoined(MemberJoined { group, topic, member: MemberId::new(1_000) }),
            Reply::MemberRenewed(group),
            Reply::MemberLeft(group),
        ]
    }

    #[test]
    fn every_reply_is_read_as_it_was_written_and_no_part_of_it_is_one() {
        for reply in samples() {
            let mut out = Encoder::new();
            reply.encode(&mut out);
            let mut from = Decoder::new(out.as_slice());
            assert_eq!(Reply::decode(&mut from), Ok(reply));
            from.end().expect("nothing is left");
            for length in 0..out.as_slice().len() {
                let cut = Reply::decode(&mut Decoder::new(&out.as_slice()[..length]));
                assert!(cut.is_err(), "{reply:?} up to byte {length}");
            }
        }
    }
}
