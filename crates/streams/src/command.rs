//! The commands of streams. Commands borrow all that they carry.

use quire_model::Sequence;

use crate::wire::Batch;
use crate::{Generation, KeptChange, MemberId, OwnerEpoch, TopicChanges, TopicId, TopicSettings};

/// A partition of a member's share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnedPartition {
    /// The partition.
    pub partition: u32,
    /// The owner epoch under which the member reads the partition.
    pub epoch: OwnerEpoch,
}

/// The identity under which an offset is committed. A change of the group's members may fence it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Committer {
    /// No member: never fenced.
    Anyone,
    /// A member of this generation. A generation other than the group's current one is refused.
    Of(Generation),
    /// A member by lease. It is refused for a partition that it does not own, or that another
    /// member owned in between. The commit renews its lease.
    Member {
        /// The member.
        member: MemberId,
        /// The owner epoch under which the member reads the partition, from its share.
        epoch: OwnerEpoch,
    },
}

/// The members despite which a group is deleted. Later commits by a deleted member are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Despite {
    /// A group with members is not deleted.
    Nobody,
    /// Deletes a group unless a member has a lease. For the coordinator, the only component that
    /// knows whether the members of a generation still exist.
    Generation,
    /// The group is deleted with all its members.
    Everyone,
}

/// A member of a group that keeps its place through restarts (KIP-345).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StaticMember<'c> {
    /// The name that its operator gave it.
    pub instance: &'c str,
    /// The id that it has now.
    pub member: &'c str,
}

/// The name or the id of a topic in a command. The id saves looking the name up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TopicRef<'c> {
    /// By its name.
    Name(&'c str),
    /// By its id.
    Id(TopicId),
    /// An event store, by its number: consumer groups read it like a topic. Groups commit offsets
    /// of its only partition, 0, under [`TopicId::outside`]. Other commands refuse it.
    Outside(u32),
}

/// A part of a commit.
#[derive(Debug, Clone, Copy, Hash)]
pub enum Command<'c> {
    /// Creates a topic.
    CreateTopic {
        /// Its name: 1 to 249 of `A-Z a-z 0-9 . _ -`, neither `.` nor `..`.
        name: &'c str,
        /// The number of partitions, from 1 to [`PARTITIONS_MAX`](crate::PARTITIONS_MAX).
        partitions: u32,
        /// The settings.
        settings: TopicSettings,
    },
    /// Deletes a topic with all its records, and the offsets that groups committed in it. Its name
    /// is free again.
    DeleteTopic {
        /// The topic.
        topic: TopicRef<'c>,
    },
    /// Changes the settings of a topic.
    AlterTopic {
        /// The topic.
        topic: TopicRef<'c>,
        /// The changes.
        changes: TopicChanges,
    },
    /// Adds partitions to a topic. Later records are spread over all partitions by their keys.
    AddPartitions {
        /// The topic.
        topic: TopicRef<'c>,
        /// The new number of partitions, higher than the current one.
        partitions: u32,
    },
    /// Deletes the records of a partition before an offset. Records deleted before stay deleted.
    DeleteRecords {
        /// Whether to keep records that a protecting group has not read, see
        /// [`Command::ProtectUnread`]. The partition then begins at the first of these records.
        keep_unread: bool,
        /// The topic.
        topic: TopicRef<'c>,
        /// The partition, from 0.
        partition: u32,
        /// The first offset to keep, at most the partition's end; `None` keeps none.
        before: Option<Sequence>,
    },
    /// Gives out the id of an idempotent producer.
    InitProducer,
    /// Appends a batch to a partition.
    Produce {
        /// The topic.
        topic: TopicRef<'c>,
        /// The partition, from 0.
        partition: u32,
        /// The records, checked before the commit.
        batch: Batch<'c>,
        /// Creates an unknown topic with this many partitions, when `topic` is a name. `None`
        /// refuses the command.
        create_partitions: Option<u32>,
    },
    /// Changes the settings of a topic that are kept for clients of Kafka and have no effect.
    KeepSettings {
        /// The topic.
        topic: TopicRef<'c>,
        /// The changes. Other kept settings stay.
        changes: &'c [KeptChange<'c>],
    },
    /// Appends a batch to the partition that a key belongs to, of those that the topic has when the
    /// commit is decided: see [`partition_for_key`](crate::partition_for_key). Otherwise as
    /// [`Command::Produce`].
    ProduceByKey {
        /// The topic.
        topic: TopicRef<'c>,
        /// The key.
        key: &'c [u8],
        /// The records, checked before the commit.
        batch: Batch<'c>,
        /// See [`Command::Produce`].
        create_partitions: Option<u32>,
    },
    /// Commits the offset up to which a consumer group has read a partition. It replaces the
    /// earlier offset, also when it is lower.
    CommitOffset {
        /// The group: text of 1 to 255 bytes. The first commit creates it.
        group: &'c str,
        /// The topic.
        topic: TopicRef<'c>,
        /// The partition, from 0.
        partition: u32,
        /// The offset of the next record to read. It need not be there (yet). A number that is
        /// negative as an `i64` is kept for clients of Kafka, and means that nothing was read.
        offset: Sequence,
        /// The leader epoch of the last record that was read, when the consumer knows it.
        leader_epoch: Option<u32>,
        /// A note of the consumer, at most
        /// [`OFFSET_METADATA_BYTES_MAX`](crate::OFFSET_METADATA_BYTES_MAX) bytes.
        metadata: &'c str,
        /// The committer.
        by: Committer,
    },
    /// Makes a topic keep the records that a group has not read, regardless of its retention, or
    /// ends that. A group without commits has read nothing.
    ProtectUnread {
        /// The group: text of 1 to 255 bytes. The first protection creates it.
        group: &'c str,
        /// The topic.
        topic: TopicRef<'c>,
        /// Whether the topic keeps unread records of the group.
        protects: bool,
    },
    /// Becomes a member of a group by a lease, and is given a share of a topic's partitions.
    /// Members whose lease ran out lose theirs. A generation that a coordinator began is over with
    /// it.
    JoinGroup {
        /// The group: text of 1 to 255 bytes. The first member creates it.
        group: &'c str,
        /// The topic whose partitions are shared.
        topic: TopicRef<'c>,
        /// The slot to take: the member of the same name is removed. Empty for no slot; at most
        /// [`MEMBER_NAME_BYTES_MAX`](crate::MEMBER_NAME_BYTES_MAX) bytes.
        name: &'c str,
        /// The length of the lease in milliseconds: 1 to [`LEASE_MS_MAX`](crate::LEASE_MS_MAX).
        lease_ms: u32,
    },
    /// Renews the lease of a member. Members with an expired lease lose their partitions.
    RenewMember {
        /// The group.
        group: &'c str,
        /// The topic whose partitions are shared.
        topic: TopicRef<'c>,
        /// The member.
        member: MemberId,
    },
    /// Ends a membership by lease. Does nothing when the membership has already ended.
    LeaveGroup {
        /// The group.
        group: &'c str,
        /// The topic whose partitions are shared.
        topic: TopicRef<'c>,
        /// The member.
        member: MemberId,
    },
    /// Deletes the committed offset of a group in a partition.
    DeleteOffset {
        /// The group.
        group: &'c str,
        /// The topic.
        topic: TopicRef<'c>,
        /// The partition, from 0.
        partition: u32,
    },
    /// Begins a generation of a group. Commits by members of earlier generations are refused from
    /// then on.
    BeginGeneration {
        /// The group: text of 1 to 255 bytes. The first generation creates it.
        group: &'c str,
        /// Its number: one more than the group's current one, 1 for the first.
        generation: Generation,
        /// The kind of the group's members, such as `consumer`; at most 255 bytes.
        protocol_type: &'c str,
        /// The assignment strategy of the generation; empty without members. At most 255 bytes.
        protocol: &'c str,
        /// The members that keep their places.
        members: &'c [StaticMember<'c>],
    },
    /// Moves a static member's place to another member id, within the generation. The earlier
    /// member id is fenced.
    ReplaceMember {
        /// The group.
        group: &'c str,
        /// The group's current generation.
        generation: Generation,
        /// The static member, with its new member id.
        member: StaticMember<'c>,
    },
    /// Deletes a group and its committed offsets. Another group may then have the name.
    DeleteGroup {
        /// The group.
        group: &'c str,
        /// The members that do not prevent this change.
        despite: Despite,
    },
}

impl Command<'_> {
    /// The topic that the command names by its id.
    pub(crate) fn topic_id(&self) -> Option<TopicId> {
        match *self {
            Command::DeleteTopic { topic }
            | Command::AlterTopic { topic, .. }
            | Command::AddPartitions { topic, .. }
            | Command::DeleteRecords { topic, .. }
            | Command::Produce { topic, .. }
            | Command::KeepSettings { topic, .. }
            | Command::ProduceByKey { topic, .. }
            | Command::CommitOffset { topic, .. }
            | Command::ProtectUnread { topic, .. }
            | Command::JoinGroup { topic, .. }
            | Command::RenewMember { topic, .. }
            | Command::LeaveGroup { topic, .. }
            | Command::DeleteOffset { topic, .. } => match topic {
                TopicRef::Id(id) => Some(id),
                TopicRef::Name(_) | TopicRef::Outside(_) => None,
            },
            Command::CreateTopic { .. }
            | Command::InitProducer
            | Command::BeginGeneration { .. }
            | Command::ReplaceMember { .. }
            | Command::DeleteGroup { .. } => None,
        }
    }
}
