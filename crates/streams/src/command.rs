//! What may be asked of streams, and the answers. Commands borrow all that they carry.

use core::fmt;

use quire_model::{Place, Sequence, Timestamp};

use crate::wire::{Batch, Codec};
use crate::{TopicChanges, TopicSettings};

/// The id of a topic: dense, from 0, never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId(u32);

impl TopicId {
    /// The id with this number.
    pub const fn new(number: u32) -> Self {
        TopicId(number)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The id that stands for what has this number outside of streams, for the offsets of groups. No topic ever has it.
    ///
    /// # Panics
    /// When the number has more than 31 bits.
    pub const fn outside(number: u32) -> Self {
        assert!(number < OUTSIDE, "numbers of what lies outside have 31 bits");
        TopicId(OUTSIDE | number)
    }

    /// The number of what lies outside of streams; `None` for a topic's id.
    pub const fn as_outside(self) -> Option<u32> {
        if self.0 & OUTSIDE == 0 { None } else { Some(self.0 & !OUTSIDE) }
    }
}

/// The bit that topics' ids do not have.
const OUTSIDE: u32 = 1 << 31;

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of a consumer group: dense, from 0, never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(u32);

impl GroupId {
    /// The id with this number.
    pub const fn new(number: u32) -> Self {
        GroupId(number)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// The id of an idempotent producer: dense, from 0, never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerId(u64);

impl ProducerId {
    /// The id with this number.
    pub const fn new(number: u64) -> Self {
        ProducerId(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ProducerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a group's membership: it ascends with every change, and fences off who was a member before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Generation(u32);

impl Generation {
    /// The generation with this number.
    pub const fn new(number: u32) -> Self {
        Generation(number)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of a member that joined a group by a lease: dense, from 0, never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MemberId(u64);

impl MemberId {
    /// The id with this number.
    pub const fn new(number: u64) -> Self {
        MemberId(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which reading of a partition it is: it grows each time the partition gets another owner, so that a member that lost it
/// and got it back is told from the one that it was before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct OwnerEpoch(u64);

impl OwnerEpoch {
    /// The epoch with this number.
    pub const fn new(number: u64) -> Self {
        OwnerEpoch(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// A partition of a member's share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owned {
    /// The partition.
    pub partition: u32,
    /// Which reading of it this is.
    pub epoch: OwnerEpoch,
}

/// Who commits an offset, as far as it is to be held against a group's members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Committer {
    /// Nobody that is a member, and that nothing fences.
    Anyone,
    /// A member of this generation: any other than the group's current one is refused.
    Of(Generation),
    /// A member by lease: it is refused for a partition that it does not read, or that another has read in between. Its lease
    /// is renewed.
    Member {
        /// The member.
        member: MemberId,
        /// Its reading of the partition, as its share says.
        epoch: OwnerEpoch,
    },
}

/// Whose membership does not keep a group from being deleted. Who goes on as its member is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Despite {
    /// A group with members is not deleted.
    Nobody,
    /// Only a lease keeps it: for the coordinator, which alone knows whether the members that a generation began with are
    /// there still.
    Generation,
    /// It goes whoever is in it.
    Everyone,
}

/// A member of a group that keeps its place through restarts (KIP-345).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StaticMember<'c> {
    /// The name that its operator gave it.
    pub instance: &'c str,
    /// The id that it has now.
    pub member: &'c str,
}

/// How a command names a topic. The id saves looking the name up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopicRef<'c> {
    /// By its name.
    Name(&'c str),
    /// By its id.
    Id(TopicId),
    /// Something that is no topic, but is read like one by consumer groups: an event store, by its number. Groups commit
    /// offsets of its only partition, 0, under [`TopicId::outside`]; nothing else can be done with it here.
    Outside(u32),
}

/// A part of a commit.
#[derive(Debug, Clone, Copy)]
pub enum Command<'c> {
    /// Creates a topic.
    CreateTopic {
        /// Its name: 1 to 249 of `A-Z a-z 0-9 . _ -`, neither `.` nor `..`.
        name: &'c str,
        /// How many partitions it has, from 1 to [`PARTITIONS_MAX`](crate::PARTITIONS_MAX).
        partitions: u32,
        /// What is chosen about it.
        settings: TopicSettings,
    },
    /// Deletes a topic with all its records, and the offsets that groups committed in it. Its name is free again.
    DeleteTopic {
        /// The topic.
        topic: TopicRef<'c>,
    },
    /// Changes the settings of a topic.
    AlterTopic {
        /// The topic.
        topic: TopicRef<'c>,
        /// What is to be different.
        changes: TopicChanges,
    },
    /// Gives a topic more partitions. Keys are spread over all of them from then on.
    AddPartitions {
        /// The topic.
        topic: TopicRef<'c>,
        /// How many it is to have: more than now.
        partitions: u32,
    },
    /// Deletes the records of a partition before an offset. What is gone already stays gone.
    DeleteRecords {
        /// Whether records stay that a group has not read for which the topic protects them: see
        /// [`Command::ProtectUnread`]. The partition then begins at the first of them.
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
        /// Creates a topic that is not there yet, with so many partitions, when `topic` is a name. `None` refuses.
        create_partitions: Option<u32>,
    },
    /// Appends a batch to the partition that a key belongs to, of those that the topic has when the commit is decided: see
    /// [`partition_for_key`](crate::partition_for_key). Otherwise as [`Command::Produce`].
    ProduceByKey {
        /// The topic.
        topic: TopicRef<'c>,
        /// The key.
        key: &'c [u8],
        /// The records, checked before the commit.
        batch: Batch<'c>,
        /// As in [`Command::Produce`].
        create_partitions: Option<u32>,
    },
    /// Notes how far a consumer group has read a partition; the newest note counts, whatever the one before said.
    CommitOffset {
        /// The group: any text of 1 to 255 bytes. The first commit creates it.
        group: &'c str,
        /// The topic.
        topic: TopicRef<'c>,
        /// The partition, from 0.
        partition: u32,
        /// The offset of the next record to read. It need not be there (yet).
        offset: Sequence,
        /// The leader epoch of the last record that was read, when the consumer knows it.
        leader_epoch: Option<u32>,
        /// A note of the consumer, at most [`OFFSET_METADATA_BYTES_MAX`](crate::OFFSET_METADATA_BYTES_MAX) bytes.
        metadata: &'c str,
        /// Who commits it.
        by: Committer,
    },
    /// Has a topic keep what a group has not read, whatever its retention says, or no longer. A group that has committed
    /// nothing has read nothing.
    ProtectUnread {
        /// The group: any text of 1 to 255 bytes. The first protection creates it.
        group: &'c str,
        /// The topic.
        topic: TopicRef<'c>,
        /// Whether it is kept from now on.
        protects: bool,
    },
    /// Becomes a member of a group by a lease, and is given a share of a topic's partitions. Members whose lease ran out
    /// lose theirs. A generation that a coordinator began is over with it.
    JoinGroup {
        /// The group: any text of 1 to 255 bytes. The first member creates it.
        group: &'c str,
        /// The topic whose partitions are shared.
        topic: TopicRef<'c>,
        /// Whose place it takes: the member of the same name is one no longer. Empty for nobody's; at most
        /// [`MEMBER_NAME_BYTES_MAX`](crate::MEMBER_NAME_BYTES_MAX) bytes.
        name: &'c str,
        /// For how many milliseconds it is a member without a word: 1 to [`LEASE_MS_MAX`](crate::LEASE_MS_MAX).
        lease_ms: u32,
    },
    /// Says that a member is there still: its lease runs anew. Members whose lease ran out lose their shares.
    RenewMember {
        /// The group.
        group: &'c str,
        /// The topic whose partitions are shared.
        topic: TopicRef<'c>,
        /// The member.
        member: MemberId,
    },
    /// Ends a membership by lease. A member that is gone already stays gone.
    LeaveGroup {
        /// The group.
        group: &'c str,
        /// The topic whose partitions are shared.
        topic: TopicRef<'c>,
        /// The member.
        member: MemberId,
    },
    /// Forgets what a group committed for a partition.
    DeleteOffset {
        /// The group.
        group: &'c str,
        /// The topic.
        topic: TopicRef<'c>,
        /// The partition, from 0.
        partition: u32,
    },
    /// Begins a generation of a group: who commits as a member of an earlier one is refused from then on.
    BeginGeneration {
        /// The group: any text of 1 to 255 bytes. The first generation creates it.
        group: &'c str,
        /// Its number: one more than the group's current one, 1 for the first.
        generation: Generation,
        /// What the members have in common, `consumer` for consumers; at most 255 bytes.
        protocol_type: &'c str,
        /// How they share the partitions; empty without members. At most 255 bytes.
        protocol: &'c str,
        /// The members that keep their places.
        members: &'c [StaticMember<'c>],
    },
    /// Gives a static member's place to another member id, within the generation: the one that had it is fenced off.
    ReplaceMember {
        /// The group.
        group: &'c str,
        /// The group's current generation.
        generation: Generation,
        /// The place, and who has it from now on.
        member: StaticMember<'c>,
    },
    /// Deletes a group and what it committed. Its name is free again.
    DeleteGroup {
        /// The group.
        group: &'c str,
        /// Whose membership does not keep it.
        despite: Despite,
    },
}

/// The answer to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// The topic is there.
    TopicCreated(TopicCreated),
    /// The batch is in its partition.
    Produced(Produced),
    /// The group goes on from there.
    OffsetCommitted(OffsetCommitted),
    /// The topic and its records are gone.
    TopicDeleted(TopicId),
    /// The topic is as it was asked to be.
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
    /// The group is gone.
    GroupDeleted(GroupId),
    /// The topic keeps what the group has not read, or no longer.
    UnreadProtected(GroupId),
    /// It is a member.
    MemberJoined(MemberJoined),
    /// The member's lease runs anew.
    MemberRenewed(GroupId),
    /// The member is gone.
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
    /// How many partitions it has now.
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
    /// How many partitions it has.
    pub partitions: u32,
}

/// A batch that was appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Produced {
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
    /// Where it stands in the log.
    pub place: Place,
    /// Whether it was there already, sent before by its idempotent producer. Nothing was stored again.
    pub is_duplicate: bool,
    /// What the topic has embedded producers compress with.
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
