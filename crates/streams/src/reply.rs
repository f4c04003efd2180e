//! The answers to commands.

use quire_model::{Place, Sequence, Timestamp};

use crate::wire::Codec;
use crate::{GroupId, MemberId, ProducerId, TopicId, TopicSettings};

/// The answer to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// The topic was created.
    TopicCreated(TopicCreated),
    /// The batch is in its partition.
    Produced(ProduceResult),
    /// The group continues from there.
    OffsetCommitted(OffsetCommitted),
    /// The topic and its records were deleted.
    TopicDeleted(TopicId),
    /// The topic has the requested settings.
    TopicAltered(TopicAltered),
    /// The partition begins there.
    RecordsDeleted(RecordsDeleted),
    /// The producer has its id, and begins with epoch 0.
    ProducerInitialized(ProducerId),
    /// The group knows nothing of the partition any more, if it did.
    OffsetDeleted(OffsetCommitted),
    /// The generation is the group's current one.
    GenerationBegun(GroupId),
    /// The member has the place.
    MemberReplaced(GroupId),
    /// The group was deleted.
    GroupDeleted(GroupId),
    /// Whether the topic keeps unread records of the group was set.
    UnreadProtected(GroupId),
    /// It is a member.
    MemberJoined(MemberJoined),
    /// The member's lease is renewed.
    MemberRenewed(GroupId),
    /// The membership has ended.
    MemberLeft(GroupId),
}

/// A membership by lease that began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberJoined {
    /// The group.
    pub group: GroupId,
    /// The topic.
    pub topic: TopicId,
    /// Its id.
    pub member: MemberId,
}

/// A topic that was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicAltered {
    /// Its id.
    pub topic: TopicId,
    /// The new number of partitions.
    pub partitions: u32,
    /// Its settings now.
    pub settings: TopicSettings,
}

/// Records that were deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordsDeleted {
    /// The topic.
    pub topic: TopicId,
    /// The partition.
    pub partition: u32,
    /// The offset of the first record that is kept.
    pub start: Sequence,
}

/// A topic that was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicCreated {
    /// Its id.
    pub topic: TopicId,
    /// The number of partitions.
    pub partitions: u32,
}

/// A batch that was appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProduceResult {
    /// The topic.
    pub topic: TopicId,
    /// The partition.
    pub partition: u32,
    /// The offset of the first record.
    pub base_offset: Sequence,
    /// The offset of the last record.
    pub last_offset: Sequence,
    /// When it was appended.
    pub time: Timestamp,
    /// Its place in the log.
    pub place: Place,
    /// Whether it was there already, sent before by its idempotent producer. Nothing was stored
    /// again.
    pub is_duplicate: bool,
    /// Whether its records have the time of the append; see
    /// [`TimestampType`](crate::TimestampType).
    pub is_append_time: bool,
    /// The codec that embedded producers use for the topic.
    pub compression: Codec,
}

/// An offset that was committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetCommitted {
    /// The group.
    pub group: GroupId,
    /// The topic.
    pub topic: TopicId,
    /// The partition.
    pub partition: u32,
}
