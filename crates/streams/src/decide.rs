//! Decides the streams' commands of one commit.
//!
//! 1. Each command is checked against the state and what earlier commands of the commit do ([`Draft`]).
//! 2. What it needs and is not there yet is created by an entry of its own, before it.
//! 3. Its effect is pushed; the offsets of a batch are what the log answers.
//!
//! The log is read only where a command says where a partition is to begin: a batch's offsets follow from its partition's
//! tag, which the log counts. A commit that creates nothing, of a producer that is not idempotent, allocates nothing here.

mod members;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use quire_model::{Covered, Denied, Effects, History, NewEntry, ReadError, Sequence, Sequenced, Tag};

use crate::added::{Added, TopicShape};
use crate::codec::{
    BATCH_PRODUCED, GENERATION_BEGUN, GROUP_CREATED, GROUP_DELETED, GenerationBody, GroupBody, MEMBER_REPLACED,
    OFFSET_COMMITTED, OFFSET_DELETED, OffsetBody, PRODUCER_GIVEN, ProducerBody, RECORDS_DELETED, StartBody,
    TOPIC_ALTERED, TOPIC_CREATED, TOPIC_DELETED, TopicBody, encode_member_replaced, encode_offset_deleted,
};
use crate::name::{check_group, check_topic};
use crate::partition::Partition;
use crate::producers::{Sent, Stamp, Verdict};
use crate::tag::{PRODUCERS_TAG, group_tag, partition_tag, topic_tag};
use crate::wire::Batch;
use crate::{
    Command, Committer, Despite, Generation, GroupId, MEMBER_NAME_BYTES_MAX, OFFSET_METADATA_BYTES_MAX,
    OffsetCommitted, PARTITIONS_MAX, Produced, ProducerId, RecordsDeleted, Refusal, Reply, STATIC_MEMBERS_MAX,
    StaticMember, Streams, TopicAltered, TopicCreated, TopicId, TopicRef, TopicSettings, partition_for_key,
};

pub(crate) fn decide(
    state: &Streams,
    history: &dyn History,
    commands: &[Command<'_>],
    effects: &mut dyn Effects,
    replies: &mut Vec<Reply>,
) -> Result<(), Denied<Refusal>> {
    let mut draft = Draft {
        state,
        history,
        added: None,
        asks_for_ends: commands.iter().any(|command| matches!(command, Command::DeleteRecords { .. })),
        effects,
    };
    for (index, command) in commands.iter().enumerate() {
        match draft.command(command) {
            Ok(reply) => replies.push(reply),
            Err(Stop::Refused(refusal)) => return Err(Denied::Refused { command: index, refusal }),
            Err(Stop::Unreadable(error)) => return Err(Denied::Unreadable(error)),
        }
    }
    Ok(())
}

/// Why a command is not decided.
enum Stop {
    Refused(Refusal),
    Unreadable(ReadError),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Stop::Refused(refusal)
    }
}

impl From<ReadError> for Stop {
    fn from(error: ReadError) -> Self {
        Stop::Unreadable(error)
    }
}

/// The state as it is behind the commands decided so far.
struct Draft<'d, 'c> {
    state: &'d Streams,
    history: &'d dyn History,
    /// Made when there is something to note: most commits only produce.
    added: Option<Box<Added<'c>>>,
    /// Whether a command may ask for the end of a partition that the commit itself produces to.
    asks_for_ends: bool,
    effects: &'d mut dyn Effects,
}

impl<'c> Draft<'_, 'c> {
    /// What the commands decided so far add.
    fn added(&self) -> &Added<'c> {
        self.added.as_deref().unwrap_or(Added::NOTHING)
    }

    /// The same, to add to.
    fn add(&mut self) -> &mut Added<'c> {
        self.added.get_or_insert_default()
    }

    fn command(&mut self, command: &Command<'c>) -> Result<Reply, Stop> {
        match *command {
            Command::Produce { topic, partition, batch, create_partitions } => {
                let (id, shape) = self.topic_or_create(topic, create_partitions)?;
                check_partition(id, partition, shape.partitions)?;
                Ok(Reply::Produced(self.produce(id, shape, partition, batch)?))
            }
            Command::ProduceByKey { topic, key, batch, create_partitions } => {
                let (id, shape) = self.topic_or_create(topic, create_partitions)?;
                Ok(Reply::Produced(self.produce(id, shape, partition_for_key(key, shape.partitions), batch)?))
            }
            Command::CommitOffset { group, topic, partition, offset, leader_epoch, metadata, by } => {
                let topic = self.committed_in(topic, partition)?;
                if metadata.len() > OFFSET_METADATA_BYTES_MAX {
                    return Err(Refusal::MetadataTooLong { bytes: metadata.len() }.into());
                }
                match by {
                    Committer::Anyone => {}
                    Committer::Of(generation) => self.check_generation(group, generation)?,
                    Committer::Member { member, epoch } => self.check_owner(group, topic, partition, member, epoch)?,
                }
                let group = self.group_or_create(group)?;
                self.commit_offset(&OffsetBody { group, topic, partition, offset, leader_epoch, metadata });
                Ok(Reply::OffsetCommitted(OffsetCommitted { group, topic, partition }))
            }
            Command::CreateTopic { name, partitions, settings } => {
                if let Some((topic, shape)) = self.topic(TopicRef::Name(name)) {
                    return Err(Refusal::TopicExists { topic, partitions: shape.partitions }.into());
                }
                let topic = self.create_topic(name, TopicShape { partitions, settings })?;
                Ok(Reply::TopicCreated(TopicCreated { topic, partitions }))
            }
            Command::DeleteTopic { topic } => {
                let (topic, _) = self.topic_or_create(topic, None)?;
                self.add().topics.gone.insert(topic.get());
                self.push_alone(TOPIC_DELETED, &topic_tag(topic), &topic.get().to_le_bytes());
                Ok(Reply::TopicDeleted(topic))
            }
            Command::AlterTopic { topic, changes } => {
                let (topic, shape) = self.topic_or_create(topic, None)?;
                self.alter(topic, TopicShape { settings: shape.settings.changed(changes), ..shape })
            }
            Command::AddPartitions { topic, partitions } => {
                let (topic, shape) = self.topic_or_create(topic, None)?;
                if partitions <= shape.partitions {
                    return Err(Refusal::TooFewPartitions { partitions, current: shape.partitions }.into());
                }
                self.alter(topic, TopicShape { partitions, ..shape })
            }
            Command::DeleteRecords { topic, partition, before, keep_unread } => {
                self.delete_records(topic, partition, before, keep_unread)
            }
            Command::InitProducer => Ok(self.init_producer()),
            Command::DeleteOffset { group, topic, partition } => {
                let group = self.group(group)?;
                let topic = self.committed_in(topic, partition)?;
                let body = encode_offset_deleted(group, topic, partition);
                self.push_alone(OFFSET_DELETED, &group_tag(group), body.as_slice());
                self.note_offset(group, topic, partition, None);
                Ok(Reply::OffsetDeleted(OffsetCommitted { group, topic, partition }))
            }
            Command::BeginGeneration { group, generation, protocol_type, protocol, members } => {
                self.begin_generation(group, generation, protocol_type, protocol, members)
            }
            Command::ReplaceMember { group, generation, member } => {
                check_members(&[member])?;
                self.check_generation(group, generation)?;
                let group = self.group(group)?;
                let body = encode_member_replaced(group, member);
                self.push_alone(MEMBER_REPLACED, &group_tag(group), body.as_slice());
                Ok(Reply::MemberReplaced(group))
            }
            Command::ProtectUnread { group, topic, protects } => self.protect_unread(group, topic, protects),
            Command::JoinGroup { group, topic, name, lease_ms } => self.join_group(group, topic, name, lease_ms),
            Command::RenewMember { group, topic, member } => self.renew_member(group, topic, member),
            Command::LeaveGroup { group, topic, member } => self.leave_group(group, topic, member),
            Command::DeleteGroup { group: name, despite } => {
                let group = self.group(name)?;
                if despite != Despite::Everyone {
                    self.check_no_leases(group)?;
                }
                if despite == Despite::Nobody && self.has_generation(group) {
                    let generation = Some(self.generation(name));
                    return Err(Refusal::GroupHasMembers { leases: 0, generation }.into());
                }
                self.add().groups.gone.insert(group.get());
                self.push_alone(GROUP_DELETED, &group_tag(group), &group.get().to_le_bytes());
                Ok(Reply::GroupDeleted(group))
            }
        }
    }

    /// The topic's id and what it is like.
    fn topic(&self, topic: TopicRef<'c>) -> Option<(TopicId, TopicShape)> {
        let id = match topic {
            TopicRef::Id(id) => id.get(),
            TopicRef::Name(name) => self.added().topics.id(name, &self.state.topics)?,
            TopicRef::Outside(_) => return None,
        };
        if self.added().topics.gone.contains(&id) {
            return None;
        }
        let known = |topic: &crate::state::Topic| TopicShape { partitions: topic.partitions, settings: topic.settings };
        let shape = match self.added().altered.get(&TopicId::new(id)) {
            Some(altered) => *altered,
            None => match self.state.topics.get(id) {
                Some((_, topic)) => known(topic),
                None => *self.added().topics.get(id, &self.state.topics)?,
            },
        };
        Some((TopicId::new(id), shape))
    }

    fn topic_or_create(
        &mut self,
        topic: TopicRef<'c>,
        create_partitions: Option<u32>,
    ) -> Result<(TopicId, TopicShape), Refusal> {
        if let Some(found) = self.topic(topic) {
            return Ok(found);
        }
        match (topic, create_partitions) {
            (TopicRef::Name(name), Some(partitions)) => {
                let shape = TopicShape { partitions, settings: TopicSettings::default() };
                Ok((self.create_topic(name, shape)?, shape))
            }
            // A name that no topic can have is told apart from one that no topic has.
            (TopicRef::Name(name), None) => match check_topic(name) {
                Ok(()) => Err(Refusal::UnknownTopic { name: String::from(name) }),
                Err(problem) => Err(Refusal::InvalidTopicName(problem)),
            },
            (TopicRef::Id(topic), _) => Err(Refusal::UnknownTopicId { topic }),
            (TopicRef::Outside(number), _) => Err(Refusal::UnknownTopicId { topic: TopicId::outside(number) }),
        }
    }

    /// What a group commits offsets in.
    fn committed_in(&mut self, topic: TopicRef<'c>, partition: u32) -> Result<TopicId, Refusal> {
        let (topic, partitions) = match topic {
            TopicRef::Outside(number) => (TopicId::outside(number), 1),
            topic => self.topic_or_create(topic, None).map(|(topic, shape)| (topic, shape.partitions))?,
        };
        check_partition(topic, partition, partitions)?;
        Ok(topic)
    }

    fn create_topic(&mut self, name: &'c str, shape: TopicShape) -> Result<TopicId, Refusal> {
        check_topic(name).map_err(Refusal::InvalidTopicName)?;
        check_shape(&shape)?;
        let state = self.state;
        let topic = TopicId::new(self.add().topics.add(name, shape, &state.topics));
        let body = TopicBody { topic, partitions: shape.partitions, settings: shape.settings, name }.encode();
        self.push_alone(TOPIC_CREATED, &topic_tag(topic), body.as_slice());
        Ok(topic)
    }

    fn alter(&mut self, topic: TopicId, shape: TopicShape) -> Result<Reply, Stop> {
        check_shape(&shape)?;
        let TopicShape { partitions, settings } = shape;
        self.add().altered.insert(topic, shape);
        self.share_out_anew(topic, partitions);
        let body = TopicBody { topic, partitions, settings, name: "" }.encode();
        self.push_alone(TOPIC_ALTERED, &topic_tag(topic), body.as_slice());
        Ok(Reply::TopicAltered(TopicAltered { topic, partitions, settings }))
    }

    fn delete_records(
        &mut self,
        topic: TopicRef<'c>,
        partition: u32,
        before: Option<Sequence>,
        keep_unread: bool,
    ) -> Result<Reply, Stop> {
        let (topic, shape) = self.topic_or_create(topic, None)?;
        check_partition(topic, partition, shape.partitions)?;
        let stored = self.state.topics.get(topic.get()).map(|(_, topic)| topic);
        let has_holes = stored.is_some_and(|topic| topic.has_holes);
        let before_commit = || stored.map(|topic| topic.start(partition));
        let known = self.added().starts.get(&(topic, partition)).copied().or_else(before_commit).unwrap_or_default();
        let offsets = Partition::new(topic, partition, known, has_holes).offsets(self.history)?;
        let next = self.added().ends.get(&(topic, partition)).copied().unwrap_or(offsets.next);
        let before = before.unwrap_or(next);
        if before > next {
            return Err(Refusal::BeyondEnd { before, next }.into());
        }
        let unread = if keep_unread { self.unread_from(topic, partition) } else { None };
        let start = unread.map_or(before, |unread| unread.min(before)).max(offsets.start);
        if start > known {
            let body = StartBody { topic, partition, start }.encode();
            self.push_alone(RECORDS_DELETED, &topic_tag(topic), body.as_slice());
            self.add().starts.insert((topic, partition), start);
        }
        Ok(Reply::RecordsDeleted(RecordsDeleted { topic, partition, start }))
    }

    fn init_producer(&mut self) -> Reply {
        let producer = ProducerId::new(self.state.producers.next_id().get() + self.added().producers_given);
        self.add().producers_given += 1;
        let topics_before = TopicId::new(self.added().topics.next_id(&self.state.topics));
        let body = ProducerBody { producer, topics_before }.encode();
        self.push_alone(PRODUCER_GIVEN, &PRODUCERS_TAG, body.as_slice());
        Reply::ProducerInitialized(producer)
    }

    /// A group that is there.
    fn group(&self, name: &str) -> Result<GroupId, Refusal> {
        let id = self.added().groups.id(name, &self.state.groups);
        id.map(GroupId::new).ok_or_else(|| Refusal::UnknownGroup { name: String::from(name) })
    }

    fn group_or_create(&mut self, name: &'c str) -> Result<GroupId, Refusal> {
        if let Some(id) = self.added().groups.id(name, &self.state.groups) {
            return Ok(GroupId::new(id));
        }
        check_group(name).map_err(Refusal::InvalidGroupName)?;
        let state = self.state;
        let group = GroupId::new(self.add().groups.add(name, (), &state.groups));
        self.effects.push(NewEntry {
            kind: GROUP_CREATED,
            tags: &[Tag::new(&group_tag(group))],
            sequenced: None,
            body: &[&GroupBody { group, name }.fixed(), name.as_bytes()],
        });
        Ok(group)
    }

    /// The group's current generation; 0 before the first.
    fn generation(&self, name: &str) -> Generation {
        let Some(id) = self.added().groups.id(name, &self.state.groups) else { return Generation::default() };
        let known = || self.state.groups.get(id).map(|(_, group)| group.generation);
        self.added().generations.get(&GroupId::new(id)).copied().or_else(known).unwrap_or_default()
    }

    fn check_generation(&self, group: &str, generation: Generation) -> Result<(), Refusal> {
        let current = self.generation(group);
        if generation == current { Ok(()) } else { Err(Refusal::StaleGeneration { generation, current }) }
    }

    fn begin_generation(
        &mut self,
        name: &'c str,
        generation: Generation,
        protocol_type: &'c str,
        protocol: &'c str,
        members: &'c [StaticMember<'c>],
    ) -> Result<Reply, Stop> {
        check_members(members)?;
        if protocol_type.len() > MEMBER_NAME_BYTES_MAX || protocol.len() > MEMBER_NAME_BYTES_MAX {
            return Err(Refusal::InvalidMembers.into());
        }
        let current = self.generation(name);
        if generation.get().checked_sub(1) != Some(current.get()) {
            return Err(Refusal::StaleGeneration { generation, current }.into());
        }
        let group = self.group_or_create(name)?;
        self.check_no_leases(group)?;
        self.push_generation(group, generation, protocol_type, protocol, members);
        Ok(Reply::GenerationBegun(group))
    }

    /// Whether the members that a coordinator began the group's generation with may be there.
    fn has_generation(&self, group: GroupId) -> bool {
        if let Some(has_members) = self.added().generation_has_members.get(&group) {
            return *has_members;
        }
        self.state.groups.get(group.get()).is_some_and(|(_, group)| !group.protocol.is_empty())
    }

    /// Ends the generation that a coordinator began for members of its own.
    fn end_generation(&mut self, name: &str, group: GroupId) {
        if self.has_generation(group) {
            let next = self.generation(name).get() + 1;
            self.push_generation(group, Generation::new(next), "", "", &[]);
        }
    }

    fn push_generation(
        &mut self,
        group: GroupId,
        generation: Generation,
        protocol_type: &str,
        protocol: &str,
        members: &[StaticMember<'_>],
    ) {
        self.add().generations.insert(group, generation);
        self.add().generation_has_members.insert(group, !protocol.is_empty());
        let body = GenerationBody { group, generation, protocol_type, protocol, members: members.to_vec() }.encode();
        self.push_alone(GENERATION_BEGUN, &group_tag(group), body.as_slice());
    }

    fn produce(
        &mut self,
        topic: TopicId,
        shape: TopicShape,
        partition: u32,
        batch: Batch<'_>,
    ) -> Result<Produced, Refusal> {
        if batch.is_control() {
            return Err(Refusal::ControlBatch);
        }
        if batch.is_transactional() {
            return Err(Refusal::TransactionalBatch);
        }
        let (bytes, bytes_max) = (batch.bytes().len(), shape.settings.batch_bytes_max);
        if bytes > bytes_max as usize {
            return Err(Refusal::BatchTooLarge { bytes, bytes_max });
        }
        // What has no key would never go.
        if shape.settings.cleanup.compacts()
            && let Some(record) = batch.first_without_key()
        {
            return Err(Refusal::MissingKey { record });
        }
        let stamp = Stamp::of(&batch)?;
        let last_offset_delta = batch.last_offset_delta();
        let produced = |base_offset: Sequence, time, place, is_duplicate| {
            let last_offset = Sequence::new(base_offset.get() + u64::from(last_offset_delta));
            Produced {
                topic,
                partition,
                base_offset,
                last_offset,
                time,
                place,
                is_duplicate,
                compression: shape.settings.compression,
            }
        };
        if let Some(stamp) = &stamp
            && let Verdict::Duplicate(Sent { base_offset, time, place, .. }) = self.judge(stamp, topic, partition)?
        {
            return Ok(produced(base_offset, time, place, true));
        }
        let tag = partition_tag(topic, partition);
        let entry = NewEntry {
            kind: BATCH_PRODUCED,
            tags: &[tag.tag()],
            sequenced: Some(Sequenced { origin: Sequence::new(0), count: last_offset_delta + 1 }),
            body: &[batch.bytes()],
        };
        let placed = match batch.verified_checksum() {
            Some((crc32c, bytes)) => self.effects.push_covered(entry, Covered { crc32c, bytes }),
            None => self.effects.push(entry),
        };
        let base_offset = placed.sequence.expect("the log numbers an entry that asks for it");
        let produced = produced(base_offset, self.effects.at().time, placed.place, false);
        if let Some(stamp) = &stamp {
            let state = self.state;
            let window = self.add().windows.entry((stamp.producer, topic, partition));
            let known = || state.producers.window(stamp.producer, (topic, partition)).cloned().unwrap_or_default();
            window.or_insert_with(known).add(stamp, base_offset, produced.time, placed.place);
        }
        if self.asks_for_ends {
            self.add().ends.insert((topic, partition), Sequence::new(produced.last_offset.get() + 1));
        }
        Ok(produced)
    }

    /// Whether a batch of an idempotent producer is to be stored, after what this commit has of it already.
    fn judge(&self, stamp: &Stamp, topic: TopicId, partition: u32) -> Result<Verdict, Refusal> {
        let state = &self.state.producers;
        let drafted = self.added().windows.get(&(stamp.producer, topic, partition));
        let window = drafted.or_else(|| state.window(stamp.producer, (topic, partition)));
        let given = stamp.producer.get().wrapping_sub(state.next_id().get()) < self.added().producers_given;
        state.judge(stamp, window, topic, given)
    }

    /// Notes how far a group has read, when a later command may ask for it.
    fn note_offset(&mut self, group: GroupId, topic: TopicId, partition: u32, offset: Option<Sequence>) {
        if self.asks_for_ends {
            self.add().offsets.insert((group, topic, partition), offset);
        }
    }

    fn commit_offset(&mut self, body: &OffsetBody<'_>) {
        self.note_offset(body.group, body.topic, body.partition, Some(body.offset));
        self.effects.push(NewEntry {
            kind: OFFSET_COMMITTED,
            tags: &[Tag::new(&group_tag(body.group))],
            sequenced: None,
            body: &[&body.fixed(), body.metadata.as_bytes()],
        });
    }

    /// Pushes an entry that stands under one tag, and takes no number of it.
    fn push_alone(&mut self, kind: quire_model::EntryKind, tag: &[u8], body: &[u8]) {
        self.effects.push(NewEntry { kind, tags: &[Tag::new(tag)], sequenced: None, body: &[body] });
    }
}

fn check_shape(shape: &TopicShape) -> Result<(), Refusal> {
    let TopicShape { partitions, settings } = *shape;
    if !(1..=PARTITIONS_MAX).contains(&partitions) {
        return Err(Refusal::InvalidPartitionCount { partitions });
    }
    let invalid = [
        (settings.retention_ms == Some(0), "the retention in milliseconds"),
        (settings.retention_bytes == Some(0), "the retention in bytes"),
        (settings.batch_bytes_max == 0, "the most bytes of a batch"),
    ];
    match invalid.iter().find(|(is_invalid, _)| *is_invalid) {
        Some((_, setting)) => Err(Refusal::InvalidSettings { setting }),
        None => Ok(()),
    }
}

fn check_members(members: &[StaticMember<'_>]) -> Result<(), Refusal> {
    let mut names = members.iter().flat_map(|member| [member.instance, member.member]);
    let are_valid = members.len() <= STATIC_MEMBERS_MAX && names.all(|name| name.len() <= MEMBER_NAME_BYTES_MAX);
    if are_valid { Ok(()) } else { Err(Refusal::InvalidMembers) }
}

fn check_partition(topic: TopicId, partition: u32, partitions: u32) -> Result<(), Refusal> {
    if partition < partitions { Ok(()) } else { Err(Refusal::UnknownPartition { topic, partition, partitions }) }
}
