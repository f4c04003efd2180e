//! The state as bytes.

use alloc::boxed::Box;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{Sequence, Timestamp};

use crate::catalogue::Catalogue;
use crate::codec::{decode_leader_epoch, encode_leader_epoch};
use crate::offsets::StoredOffset;
use crate::producers::Producers;
use crate::removed::RemovedMaps;
use crate::roster::Roster;
use crate::samples::Samples;
use crate::state::{Group, PartitionState, Topic};
use crate::{Generation, GroupId, MemberId, Streams, TopicId, TopicSettings};

const CHECKPOINT_VERSION: u8 = 4;

impl Streams {
    /// Version 4, then the topics in the order of their ids, then the groups, then the producers:
    ///
    /// ```text
    /// 4 │ next id, topics: n, n × (id, name, partitions, settings, whether it has holes u8, m, m × (partition, start, samples))
    ///   │ next id, groups: n, n × (id, name, generation, protocol type, protocol, i, i × (instance, member),
    ///   │                          m, m × (topic, partition, offset, leader epoch u32, time in µs, metadata),
    ///   │                          t, t × topic, r, r × (topic, roster))
    ///   │ producers │ next member
    /// roster: version, m, m × (member, name, lease in ms, until in µs), p, p × (member, epoch)
    /// ```
    pub(crate) fn save_to(&self, out: &mut Encoder) {
        out.u8(CHECKPOINT_VERSION);
        out.varint(self.topics.next_id().into()).varint(self.topics.len() as u64);
        for (id, name, topic) in self.topics.iter() {
            out.varint(id.into()).str(name);
            topic.save(out);
        }
        out.varint(self.groups.next_id().into()).varint(self.groups.len() as u64);
        for (id, name, group) in self.groups.iter() {
            out.varint(id.into()).str(name);
            group.save(out);
        }
        self.producers.save(out);
        out.varint(self.next_member.get());
    }

    pub(crate) fn load_from(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        if from.u8()? != CHECKPOINT_VERSION {
            return Err(CodecError {
                expected: "version 4 of the streams' state",
                bytes_left: from.clone().rest().len(),
            });
        }
        let topics = catalogue(from, Topic::load)?;
        let groups = catalogue(from, Group::load)?;
        Ok(Streams {
            partitions: topics.iter().map(|(.., topic)| u64::from(topic.partitions)).sum(),
            removed: RemovedMaps::default(),
            offset_bytes: groups.iter().map(|(.., group)| group.offsets.bytes()).sum(),
            compacting: topics.iter().filter(|(.., topic)| topic.settings.cleanup.compacts()).count(),
            compressing: topics.iter().filter(|(.., topic)| topic.settings.compresses()).count(),
            readers: groups
                .iter()
                .flat_map(|(id, _, group)| group.topics().map(move |topic| (topic, GroupId::new(id))))
                .collect(),
            topics,
            groups,
            producers: Producers::load(from)?,
            next_member: MemberId::new(from.varint()?),
        })
    }
}

/// A catalogue as it was saved. Bytes that give an id or a name twice are not one.
fn catalogue<T>(
    from: &mut Decoder<'_>,
    load: fn(&mut Decoder<'_>) -> Result<T, CodecError>,
) -> Result<Catalogue<T>, CodecError> {
    let mut catalogue = Catalogue::default();
    let next_id = from.varint_u32()?;
    for _ in 0..from.varint()? {
        let (id, name) = (from.varint_u32()?, from.str()?);
        if id < catalogue.next_id() || id >= next_id || catalogue.id(name).is_some() {
            return Err(CodecError { expected: "each id and name once", bytes_left: from.clone().rest().len() });
        }
        catalogue.add(id, name, load(from)?);
    }
    catalogue.skip_to(next_id);
    Ok(catalogue)
}

impl Topic {
    fn save(&self, out: &mut Encoder) {
        out.varint(self.partitions.into());
        self.settings.encode(&self.kept, out);
        out.u8(self.has_holes.into()).varint(self.written.len() as u64);
        for (partition, written) in &self.written {
            out.varint((*partition).into()).varint(written.start.get());
            written.samples.save(out);
        }
    }

    fn load(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let partitions = from.varint_u32()?;
        let (settings, kept) = TopicSettings::decode(from)?;
        let mut topic = Topic::new(partitions, settings, kept);
        topic.has_holes |= from.u8()? != 0;
        for _ in 0..from.varint()? {
            let partition = from.varint_u32()?;
            let written = PartitionState { start: Sequence::new(from.varint()?), samples: Samples::load(from)? };
            topic.written.insert(partition, written);
        }
        Ok(topic)
    }
}

impl Group {
    fn save(&self, out: &mut Encoder) {
        out.varint(self.generation.get().into()).str(&self.protocol_type).str(&self.protocol);
        out.varint(self.members.len() as u64);
        for (instance, member) in &self.members {
            out.str(instance).str(member);
        }
        out.varint(self.offsets.len() as u64);
        for ((topic, partition), committed) in self.offsets.iter() {
            out.varint(topic.get().into()).varint(partition.into());
            out.varint(committed.offset.get()).u32(encode_leader_epoch(committed.leader_epoch));
            out.varint(committed.time.as_micros()).str(&committed.metadata);
        }
        out.varint(self.protected.len() as u64);
        for topic in &self.protected {
            out.varint(topic.get().into());
        }
        out.varint(self.rosters.len() as u64);
        for (topic, roster) in &self.rosters {
            out.varint(topic.get().into());
            roster.save(out);
        }
    }

    fn load(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let mut group = Group {
            generation: Generation::new(from.varint_u32()?),
            protocol_type: Box::from(from.str()?),
            protocol: Box::from(from.str()?),
            ..Group::default()
        };
        for _ in 0..from.varint()? {
            group.members.insert(Box::from(from.str()?), Box::from(from.str()?));
        }
        for _ in 0..from.varint()? {
            let (topic, partition) = (TopicId::new(from.varint_u32()?), from.varint_u32()?);
            let committed = StoredOffset {
                offset: Sequence::new(from.varint()?),
                leader_epoch: decode_leader_epoch(from.u32()?),
                time: Timestamp::from_micros(from.varint()?),
                metadata: Box::from(from.str()?),
            };
            group.offsets.insert(topic, partition, committed);
        }
        for _ in 0..from.varint()? {
            group.protected.insert(TopicId::new(from.varint_u32()?));
        }
        for _ in 0..from.varint()? {
            let topic = TopicId::new(from.varint_u32()?);
            group.rosters.insert(topic, Roster::load(from)?);
        }
        Ok(group)
    }
}
