//! The state of streams: the catalogue of topics and groups, and how far each group has read.
//!
//! Nothing about the content of a partition is here: a produced batch leaves no trace but its entry in the log.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{At, Denied, Effects, Entry, History, Model, ModelId, Sequence, Timestamp};

use crate::catalogue::Catalogue;
use crate::codec::{decode_leader_epoch, encode_leader_epoch};
use crate::{Command, GroupId, Refusal, Reply, TopicId, decide};

/// The streams of a shard.
#[derive(Debug, Default)]
pub struct Streams {
    /// By [`TopicId`].
    pub(crate) topics: Catalogue<Topic>,
    /// By [`GroupId`].
    pub(crate) groups: Catalogue<Group>,
}

#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) partitions: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Group {
    /// What it committed last for each partition.
    pub(crate) offsets: BTreeMap<(TopicId, u32), Committed>,
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

    /// A group's name and what is known of it.
    pub(crate) fn group_at(&self, group: GroupId) -> Option<(&str, &Group)> {
        self.groups.get(group.get())
    }
}

impl Model for Streams {
    const ID: ModelId = ModelId::STREAMS;
    type Command<'c> = Command<'c>;
    type Reply = Reply;
    type Refusal = Refusal;

    fn decide(
        &self,
        _history: &dyn History,
        _at: At,
        commands: &[Command<'_>],
        effects: &mut dyn Effects,
        replies: &mut Vec<Reply>,
    ) -> Result<(), Denied<Refusal>> {
        decide::decide(self, commands, effects, replies)
    }

    fn apply(&mut self, entry: &Entry<'_>) {
        self.take_in(entry);
    }

    /// Version 1, then the topics in the order of their ids, then the groups:
    ///
    /// ```text
    /// 1 │ topics: n, n × (name, partitions)
    ///   │ groups: n, n × (name, m, m × (topic, partition, offset, leader epoch u32, time in µs, metadata))
    /// ```
    fn save(&self, out: &mut Encoder) {
        out.u8(CHECKPOINT_VERSION);
        out.varint(u64::from(self.topics.next_id()));
        for (name, topic) in self.topics.iter() {
            out.str(name).varint(u64::from(topic.partitions));
        }
        out.varint(u64::from(self.groups.next_id()));
        for (name, group) in self.groups.iter() {
            out.str(name).varint(group.offsets.len() as u64);
            for ((topic, partition), committed) in &group.offsets {
                out.varint(u64::from(topic.get())).varint(u64::from(*partition));
                out.varint(committed.offset.get()).u32(encode_leader_epoch(committed.leader_epoch));
                out.varint(committed.time.as_micros()).str(&committed.metadata);
            }
        }
    }

    fn load(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        if from.u8()? != CHECKPOINT_VERSION {
            return Err(CodecError {
                expected: "version 1 of the streams' state",
                bytes_left: from.clone().rest().len(),
            });
        }
        let mut state = Streams::default();
        for _ in 0..from.varint()? {
            let name = fresh(from, &state.topics)?;
            state.topics.add(name, Topic { partitions: from.varint_u32()? });
        }
        for _ in 0..from.varint()? {
            let name = fresh(from, &state.groups)?;
            let mut group = Group::default();
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
            state.groups.add(name, group);
        }
        Ok(state)
    }
}

const CHECKPOINT_VERSION: u8 = 1;

/// A name that the catalogue does not have yet: bytes that give one twice are not a state.
fn fresh<'a, T>(from: &mut Decoder<'a>, catalogue: &Catalogue<T>) -> Result<&'a str, CodecError> {
    let name = from.str()?;
    if catalogue.id(name).is_some() {
        return Err(CodecError { expected: "each name once", bytes_left: from.clone().rest().len() });
    }
    Ok(name)
}
