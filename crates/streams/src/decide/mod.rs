//! Decides the streams' commands of one commit.
//!
//! 1. Each command is checked against the state and what earlier commands of the commit do
//!    ([`Draft`]).
//! 2. Missing topics and groups that it needs are created by entries of their own, before it.
//! 3. Its effect is pushed; the log assigns the offsets of a batch.
//!
//! Only commands that move the start of a partition read the log: a batch's offsets follow from its
//! partition's tag, whose numbers the log counts. A commit of a producer that is not idempotent
//! allocates nothing here, unless it creates something.

mod added;
mod check;

mod produce;
mod topics;

mod groups;
mod members;

mod trial;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use quire_model::{DecideError, Effects, History, NewEntry, Release, Tag, decide_in_order};

use self::added::{CommitAdditions, TopicShape};
use self::check::{check_members, check_partition};
use crate::codec::{
    GROUP_DELETED, MEMBER_REPLACED, OFFSET_DELETED, OffsetBody, TOPIC_DELETED, encode_member_replaced,
    encode_offset_deleted,
};
use crate::tag::{group_tag, topic_tag};
use crate::{
    Command, Committer, Despite, KeptSettings, OFFSET_METADATA_BYTES_MAX, OffsetCommitted, Refusal, Reply, Streams,
    TopicCreated, TopicRef, partition_for_key,
};

pub(crate) fn decide(
    state: &Streams,
    history: &dyn History,
    commands: &[Command<'_>],
    effects: &mut dyn Effects,
    replies: &mut Vec<Reply>,
) -> Result<(), DecideError<Refusal>> {
    let mut draft = Draft {
        state,
        history,
        added: None,
        asks_for_ends: commands.iter().any(|command| matches!(command, Command::DeleteRecords { .. })),
        effects,
    };
    decide_in_order(commands, |_, command| draft.command(command, replies))
}

/// Why a command is not decided.
type Stop = quire_model::Stop<Refusal>;

/// The state after the commands decided so far.
struct Draft<'d, 'c> {
    state: &'d Streams,
    history: &'d dyn History,
    /// Created by the first addition: most commits only produce.
    added: Option<Box<CommitAdditions<'c>>>,
    /// Whether a command may ask for the end of a partition that the commit itself produces to.
    asks_for_ends: bool,
    effects: &'d mut dyn Effects,
}

impl<'c> Draft<'_, 'c> {
    /// The additions of the commands decided so far.
    fn added(&self) -> &CommitAdditions<'c> {
        self.added.as_deref().unwrap_or(CommitAdditions::NOTHING)
    }

    /// The same, for changes.
    fn add(&mut self) -> &mut CommitAdditions<'c> {
        self.added.get_or_insert_default()
    }

    fn command(&mut self, command: &Command<'c>, replies: &mut Vec<Reply>) -> Result<(), Stop> {
        let reply = match *command {
            // The most frequent commands push their reply themselves: a reply is large, and
            // returning it takes longer than looking up the topic.
            Command::Produce { topic, partition, ref batch, create_partitions } => {
                let (id, terms) = self.terms_or_create(topic, create_partitions)?;
                check_partition(id, partition, terms.partitions)?;
                return Ok(self.produce(id, terms, partition, batch, replies)?);
            }
            Command::ProduceByKey { topic, key, ref batch, create_partitions } => {
                let (id, terms) = self.terms_or_create(topic, create_partitions)?;
                return Ok(self.produce(id, terms, partition_for_key(key, terms.partitions), batch, replies)?);
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
                self.commit_offset(&OffsetBody { group, topic, partition, offset, leader_epoch, metadata })?;
                replies.push(Reply::OffsetCommitted(OffsetCommitted { group, topic, partition }));
                return Ok(());
            }
            Command::CreateTopic { name, partitions, settings } => {
                if let Some((topic, shape)) = self.topic(TopicRef::Name(name)) {
                    return Err(Refusal::TopicExists { topic, partitions: shape.partitions }.into());
                }
                let kept = KeptSettings::default();
                let topic = self.create_topic(name, TopicShape { partitions, settings, kept })?;
                Ok(Reply::TopicCreated(TopicCreated { topic, partitions }))
            }
            Command::DeleteTopic { topic } => {
                let (topic, shape) = self.topic_or_create(topic, None)?;
                let known = self.state.topics.get(topic.get()).map(|(name, _)| name);
                let created = || self.added().topics.name(topic.get());
                let name = String::from(known.or_else(created).expect("a topic has a name"));
                self.effects.release(Release::Topic { name: &name, partitions: shape.partitions });
                self.add().topics.gone.insert(topic.get());
                self.push_alone(TOPIC_DELETED, &topic_tag(topic), &topic.get().to_le_bytes());
                Ok(Reply::TopicDeleted(topic))
            }
            Command::AlterTopic { topic, changes } => {
                let (topic, shape) = self.topic_or_create(topic, None)?;
                self.alter(topic, TopicShape { settings: shape.settings.changed(changes), ..shape }, 0)
            }
            Command::KeepSettings { topic, changes } => {
                let (topic, shape) = self.topic_or_create(topic, None)?;
                let kept = shape.kept.changed(changes)?;
                self.alter(topic, TopicShape { kept, ..shape }, 0)
            }
            Command::AddPartitions { topic, partitions } => {
                let (topic, shape) = self.topic_or_create(topic, None)?;
                if partitions <= shape.partitions {
                    return Err(Refusal::TooFewPartitions { partitions, current: shape.partitions }.into());
                }
                self.alter(topic, TopicShape { partitions, ..shape }, partitions - shape.partitions)
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
                self.effects.release(Release::Group);
                self.add().groups.gone.insert(group.get());
                self.push_alone(GROUP_DELETED, &group_tag(group), &group.get().to_le_bytes());
                Ok(Reply::GroupDeleted(group))
            }
        };
        replies.push(reply?);
        Ok(())
    }

    /// Pushes an entry with one tag that takes no number of the tag.
    fn push_alone(&mut self, kind: quire_model::EntryKind, tag: &[u8], body: &[u8]) {
        self.effects.push(NewEntry { kind, tags: &[Tag::new(tag)], sequenced: None, body: &[body] });
    }
}
