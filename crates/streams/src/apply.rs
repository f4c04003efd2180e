//! Takes entries into the state. Ids were given by `decide`; here they are only held against the catalogue.

use alloc::boxed::Box;

use quire_model::Entry;

use crate::codec::{
    BATCH_PRODUCED, GENERATION_BEGUN, GROUP_CREATED, GROUP_DELETED, GenerationBody, GroupBody, MEMBER_REPLACED,
    OFFSET_COMMITTED, OFFSET_DELETED, OffsetBody, PRODUCER_GIVEN, ProducerBody, RECORDS_DELETED, StartBody,
    TOPIC_ALTERED, TOPIC_CREATED, TOPIC_DELETED, TopicBody, decode_id, decode_member_replaced, decode_offset_deleted,
};
use crate::producers::Stamp;
use crate::state::{Committed, Group, Topic};
use crate::tag::partition_of;
use crate::wire::Batch;
use crate::{Streams, TopicId};

/// What the log keeps is what `decide` wrote.
const WHOLE: &str = "the log keeps the entries of streams whole";

impl Streams {
    pub(crate) fn take_in(&mut self, entry: &Entry<'_>) {
        match entry.kind {
            BATCH_PRODUCED => self.batch_produced(entry),
            OFFSET_COMMITTED => self.offset_committed(entry),
            OFFSET_DELETED => {
                let (group, topic, partition) = decode_offset_deleted(entry.body).expect(WHOLE);
                let group = self.groups.get_mut(group.get()).expect("a group is created before it forgets");
                group.offsets.remove(&(topic, partition));
            }
            TOPIC_CREATED => {
                let body = TopicBody::decode(entry.body).expect(WHOLE);
                self.topics.add(body.topic.get(), body.name, Topic::new(body.partitions, body.settings));
            }
            TOPIC_ALTERED => {
                let body = TopicBody::decode(entry.body).expect(WHOLE);
                let topic = self.topics.get_mut(body.topic.get()).expect("a topic is created before it changes");
                (topic.partitions, topic.settings) = (body.partitions, body.settings);
            }
            TOPIC_DELETED => self.topic_deleted(TopicId::new(decode_id(entry.body).expect(WHOLE))),
            RECORDS_DELETED => {
                let body = StartBody::decode(entry.body).expect(WHOLE);
                let topic = self.topics.get_mut(body.topic.get()).expect("a topic is created before it shrinks");
                topic.written.entry(body.partition).or_default().begin_at(body.start);
            }
            PRODUCER_GIVEN => {
                let body = ProducerBody::decode(entry.body).expect(WHOLE);
                self.producers.given(body.producer, body.topics_before, entry.time);
            }
            GROUP_CREATED => {
                let body = GroupBody::decode(entry.body).expect(WHOLE);
                self.groups.add(body.group.get(), body.name, Group::default());
            }
            GENERATION_BEGUN => self.generation_begun(&GenerationBody::decode(entry.body).expect(WHOLE)),
            MEMBER_REPLACED => {
                let (group, member) = decode_member_replaced(entry.body).expect(WHOLE);
                let group = self.groups.get_mut(group.get()).expect("a group is created before its members");
                group.members.insert(Box::from(member.instance), Box::from(member.member));
            }
            GROUP_DELETED => {
                self.groups.remove(decode_id(entry.body).expect(WHOLE)).expect("a group that is deleted was there");
            }
            unknown => panic!("streams have no entries of kind {unknown:?}"),
        }
    }

    fn batch_produced(&mut self, entry: &Entry<'_>) {
        let tag = entry.tags.first().expect("a batch stands under its partition's tag");
        let (topic, partition) = partition_of(tag).expect("a batch stands under its partition's tag");
        let batch = Batch::stored(entry.body);
        let base_offset = entry.sequence.expect("every batch has its offsets");
        let into = self.topics.get_mut(topic.get()).expect("a topic is created before it is produced to");
        into.written.entry(partition).or_default().samples.add(base_offset, entry.body.len(), batch.max_timestamp_ms());
        if let Some(stamp) = Stamp::of(&batch).expect("a batch's producer is checked before it is stored") {
            self.producers.stored(&stamp, (topic, partition), base_offset, entry.time, entry.place);
        }
    }

    fn topic_deleted(&mut self, topic: TopicId) {
        self.topics.remove(topic.get()).expect("a topic that is deleted was there");
        for group in self.groups.values_mut() {
            group.offsets.retain(|(of, _), _| *of != topic);
        }
        self.producers.drop_topic(topic);
    }

    fn offset_committed(&mut self, entry: &Entry<'_>) {
        let body = OffsetBody::decode(entry.body).expect(WHOLE);
        let group = self.groups.get_mut(body.group.get()).expect("a group is created before it commits");
        let committed = Committed {
            offset: body.offset,
            leader_epoch: body.leader_epoch,
            time: entry.time,
            metadata: Box::from(body.metadata),
        };
        group.offsets.insert((body.topic, body.partition), committed);
    }

    fn generation_begun(&mut self, body: &GenerationBody<'_>) {
        let group = self.groups.get_mut(body.group.get()).expect("a group is created before its generations");
        group.generation = body.generation;
        group.protocol_type = Box::from(body.protocol_type);
        group.protocol = Box::from(body.protocol);
        let members = body.members.iter();
        group.members = members.map(|member| (Box::from(member.instance), Box::from(member.member))).collect();
    }
}
