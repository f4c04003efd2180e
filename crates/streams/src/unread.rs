//! Records that topics keep for groups that have not read them. Neither retention nor compaction
//! removes these records.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use quire_model::Sequence;

use crate::offsets::StoredOffset;
use crate::state::Group;
use crate::{Streams, TopicId};

/// The groups that topics keep unread records for.
#[derive(Debug)]
pub struct UnreadRecords<'s> {
    groups: BTreeMap<TopicId, Vec<&'s Group>>,
}

impl Streams {
    /// Returns the records that topics keep for groups that have not read them.
    pub fn unread(&self) -> UnreadRecords<'_> {
        let mut groups: BTreeMap<TopicId, Vec<&Group>> = BTreeMap::new();
        for (_, _, group) in self.groups.iter() {
            for topic in &group.protected {
                groups.entry(*topic).or_default().push(group);
            }
        }
        UnreadRecords { groups }
    }
}

impl UnreadRecords<'_> {
    /// The first record of a partition that a group has not read for which it is kept; `None` when
    /// it is kept for none.
    pub fn from(&self, topic: TopicId, partition: u32) -> Option<Sequence> {
        let read = |group: &&Group| group.offsets.get(topic, partition).and_then(StoredOffset::next);
        let groups = self.groups.get(&topic)?.iter();
        groups.map(|group| read(group).unwrap_or_default()).min()
    }
}
