//! What may be asked of streams, and the answers. Commands borrow all that they carry.

use core::fmt;

use quire_model::{Place, Sequence, Timestamp};

use crate::wire::Batch;

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
}

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

/// How a command names a topic. The id saves looking the name up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopicRef<'c> {
    /// By its name.
    Name(&'c str),
    /// By its id.
    Id(TopicId),
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
    },
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
