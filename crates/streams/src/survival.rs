//! Which entries of streams still count: record batches as far as their partition reaches, and what a group committed last.

use quire_model::{Entry, Timestamp};

use crate::Streams;
use crate::codec::{BATCH_PRODUCED, OFFSET_COMMITTED, OffsetBody};
use crate::tag::partition_of;

impl Streams {
    pub(crate) fn still_counts(&self, entry: &Entry<'_>, history_from: Timestamp) -> bool {
        match entry.kind {
            BATCH_PRODUCED => self.is_within_its_partition(entry),
            OFFSET_COMMITTED => entry.time >= history_from || self.is_last_of_its_group(entry),
            _ => true,
        }
    }

    fn is_within_its_partition(&self, entry: &Entry<'_>) -> bool {
        let Some((topic, partition)) = entry.tags.first().and_then(partition_of) else { return true };
        self.topic_at(topic).is_some_and(|(_, topic)| entry.next_sequence() > topic.start(partition))
    }

    fn is_last_of_its_group(&self, entry: &Entry<'_>) -> bool {
        let Ok(body) = OffsetBody::decode(entry.body) else { return true };
        let group = self.groups.get(body.group.get()).map(|(_, group)| group);
        let last = group.and_then(|group| group.offsets.get(&(body.topic, body.partition)));
        last.is_some_and(|last| (last.offset, last.time) == (body.offset, entry.time))
    }
}
