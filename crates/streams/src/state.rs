//! The state of streams: the catalogue of topics and groups, how far each group has read, and what idempotent producers
//! sent last.
//!
//! Of a partition's records only a bounded sketch is here ([`Samples`]), and the offset before which they are deleted.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{At, Denied, Effects, Entry, History, Model, ModelId, Sequence, Timestamp};

use crate::catalogue::Catalogue;
use crate::codec::{decode_leader_epoch, encode_leader_epoch};
use crate::producers::Producers;
use crate::roster::Roster;
use crate::samples::Samples;
use crate::{Command, Generation, MemberId, Refusal, Reply, TopicId, TopicSettings, decide};

/// The streams of a shard.
#[derive(Debug, Default)]
pub struct Streams {
    /// By [`TopicId`].
    pub(crate) topics: Catalogue<Topic>,
    /// By [`GroupId`].
    pub(crate) groups: Catalogue<Group>,
    pub(crate) producers: Producers,
    /// How many topics have embedded producers compress.
    pub(crate) compressing: usize,
    /// How many topics compact.
    pub(crate) compacting: usize,
    /// The id that the next member by lease gets.
    pub(crate) next_member: MemberId,
}

#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) partitions: u32,
    pub(crate) settings: TopicSettings,
    /// Whether the topic compacts, or did: there may be offsets without a record.
    pub(crate) has_holes: bool,
    /// The partitions that anything was written to, or deleted from.
    pub(crate) written: BTreeMap<u32, Written>,
}

/// What is known of a partition beside its records.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Records before this offset are deleted, whether or not their bytes are there still.
    pub(crate) start: Sequence,
    pub(crate) samples: Samples,
}

impl Topic {
    pub(crate) fn new(partitions: u32, settings: TopicSettings) -> Self {
        let has_holes = settings.cleanup.compacts();
        Topic { partitions, settings, has_holes, written: BTreeMap::new() }
    }

    /// Changes what is chosen about it; gives back what was.
    pub(crate) fn change(&mut self, settings: TopicSettings) -> TopicSettings {
        self.has_holes |= settings.cleanup.compacts();
        core::mem::replace(&mut self.settings, settings)
    }

    /// Where this partition begins at the earliest.
    pub(crate) fn start(&self, partition: u32) -> Sequence {
        self.written.get(&partition).map_or(Sequence::new(0), |written| written.start)
    }
}

impl Written {
    pub(crate) fn begin_at(&mut self, start: Sequence) {
        self.start = self.start.max(start);
        self.samples.drop_before(self.start);
    }
}

#[derive(Debug, Default)]
pub(crate) struct Group {
    /// What it committed last for each partition.
    pub(crate) offsets: BTreeMap<(TopicId, u32), Committed>,
    pub(crate) generation: Generation,
    pub(crate) protocol_type: Box<str>,
    pub(crate) protocol: Box<str>,
    /// The ids of the static members, by their instances' names.
    pub(crate) members: BTreeMap<Box<str>, Box<str>>,
    /// The topics that keep what it has not read.
    pub(crate) protected: BTreeSet<TopicId>,
    /// Who shares each topic's partitions by leases.
    pub(crate) rosters: BTreeMap<TopicId, Roster>,
}

#[derive(Debug)]
pub(crate) struct Committed {
    pub(crate) offset: Sequence,
    pub(crate) leader_epoch: Option<u32>,
    pub(crate) time: Timestamp,
    pub(crate) metadata: Box<str>,
}

impl Streams {
    /// A topic's name and what is known of it.
    pub(crate) fn topic_at(&self, topic: TopicId) -> Option<(&str, &Topic)> {
        self.topics.get(topic.get())
    }
}

impl Model for Streams {
    const ID: ModelId = ModelId::STREAMS;
    type Command<'c> = Command<'c>;
    type Reply = Reply;
    type Refusal = Refusal;

    fn decide(
        &self,
        history: &dyn History,
        _at: At,
        commands: &[Command<'_>],
        effects: &mut dyn Effects,
        replies: &mut Vec<Reply>,
    ) -> Result<(), Denied<Refusal>> {
        decide::decide(self, history, commands, effects, replies)
    }

    fn apply(&mut self, entry: &Entry<'_>) {
        self.take_in(entry);
    }

    fn survives(&self, entry: &Entry<'_>, history_from: Timestamp) -> bool {
        self.still_counts(entry, history_from)
    }

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
    fn save(&self, out: &mut Encoder) {
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

    fn load(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        if from.u8()? != CHECKPOINT_VERSION {
            return Err(CodecError {
                expected: "version 4 of the streams' state",
                bytes_left: from.clone().rest().len(),
            });
        }
        let topics = catalogue(from, Topic::load)?;
        Ok(Streams {
            compacting: topics.iter().filter(|(.., topic)| topic.settings.cleanup.compacts()).count(),
            compressing: topics.iter().filter(|(.., topic)| topic.settings.compresses()).count(),
            topics,
            groups: catalogue(from, Group::load)?,
            producers: Producers::load(from)?,
            next_member: MemberId::new(from.varint()?),
        })
    }
}

const CHECKPOINT_VERSION: u8 = 4;

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
        self.settings.encode(out);
        out.u8(self.has_holes.into()).varint(self.written.len() as u64);
        for (partition, written) in &self.written {
            out.varint((*partition).into()).varint(written.start.get());
            written.samples.save(out);
        }
    }

    fn load(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let mut topic = Topic::new(from.varint_u32()?, TopicSettings::decode(from)?);
        topic.has_holes |= from.u8()? != 0;
        for _ in 0..from.varint()? {
            let partition = from.varint_u32()?;
            let written = Written { start: Sequence::new(from.varint()?), samples: Samples::load(from)? };
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
        for ((topic, partition), committed) in &self.offsets {
            out.varint(topic.get().into()).varint((*partition).into());
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
            let partition = (TopicId::new(from.varint_u32()?), from.varint_u32()?);
            let committed = Committed {
                offset: Sequence::new(from.varint()?),
                leader_epoch: decode_leader_epoch(from.u32()?),
                time: Timestamp::from_micros(from.varint()?),
                metadata: Box::from(from.str()?),
            };
            group.offsets.insert(partition, committed);
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
