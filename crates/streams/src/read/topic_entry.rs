//! The facts of an entry about its topic and group, for readers that show whole commits.

use quire_model::codec::CodecError;
use quire_model::{Entry, EntryKind, Sequence};

use crate::codec::{
    self, BATCH_PRODUCED, GENERATION_BEGUN, GROUP_CREATED, GROUP_DELETED, MEMBER_REPLACED, OFFSET_COMMITTED,
    OFFSET_DELETED, OffsetBody, PRODUCER_GIVEN, RECORDS_DELETED, StartBody,
};
use crate::tag::partition_of;
use crate::{GroupId, TopicId};

/// An entry of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicEntry {
    /// The topic.
    pub topic: Option<TopicId>,
    /// The partition, when the entry is of one.
    pub partition: Option<u32>,
    /// The consumer group.
    pub group: Option<GroupId>,
    /// The first offset of a batch, a committed offset, or the new start of a partition.
    pub offset: Option<Sequence>,
}

impl TopicEntry {
    /// Returns the facts of an entry of this model.
    ///
    /// # Errors
    /// When a newer program wrote the entry.
    pub fn of(entry: &Entry<'_>) -> Result<Self, CodecError> {
        let none = TopicEntry { topic: None, partition: None, group: None, offset: None };
        let body = entry.body;
        Ok(match entry.kind {
            BATCH_PRODUCED => {
                let partition = entry.tags.first().and_then(partition_of);
                let (topic, partition) = (partition.map(|(topic, _)| topic), partition.map(|(_, number)| number));
                TopicEntry { topic, partition, offset: entry.sequence, ..none }
            }
            OFFSET_COMMITTED => {
                let OffsetBody { group, topic, partition, offset, .. } = OffsetBody::decode(body)?;
                TopicEntry { topic: Some(topic), partition: Some(partition), group: Some(group), offset: Some(offset) }
            }
            OFFSET_DELETED => {
                let (group, topic, partition) = codec::decode_offset_deleted(body)?;
                TopicEntry { topic: Some(topic), partition: Some(partition), group: Some(group), ..none }
            }
            RECORDS_DELETED => {
                let StartBody { topic, partition, start } = StartBody::decode(body)?;
                TopicEntry { topic: Some(topic), partition: Some(partition), offset: Some(start), ..none }
            }
            PRODUCER_GIVEN => none,
            GROUP_CREATED | GROUP_DELETED | GENERATION_BEGUN | MEMBER_REPLACED => {
                TopicEntry { group: Some(GroupId::new(codec::decode_id(body)?)), ..none }
            }
            kind if is_of_member(kind) => {
                let (group, topic) = codec::decode_group_and_topic(body)?;
                TopicEntry { topic: Some(topic), group: Some(group), ..none }
            }
            _ => TopicEntry { topic: Some(TopicId::new(codec::decode_id(body)?)), ..none },
        })
    }
}

/// Whether the body of an entry of this kind begins with a group and a topic.
fn is_of_member(kind: EntryKind) -> bool {
    let kinds = [codec::UNREAD_PROTECTED, codec::MEMBER_JOINED, codec::MEMBER_RENEWED, codec::MEMBERS_GONE];
    kinds.contains(&kind)
}
