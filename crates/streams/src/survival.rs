//! The entries of streams that still count: record batches of partitions, the last committed
//! offsets of groups, and the entries of current members.

use quire_model::{Entry, Timestamp};

use crate::Streams;
use crate::codec::{
    BATCH_PRODUCED, JoinedBody, MEMBER_JOINED, MEMBER_RENEWED, MEMBERS_GONE, OFFSET_COMMITTED, OffsetBody,
};
use crate::tag::partition_of;

impl Streams {
    pub(crate) fn still_counts(&self, entry: &Entry<'_>, history_from: Timestamp) -> bool {
        match entry.kind {
            BATCH_PRODUCED => self.is_within_its_partition(entry),
            OFFSET_COMMITTED => entry.time >= history_from || self.is_last_of_its_group(entry),
            MEMBER_JOINED => entry.time >= history_from || self.is_member(entry),
            // The checkpoint has the current leases, and a replay begins at a checkpoint.
            MEMBER_RENEWED | MEMBERS_GONE => entry.time >= history_from,
            _ => true,
        }
    }

    fn is_member(&self, entry: &Entry<'_>) -> bool {
        let Ok(body) = JoinedBody::decode(entry.body) else { return true };
        let group = self.groups.get(body.gone.group.get()).map(|(_, group)| group);
        let roster = group.and_then(|group| group.rosters.get(&body.gone.topic));
        roster.is_some_and(|roster| roster.members.contains_key(&body.member))
    }

    fn is_within_its_partition(&self, entry: &Entry<'_>) -> bool {
        let Some((topic, partition)) = entry.tags.first().and_then(partition_of) else { return true };
        self.topic_at(topic).is_some_and(|(_, topic)| entry.next_sequence() > topic.start(partition))
    }

    fn is_last_of_its_group(&self, entry: &Entry<'_>) -> bool {
        let Ok(body) = OffsetBody::decode(entry.body) else { return true };
        let group = self.groups.get(body.group.get()).map(|(_, group)| group);
        let last = group.and_then(|group| group.offsets.get(body.topic, body.partition));
        last.is_some_and(|last| (last.offset, last.time) == (body.offset, entry.time))
    }
}
