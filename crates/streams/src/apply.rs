//! Takes entries into the state. Ids were given by `decide`; here they are only held against the catalogue.

use alloc::boxed::Box;

use quire_model::Entry;

use crate::Streams;
use crate::codec::{BATCH_PRODUCED, GROUP_CREATED, GroupBody, OFFSET_COMMITTED, OffsetBody, TOPIC_CREATED, TopicBody};
use crate::state::{Committed, Group, Topic};

impl Streams {
    pub(crate) fn take_in(&mut self, entry: &Entry<'_>) {
        match entry.kind {
            // The partition is the walk over its tag: there is nothing to keep beside it.
            BATCH_PRODUCED => {}
            OFFSET_COMMITTED => self.offset_committed(entry),
            TOPIC_CREATED => {
                let body = TopicBody::decode(entry.body).expect("the log keeps the topics' entries whole");
                assert_eq!(body.topic.get(), self.topics.next_id(), "topics are created in the order of their ids");
                self.topics.add(body.name, Topic { partitions: body.partitions });
            }
            GROUP_CREATED => {
                let body = GroupBody::decode(entry.body).expect("the log keeps the groups' entries whole");
                assert_eq!(body.group.get(), self.groups.next_id(), "groups are created in the order of their ids");
                self.groups.add(body.name, Group::default());
            }
            unknown => panic!("streams have no entries of kind {unknown:?}"),
        }
    }

    fn offset_committed(&mut self, entry: &Entry<'_>) {
        let body = OffsetBody::decode(entry.body).expect("the log keeps the offsets' entries whole");
        let group = self.groups.get_mut(body.group.get()).expect("a group is created before it commits");
        let committed = Committed {
            offset: body.offset,
            leader_epoch: body.leader_epoch,
            time: entry.time,
            metadata: Box::from(body.metadata),
        };
        group.offsets.insert((body.topic, body.partition), committed);
    }
}
