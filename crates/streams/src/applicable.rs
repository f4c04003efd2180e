//! Whether the state holds everything that an entry refers to: after records were lost, it may not.

use quire_model::Entry;
use quire_model::codec::CodecError;

use crate::codec::{
    BATCH_PRODUCED, GENERATION_BEGUN, GROUP_CREATED, GROUP_DELETED, GenerationBody, GroupBody, JoinedBody,
    MEMBER_JOINED, MEMBER_RENEWED, MEMBER_REPLACED, MEMBERS_GONE, OFFSET_COMMITTED, OFFSET_DELETED, OffsetBody,
    PRODUCER_GIVEN, ProducerBody, RECORDS_DELETED, RemovedMembersBody, RenewedBody, StartBody, TOPIC_ALTERED,
    TOPIC_CREATED, TOPIC_DELETED, TopicBody, UNREAD_PROTECTED, decode_id, decode_member_replaced,
    decode_offset_deleted, decode_protected,
};
use crate::producers::Stamp;
use crate::tag::partition_of;
use crate::wire::Batch;
use crate::{GroupId, Streams, TopicId};

/// The message for a body that does not decode.
const UNREADABLE: &str = "this program can't read the entry";

impl Streams {
    /// See [`Model::check_applicable`](quire_model::Model::check_applicable).
    pub(crate) fn applicable(&self, entry: &Entry<'_>) -> Result<(), &'static str> {
        match entry.kind {
            BATCH_PRODUCED => self.batch_applicable(entry),
            OFFSET_COMMITTED => {
                let body = read(OffsetBody::decode(entry.body))?;
                self.has_group(body.group)?;
                if body.topic.as_outside().is_some() { Ok(()) } else { self.has_topic(body.topic) }
            }
            OFFSET_DELETED => self.has_group(read(decode_offset_deleted(entry.body))?.0),
            TOPIC_CREATED => {
                let body = read(TopicBody::decode(entry.body))?;
                let is_new = body.topic.get() >= self.topics.next_id() && self.topics.id(body.name).is_none();
                is_new.then_some(()).ok_or("a topic of this name or number exists")
            }
            TOPIC_ALTERED => self.has_topic(read(TopicBody::decode(entry.body))?.topic),
            TOPIC_DELETED => self.has_topic(TopicId::new(read(decode_id(entry.body))?)),
            RECORDS_DELETED => self.has_topic(read(StartBody::decode(entry.body))?.topic),
            PRODUCER_GIVEN => {
                let body = read(ProducerBody::decode(entry.body))?;
                (body.producer >= self.producers.next_id()).then_some(()).ok_or("a producer of this id exists")
            }
            GROUP_CREATED => {
                let body = read(GroupBody::decode(entry.body))?;
                let is_new = body.group.get() >= self.groups.next_id() && self.groups.id(body.name).is_none();
                is_new.then_some(()).ok_or("a group of this name or number exists")
            }
            GENERATION_BEGUN => self.has_group(read(GenerationBody::decode(entry.body))?.group),
            MEMBER_REPLACED => self.has_group(read(decode_member_replaced(entry.body))?.0),
            GROUP_DELETED => self.has_group(GroupId::new(read(decode_id(entry.body))?)),
            UNREAD_PROTECTED => {
                let (group, topic, _) = read(decode_protected(entry.body))?;
                self.has_group(group).and_then(|()| self.has_topic(topic))
            }
            MEMBER_JOINED => {
                let body = read(JoinedBody::decode(entry.body))?;
                self.has_group(body.gone.group).and_then(|()| self.has_topic(body.gone.topic))
            }
            MEMBER_RENEWED => {
                let RenewedBody { group, topic, member } = read(RenewedBody::decode(entry.body))?;
                let roster = self.groups.get(group.get()).and_then(|(_, group)| group.rosters.get(&topic));
                let has = roster.is_some_and(|roster| roster.members.contains_key(&member));
                has.then_some(()).ok_or("the member of its group is unknown")
            }
            MEMBERS_GONE => {
                let body = read(RemovedMembersBody::decode(entry.body))?;
                self.has_group(body.group).and_then(|()| self.has_topic(body.topic))
            }
            _ => Err(UNREADABLE),
        }
    }

    fn batch_applicable(&self, entry: &Entry<'_>) -> Result<(), &'static str> {
        let (topic, partition) = entry.tags.first().and_then(partition_of).ok_or(UNREADABLE)?;
        self.has_topic(topic)?;
        let partitions = self.topics.get(topic.get()).map_or(0, |(_, topic)| topic.partitions);
        if partition >= partitions {
            return Err("the partition of its topic is unknown");
        }
        if entry.sequence.is_none() || Stamp::of(&Batch::stored(entry.body)).is_err() {
            return Err(UNREADABLE);
        }
        Ok(())
    }

    fn has_topic(&self, topic: TopicId) -> Result<(), &'static str> {
        self.topics.get(topic.get()).map(|_| ()).ok_or("its topic is unknown")
    }

    fn has_group(&self, group: GroupId) -> Result<(), &'static str> {
        self.groups.get(group.get()).map(|_| ()).ok_or("its group is unknown")
    }
}

fn read<T>(body: Result<T, CodecError>) -> Result<T, &'static str> {
    body.map_err(|_| UNREADABLE)
}
