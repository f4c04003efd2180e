//! The tags of streams, built on the stack: the produce path allocates nothing.
//!
//! ```text
//! 1 'p' topic u32 partition u32    a partition: its batches, numbered by offset from 0
//! 1 't' topic u32                  a topic: its creation, its changes, its end
//! 1 'g' group u32                  a consumer group: its creation, its generations, the offsets it committed, its end
//! 1 'i'                            the ids of producers
//! ```

use quire_model::{ModelId, Tag};

use crate::{GroupId, TopicId};

/// The tag of a partition, owned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PartitionTag([u8; 10]);

impl PartitionTag {
    /// The tag.
    pub fn tag(&self) -> Tag<'_> {
        Tag::new(&self.0)
    }
}

/// The tag of a topic, owned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TopicTag([u8; 6]);

impl TopicTag {
    /// The tag.
    pub fn tag(&self) -> Tag<'_> {
        Tag::new(&self.0)
    }
}

impl PartitionTag {
    /// The tag of the partition's topic, for its changes and its deletion. Readers wait on this tag
    /// to notice deleted records.
    pub fn topic(&self) -> TopicTag {
        let (topic, _) = partition_of(self.tag()).expect("the tag of a partition");
        TopicTag(topic_tag(topic))
    }
}

/// The tag of a partition's batches. Readers scan it, and wait on it for new records.
pub fn partition_tag(topic: TopicId, partition: u32) -> PartitionTag {
    let [t0, t1, t2, t3] = topic.get().to_le_bytes();
    let [p0, p1, p2, p3] = partition.to_le_bytes();
    PartitionTag([ModelId::STREAMS.get(), b'p', t0, t1, t2, t3, p0, p1, p2, p3])
}

/// The bytes of the tag under which producers get their ids.
pub(crate) const PRODUCERS_TAG: [u8; 2] = [ModelId::STREAMS.get(), b'i'];

/// The bytes of a topic's tag.
pub(crate) fn topic_tag(topic: TopicId) -> [u8; 6] {
    id_tag(b't', topic.get())
}

/// The bytes of a group's tag.
pub(crate) fn group_tag(group: GroupId) -> [u8; 6] {
    id_tag(b'g', group.get())
}

fn id_tag(role: u8, id: u32) -> [u8; 6] {
    let [i0, i1, i2, i3] = id.to_le_bytes();
    [ModelId::STREAMS.get(), role, i0, i1, i2, i3]
}

/// The partition that this is the tag of.
pub(crate) fn partition_of(tag: Tag<'_>) -> Option<(TopicId, u32)> {
    let [model, b'p', t0, t1, t2, t3, p0, p1, p2, p3] = *tag.as_bytes() else { return None };
    let (topic, partition) = (u32::from_le_bytes([t0, t1, t2, t3]), u32::from_le_bytes([p0, p1, p2, p3]));
    (model == ModelId::STREAMS.get()).then_some((TopicId::new(topic), partition))
}
