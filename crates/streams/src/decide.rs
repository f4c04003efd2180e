//! Decides the streams' commands of one commit.
//!
//! 1. Each command is checked against the state and what earlier commands of the commit create ([`Draft`]).
//! 2. What it needs and is not there yet is created by an entry of its own, before it.
//! 3. Its effect is pushed; the offsets of a batch are what the log answers.
//!
//! The log is not read: a batch's offsets follow from its partition's tag, which the log counts. A commit that creates
//! nothing allocates nothing here.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use quire_model::{Denied, Effects, NewEntry, Sequence, Sequenced, Tag};

use crate::catalogue::Catalogue;
use crate::codec::{BATCH_PRODUCED, GROUP_CREATED, GroupBody, OFFSET_COMMITTED, OffsetBody, TOPIC_CREATED, TopicBody};
use crate::name::{check_group, check_topic};
use crate::tag::{group_tag, partition_tag, topic_tag};
use crate::wire::Batch;
use crate::{
    Command, GroupId, OFFSET_METADATA_BYTES_MAX, OffsetCommitted, PARTITIONS_MAX, Produced, Refusal, Reply, Streams,
    TopicCreated, TopicId, TopicRef, partition_for_key,
};

pub(crate) fn decide(
    state: &Streams,
    commands: &[Command<'_>],
    effects: &mut dyn Effects,
    replies: &mut Vec<Reply>,
) -> Result<(), Denied<Refusal>> {
    let mut draft = Draft { state, topics: Created::default(), groups: Created::default(), effects };
    for (index, command) in commands.iter().enumerate() {
        let reply = draft.command(*command).map_err(|refusal| Denied::Refused { command: index, refusal })?;
        replies.push(reply);
    }
    Ok(())
}

/// The state as it is behind the commands decided so far.
struct Draft<'d, 'c> {
    state: &'d Streams,
    /// With how many partitions each has.
    topics: Created<'c, u32>,
    groups: Created<'c, ()>,
    effects: &'d mut dyn Effects,
}

impl<'c> Draft<'_, 'c> {
    fn command(&mut self, command: Command<'c>) -> Result<Reply, Refusal> {
        match command {
            Command::Produce { topic, partition, batch, create_partitions } => {
                let (topic, partitions) = self.topic_or_create(topic, create_partitions)?;
                check_partition(topic, partition, partitions)?;
                self.produce(topic, partition, batch).map(Reply::Produced)
            }
            Command::ProduceByKey { topic, key, batch, create_partitions } => {
                let (topic, partitions) = self.topic_or_create(topic, create_partitions)?;
                self.produce(topic, partition_for_key(key, partitions), batch).map(Reply::Produced)
            }
            Command::CommitOffset { group, topic, partition, offset, leader_epoch, metadata } => {
                let (topic, partitions) = self.topic_or_create(topic, None)?;
                check_partition(topic, partition, partitions)?;
                if metadata.len() > OFFSET_METADATA_BYTES_MAX {
                    return Err(Refusal::MetadataTooLong { bytes: metadata.len() });
                }
                let group = self.group_or_create(group)?;
                self.commit_offset(&OffsetBody { group, topic, partition, offset, leader_epoch, metadata });
                Ok(Reply::OffsetCommitted(OffsetCommitted { group, topic, partition }))
            }
            Command::CreateTopic { name, partitions } => {
                if let Some((topic, partitions)) = self.topic(TopicRef::Name(name)) {
                    return Err(Refusal::TopicExists { topic, partitions });
                }
                let topic = self.create_topic(name, partitions)?;
                Ok(Reply::TopicCreated(TopicCreated { topic, partitions }))
            }
        }
    }

    /// The topic's id and how many partitions it has.
    fn topic(&self, topic: TopicRef<'c>) -> Option<(TopicId, u32)> {
        let id = match topic {
            TopicRef::Id(id) => id.get(),
            TopicRef::Name(name) => self.topics.id(name, &self.state.topics)?,
        };
        let known = self.state.topic_at(TopicId::new(id)).map(|(_, topic)| topic.partitions);
        let partitions = known.or_else(|| self.topics.get(id, &self.state.topics).copied())?;
        Some((TopicId::new(id), partitions))
    }

    fn topic_or_create(
        &mut self,
        topic: TopicRef<'c>,
        create_partitions: Option<u32>,
    ) -> Result<(TopicId, u32), Refusal> {
        if let Some(found) = self.topic(topic) {
            return Ok(found);
        }
        match (topic, create_partitions) {
            (TopicRef::Name(name), Some(partitions)) => Ok((self.create_topic(name, partitions)?, partitions)),
            // A name that no topic can have is told apart from one that no topic has.
            (TopicRef::Name(name), None) => match check_topic(name) {
                Ok(()) => Err(Refusal::UnknownTopic { name: String::from(name) }),
                Err(problem) => Err(Refusal::InvalidTopicName(problem)),
            },
            (TopicRef::Id(topic), _) => Err(Refusal::UnknownTopicId { topic }),
        }
    }

    fn create_topic(&mut self, name: &'c str, partitions: u32) -> Result<TopicId, Refusal> {
        check_topic(name).map_err(Refusal::InvalidTopicName)?;
        if !(1..=PARTITIONS_MAX).contains(&partitions) {
            return Err(Refusal::InvalidPartitionCount { partitions });
        }
        let topic = TopicId::new(self.topics.add(name, partitions, &self.state.topics));
        self.effects.push(NewEntry {
            kind: TOPIC_CREATED,
            tags: &[Tag::new(&topic_tag(topic))],
            sequenced: None,
            body: &[&TopicBody { topic, partitions, name }.fixed(), name.as_bytes()],
        });
        Ok(topic)
    }

    fn group_or_create(&mut self, name: &'c str) -> Result<GroupId, Refusal> {
        if let Some(id) = self.groups.id(name, &self.state.groups) {
            return Ok(GroupId::new(id));
        }
        check_group(name).map_err(Refusal::InvalidGroupName)?;
        let group = GroupId::new(self.groups.add(name, (), &self.state.groups));
        self.effects.push(NewEntry {
            kind: GROUP_CREATED,
            tags: &[Tag::new(&group_tag(group))],
            sequenced: None,
            body: &[&GroupBody { group, name }.fixed(), name.as_bytes()],
        });
        Ok(group)
    }

    fn produce(&mut self, topic: TopicId, partition: u32, batch: Batch<'_>) -> Result<Produced, Refusal> {
        if batch.is_control() {
            return Err(Refusal::ControlBatch);
        }
        if batch.is_transactional() {
            return Err(Refusal::TransactionalBatch);
        }
        let last_offset_delta = batch.last_offset_delta();
        let placed = self.effects.push(NewEntry {
            kind: BATCH_PRODUCED,
            tags: &[partition_tag(topic, partition).tag()],
            sequenced: Some(Sequenced { origin: Sequence::new(0), count: last_offset_delta + 1 }),
            body: &[batch.bytes()],
        });
        let base_offset = placed.sequence.expect("the log numbers an entry that asks for it");
        Ok(Produced {
            topic,
            partition,
            base_offset,
            last_offset: Sequence::new(base_offset.get() + u64::from(last_offset_delta)),
            time: self.effects.at().time,
            place: placed.place,
        })
    }

    fn commit_offset(&mut self, body: &OffsetBody<'_>) {
        self.effects.push(NewEntry {
            kind: OFFSET_COMMITTED,
            tags: &[Tag::new(&group_tag(body.group))],
            sequenced: None,
            body: &[&body.fixed(), body.metadata.as_bytes()],
        });
    }
}

fn check_partition(topic: TopicId, partition: u32, partitions: u32) -> Result<(), Refusal> {
    if partition < partitions { Ok(()) } else { Err(Refusal::UnknownPartition { topic, partition, partitions }) }
}

/// What the commit adds to a catalogue: ids go on where the catalogue's end.
struct Created<'c, T> {
    ids: BTreeMap<&'c str, u32>,
    things: Vec<T>,
}

impl<T> Default for Created<'_, T> {
    fn default() -> Self {
        Created { ids: BTreeMap::new(), things: Vec::new() }
    }
}

impl<'c, T> Created<'c, T> {
    fn id<K>(&self, name: &str, catalogue: &Catalogue<K>) -> Option<u32> {
        catalogue.id(name).or_else(|| self.ids.get(name).copied())
    }

    fn get<K>(&self, id: u32, catalogue: &Catalogue<K>) -> Option<&T> {
        self.things.get(id.checked_sub(catalogue.next_id())? as usize)
    }

    fn add<K>(&mut self, name: &'c str, thing: T, catalogue: &Catalogue<K>) -> u32 {
        let id = catalogue.next_id() + self.things.len() as u32;
        self.ids.insert(name, id);
        self.things.push(thing);
        id
    }
}
