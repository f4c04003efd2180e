//! Takes entries into the state. Ids were given by `decide`; here they are only held against the
//! catalogue.

use alloc::boxed::Box;
use alloc::vec::Vec;

use quire_model::Entry;

use crate::codec::{
    BATCH_PRODUCED, GENERATION_BEGUN, GROUP_CREATED, GROUP_DELETED, GenerationBody, GroupBody, JoinedBody,
    MEMBER_JOINED, MEMBER_RENEWED, MEMBER_REPLACED, MEMBERS_GONE, OFFSET_COMMITTED, OFFSET_DELETED, OffsetBody,
    PRODUCER_GIVEN, ProducerBody, RECORDS_DELETED, RemovedMembersBody, RenewedBody, StartBody, TOPIC_ALTERED,
    TOPIC_CREATED, TOPIC_DELETED, TopicBody, UNREAD_PROTECTED, decode_id, decode_member_replaced,
    decode_offset_deleted, decode_protected,
};
use crate::offsets::StoredOffset;
use crate::producers::Stamp;
use crate::roster::Member;
use crate::state::{Group, Topic};
use crate::tag::partition_of;
use crate::wire::Batch;
use crate::{GroupId, MemberId, Streams, TopicId, TopicSettings};

/// The message of a panic. The log holds only entries that `decide` wrote, so all of them are
/// whole.
const WHOLE: &str = "the log keeps the entries of streams whole";

impl Streams {
    pub(crate) fn take_in(&mut self, entry: &Entry<'_>) {
        self.removed.free_some();
        match entry.kind {
            BATCH_PRODUCED => self.batch_produced(entry),
            OFFSET_COMMITTED => self.offset_committed(entry),
            OFFSET_DELETED => {
                let (group, topic, partition) = decode_offset_deleted(entry.body).expect(WHOLE);
                let known = self.groups.get_mut(group.get()).expect("a group is created before it deletes offsets");
                self.offset_bytes -= known.offsets.remove(topic, partition);
                self.note_reader(topic, group);
            }
            TOPIC_CREATED => {
                let body = TopicBody::decode(entry.body).expect(WHOLE);
                self.count(&body.settings);
                self.partitions += u64::from(body.partitions);
                self.topics.add(body.topic.get(), body.name, Topic::new(body.partitions, body.settings, body.kept));
            }
            TOPIC_ALTERED => {
                let body = TopicBody::decode(entry.body).expect(WHOLE);
                let topic = self.topics.get_mut(body.topic.get()).expect("a topic is created before it changes");
                let before = topic.change(body.settings, body.kept);
                self.partitions = self.partitions - u64::from(topic.partitions) + u64::from(body.partitions);
                topic.partitions = body.partitions;
                self.count(&body.settings);
                self.count_no_longer(&before);
                self.share_out_anew(body.topic, body.partitions);
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
                let id = decode_id(entry.body).expect(WHOLE);
                let deleted = self.groups.remove(id).expect("a deleted group existed");
                self.offset_bytes -= deleted.offsets.bytes();
                for topic in deleted.topics() {
                    self.readers.remove(&(topic, GroupId::new(id)));
                }
                deleted.offsets.into_topics().for_each(|offsets| self.removed.add_offsets(offsets));
            }
            UNREAD_PROTECTED => {
                let (group, topic, protects) = decode_protected(entry.body).expect(WHOLE);
                let known = self.groups.get_mut(group.get()).expect("a group is created before it protects");
                match protects {
                    true => known.protected.insert(topic),
                    false => known.protected.remove(&topic),
                };
                self.note_reader(topic, group);
            }
            MEMBER_JOINED => {
                let body = JoinedBody::decode(entry.body).expect(WHOLE);
                self.next_member = MemberId::new(body.member.get() + 1);
                let joined = (body.member, Member::new(body.name, body.lease_ms, entry.time));
                self.change_roster(&body.gone, Some(joined));
            }
            MEMBER_RENEWED => {
                let RenewedBody { group, topic, member } = RenewedBody::decode(entry.body).expect(WHOLE);
                let group = self.groups.get_mut(group.get()).expect("a group is created before its members");
                let roster = group.rosters.get_mut(&topic).expect("a member joins before it is renewed");
                roster.members.get_mut(&member).expect("a member joins before it is renewed").renew(entry.time);
            }
            MEMBERS_GONE => self.change_roster(&RemovedMembersBody::decode(entry.body).expect(WHOLE), None),
            unknown => panic!("streams have no entries of kind {unknown:?}"),
        }
    }

    fn batch_produced(&mut self, entry: &Entry<'_>) {
        let tag = entry.tags.first().expect("a batch has its partition's tag");
        let (topic, partition) = partition_of(tag).expect("a batch has its partition's tag");
        let batch = Batch::stored(entry.body);
        let base_offset = entry.sequence.expect("every batch has its offsets");
        let into = self.topics.get_mut(topic.get()).expect("a topic is created before it is produced to");
        into.written.entry(partition).or_default().samples.add(base_offset, entry.body.len(), batch.max_timestamp_ms());
        if let Some(stamp) = Stamp::of(&batch).expect("a batch's producer is checked before it is stored") {
            self.producers.stored(&stamp, (topic, partition), base_offset, entry.time, entry.place);
        }
    }

    fn count(&mut self, settings: &TopicSettings) {
        self.compressing += usize::from(settings.compresses());
        self.compacting += usize::from(settings.cleanup.compacts());
    }

    fn count_no_longer(&mut self, settings: &TopicSettings) {
        self.compressing -= usize::from(settings.compresses());
        self.compacting -= usize::from(settings.cleanup.compacts());
    }

    /// Adds or removes members, and divides the partitions again.
    fn change_roster(&mut self, gone: &RemovedMembersBody, joined: Option<(MemberId, Member)>) {
        let partitions = self.topics.get(gone.topic.get()).expect("a shared topic exists").1.partitions;
        let group = self.groups.get_mut(gone.group.get()).expect("a group is created before its members");
        group.rosters.entry(gone.topic).or_default().change(&gone.members, joined, partitions);
        self.readers.insert((gone.topic, gone.group));
    }

    fn share_out_anew(&mut self, topic: TopicId, partitions: u32) {
        let readers: Vec<GroupId> = self.readers_of(topic).map(|(id, _)| id).collect();
        for id in readers {
            let roster = self.groups.get_mut(id.get()).and_then(|group| group.rosters.get_mut(&topic));
            if let Some(roster) = roster.filter(|roster| roster.partitions() != partitions) {
                roster.share_out(partitions);
            }
        }
    }

    fn topic_deleted(&mut self, topic: TopicId) {
        let gone = self.topics.remove(topic.get()).expect("a deleted topic existed");
        self.count_no_longer(&gone.settings);
        self.partitions -= u64::from(gone.partitions);
        let readers: Vec<GroupId> = self.readers_of(topic).map(|(id, _)| id).collect();
        for id in readers {
            self.readers.remove(&(topic, id));
            let group = self.groups.get_mut(id.get()).expect("a reader of a topic exists");
            if let Some((offsets, bytes)) = group.offsets.remove_topic(topic) {
                self.offset_bytes -= bytes;
                self.removed.add_offsets(offsets);
            }
            group.protected.remove(&topic);
            group.rosters.remove(&topic);
        }
        self.producers.drop_topic(topic);
        self.removed.add_partitions(gone.written);
    }

    fn offset_committed(&mut self, entry: &Entry<'_>) {
        let body = OffsetBody::decode(entry.body).expect(WHOLE);
        let group = self.groups.get_mut(body.group.get()).expect("a group is created before it commits");
        let committed = StoredOffset {
            offset: body.offset,
            leader_epoch: body.leader_epoch,
            time: entry.time,
            metadata: Box::from(body.metadata),
        };
        let (before, bytes) = group.offsets.insert(body.topic, body.partition, committed);
        if before.is_none() {
            self.readers.insert((body.topic, body.group));
        }
        self.offset_bytes = self.offset_bytes - before.unwrap_or(0) + bytes;
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

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;

    use quire_model::{EntryKind, Place, Sequence, Tags, Timestamp};

    use super::*;
    use crate::KeptSettings;

    fn entry(kind: EntryKind, body: &[u8]) -> Entry<'_> {
        let (place, tags) = (Place::default(), Tags::from_encoded(&[]));
        Entry { place, time: Timestamp::ZERO, kind, sequence: None, count: 0, tags, body }
    }

    #[test]
    fn a_deletion_takes_all_away_at_once_and_each_later_entry_frees_a_part() {
        let (topic, group, partitions) = (TopicId::new(0), GroupId::new(0), 1_000);
        let mut streams = Streams::default();
        let mut written = Topic::new(partitions, TopicSettings::default(), KeptSettings::default());
        let mut reader = Group::default();
        for partition in 0..partitions {
            let (offset, time, metadata) = (Sequence::new(1), Timestamp::ZERO, Box::from("note"));
            reader.offsets.insert(topic, partition, StoredOffset { offset, leader_epoch: None, time, metadata });
            written.written.entry(partition).or_default();
        }
        (streams.offset_bytes, streams.partitions) = (reader.offsets.bytes(), partitions.into());
        streams.topics.add(0, "orders", written);
        streams.groups.add(0, "mail", reader);
        streams.note_reader(topic, group);
        assert_eq!(streams.offset_bytes(), 100_000);

        let deleted = 0_u32.to_le_bytes();
        streams.take_in(&entry(TOPIC_DELETED, &deleted));
        assert_eq!((streams.offset_bytes(), streams.partition_count(), streams.topic_count()), (0, 0, 0));
        assert_eq!(streams.committed_by("mail").count(), 0);
        assert_eq!(streams.removed.len(), 2_000, "nothing is freed by the deletion itself");
        streams.take_in(&entry(GROUP_DELETED, &deleted));
        let left = streams.removed.len();
        assert!((1_800..2_000).contains(&left), "{left}");
        for id in 1..40_u32 {
            streams.take_in(&entry(GROUP_CREATED, &[&id.to_le_bytes()[..], b"g"].concat()));
            streams.take_in(&entry(GROUP_DELETED, &id.to_le_bytes()));
        }
        assert_eq!(streams.removed.len(), 0);
    }
}
