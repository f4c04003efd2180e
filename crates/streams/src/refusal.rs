//! Reasons to refuse a command, with the facts that conflict, and the limits on commands.

use alloc::string::String;
use core::fmt;

use quire_model::{ClaimRefusal, Sequence, Stop};

use crate::{Generation, MemberId, ProducerId, TopicId, TopicNameProblem};

/// The most partitions a topic may have.
pub const PARTITIONS_MAX: u32 = 100_000;

/// The largest metadata of a committed offset, in bytes: Kafka's `offset.metadata.max.bytes`.
pub const OFFSET_METADATA_BYTES_MAX: usize = 4096;

/// The most bytes of a name that the members of a group have in common: of its protocol, its type,
/// a member.
pub const MEMBER_NAME_BYTES_MAX: usize = 255;

/// The most static members of a group, and the most members that share a topic by leases.
pub const STATIC_MEMBERS_MAX: usize = 10_000;

/// The longest lease of a member of a group, in milliseconds: an hour.
pub const LEASE_MS_MAX: u32 = 3_600_000;

/// Why a command is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A topic can't have this name.
    InvalidTopicName(TopicNameProblem),
    /// A group can't have this name.
    InvalidGroupName(TopicNameProblem),
    /// A topic cannot have this number of partitions.
    InvalidPartitionCount {
        /// The requested number of partitions.
        partitions: u32,
    },
    /// A topic with this name already exists.
    TopicExists {
        /// Its id.
        topic: TopicId,
        /// The topic's number of partitions.
        partitions: u32,
    },
    /// No topic has this name.
    UnknownTopic {
        /// The name.
        name: String,
    },
    /// No topic has this id.
    UnknownTopicId {
        /// The id.
        topic: TopicId,
    },
    /// The topic has no such partition.
    UnknownPartition {
        /// The topic.
        topic: TopicId,
        /// The requested partition.
        partition: u32,
        /// The topic's number of partitions, which are counted from 0.
        partitions: u32,
    },
    /// No group has this name.
    UnknownGroup {
        /// The name.
        name: String,
    },
    /// The new number of partitions does not exceed the current one. A topic never loses
    /// partitions.
    TooFewPartitions {
        /// The requested number of partitions.
        partitions: u32,
        /// The current number of partitions.
        current: u32,
    },
    /// The largest batch of a topic can't be 0 bytes.
    InvalidSettings {
        /// The name of the setting.
        setting: &'static str,
    },
    /// The offset before which to delete lies after the end of the partition.
    BeyondEnd {
        /// The first offset to keep.
        before: Sequence,
        /// The offset that the next record gets.
        next: Sequence,
    },
    /// The batch is larger than its topic takes.
    BatchTooLarge {
        /// The length, in bytes.
        bytes: usize,
        /// The longest allowed length, in bytes.
        bytes_max: u32,
    },
    /// The producer was given no such id here.
    UnknownProducer {
        /// The id.
        producer: ProducerId,
    },
    /// A producer that has an id has an epoch and counts its records, all from 0.
    InvalidProducer {
        /// The id.
        producer: i64,
        /// The epoch.
        epoch: i16,
        /// The number of the batch's first record.
        sequence: i32,
    },
    /// A later epoch of the same producer writes to the partition.
    FencedProducer {
        /// The producer.
        producer: ProducerId,
        /// The epoch of the batch.
        epoch: u16,
        /// The epoch of the partition.
        current: u16,
    },
    /// A batch before this one is missing, or was sent again too late.
    OutOfOrderSequence {
        /// The producer.
        producer: ProducerId,
        /// The number that its next record has.
        expected: u32,
        /// The number of the batch's first record.
        sequence: u32,
    },
    /// The consumer is no member of the group any more, or another coordinator leads the group.
    StaleGeneration {
        /// The generation that was named.
        generation: Generation,
        /// The group's current one.
        current: Generation,
    },
    /// The name of a protocol or a member is too long or has a control character, or the group has
    /// too many static members.
    InvalidMembers,
    /// The lease of a member is too short or too long.
    InvalidLease {
        /// The requested lease.
        lease_ms: u32,
    },
    /// The member left, its lease expired and a command noticed, or another member took its slot.
    UnknownMember {
        /// The member.
        member: MemberId,
    },
    /// Another member owns the partition, or owned it after the committing member did.
    NotOwner {
        /// The partition.
        partition: u32,
        /// The member.
        member: MemberId,
    },
    /// The group has members, or may have.
    GroupHasMembers {
        /// The number of members with a lease.
        leases: usize,
        /// The generation that a coordinator began for its members, whether or not they still
        /// exist.
        generation: Option<Generation>,
    },
    /// A record of a topic that compacts has a key.
    MissingKey {
        /// The index of the record without a key in the batch, from 0.
        record: u32,
    },
    /// The topic compacts, and the keys of a compressed batch are unknown
    /// ([`Batch::noting_keys`](crate::wire::Batch::noting_keys)). A database reads the keys and
    /// repeats the command.
    UnreadKeys,
    /// A record's time is further from that of its commit than its topic allows.
    InvalidTimestamp {
        /// The record's time, in milliseconds since 1970.
        timestamp_ms: i64,
        /// The time of the commit.
        now_ms: i64,
        /// The topic's limit for earlier times, if the time is too early.
        before_max_ms: Option<u64>,
        /// The topic's limit for later times, if the time is too late.
        after_max_ms: Option<u64>,
    },
    /// Markers are for brokers to write, not for producers.
    ControlBatch,
    /// Transactions are not offered.
    TransactionalBatch,
    /// The metadata of the offset is too long.
    MetadataTooLong {
        /// The length, in bytes.
        bytes: usize,
    },
    /// Another object has the topic name, or the database has as many as it may.
    Claim(ClaimRefusal),
}

impl From<ClaimRefusal> for Refusal {
    fn from(refusal: ClaimRefusal) -> Self {
        Refusal::Claim(refusal)
    }
}

impl From<Refusal> for Stop<Refusal> {
    fn from(refusal: Refusal) -> Self {
        Stop::Refused(refusal)
    }
}

impl Refusal {
    /// Whether a member is refused because it has lost the partition or its membership. It reads
    /// its share again then.
    pub fn is_lost_share(&self) -> bool {
        matches!(self, Refusal::NotOwner { .. } | Refusal::UnknownMember { .. } | Refusal::UnknownGroup { .. })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::InvalidTopicName(problem) => write!(f, "invalid topic name: {problem}"),
            Refusal::InvalidGroupName(problem) => write!(f, "invalid consumer group name: {problem}"),
            Refusal::InvalidPartitionCount { partitions } => {
                write!(f, "the number of partitions must be between 1 and {PARTITIONS_MAX}, got {partitions}")
            }
            Refusal::TopicExists { partitions, .. } => {
                write!(f, "the topic already exists, with {partitions} partitions")
            }
            Refusal::UnknownTopic { name } => write!(f, "unknown topic {name:?}"),
            Refusal::UnknownTopicId { topic } => write!(f, "unknown topic id {topic}"),
            Refusal::UnknownPartition { partition, partitions, .. } => {
                write!(f, "unknown partition {partition}: the topic has {partitions} partitions, counted from 0")
            }
            Refusal::UnknownGroup { name } => write!(f, "unknown consumer group {name:?}"),
            Refusal::TooFewPartitions { partitions, current } => {
                write!(f, "the number of partitions must exceed the current {current}, got {partitions}")
            }
            Refusal::InvalidSettings { setting } => write!(f, "{setting} must be at least 1"),
            Refusal::BeyondEnd { before, next } => {
                write!(f, "offset {before} is invalid: the partition ends at {next}")
            }
            Refusal::BatchTooLarge { bytes, bytes_max } => {
                write!(f, "batch_bytes_max of the topic is exceeded: the limit is {bytes_max}, got {bytes}")
            }
            Refusal::UnknownProducer { producer } => {
                write!(f, "unknown producer {producer}: initialize the producer again")
            }
            Refusal::InvalidProducer { producer, epoch, sequence } => {
                write!(f, "invalid batch of producer {producer}: epoch {epoch}, sequence {sequence}")
            }
            Refusal::FencedProducer { producer, epoch, current } => {
                write!(f, "producer {producer} is fenced: epoch {epoch} is stale, current epoch is {current}")
            }
            Refusal::OutOfOrderSequence { producer, expected, sequence } => {
                write!(f, "out-of-order sequence of producer {producer}: expected {expected}, got {sequence}")
            }
            Refusal::StaleGeneration { generation, current } => {
                write!(f, "generation {generation} of the group is stale, current generation is {current}")
            }
            Refusal::InvalidMembers => write!(
                f,
                "invalid members: the name of a protocol or member may have {MEMBER_NAME_BYTES_MAX} bytes and no control \
                 character, and a group {STATIC_MEMBERS_MAX} static members"
            ),
            Refusal::InvalidLease { lease_ms } => {
                write!(f, "lease_ms must be between 1 and {LEASE_MS_MAX}, got {lease_ms}")
            }
            Refusal::UnknownMember { member } => write!(f, "unknown member {member}: rejoin the group"),
            Refusal::NotOwner { partition, member } => {
                write!(
                    f,
                    "member {member} is fenced: another member owns partition {partition}, or owned it in between; rejoin the group"
                )
            }
            Refusal::GroupHasMembers { leases, generation: None } => {
                write!(f, "the group has {leases} members with a running lease: stop them first")
            }
            Refusal::GroupHasMembers { generation: Some(generation), .. } => {
                write!(f, "the group may have members of generation {generation}: stop them first")
            }
            Refusal::MissingKey { record } => {
                write!(f, "invalid batch: record {record} has no key, and the topic is compacted by key")
            }
            Refusal::UnreadKeys => {
                write!(f, "invalid batch: it is compressed, its keys were not read, and the topic is compacted by key")
            }
            Refusal::InvalidTimestamp { timestamp_ms, now_ms, before_max_ms, after_max_ms } => {
                let (setting, most) = match (before_max_ms, after_max_ms) {
                    (Some(most), _) => ("timestamp_before_max_ms", most),
                    (None, after) => ("timestamp_after_max_ms", after.as_ref().unwrap_or(&0)),
                };
                write!(
                    f,
                    "invalid timestamp {timestamp_ms}: the topic's {setting} is {most}, and the current time is {now_ms} ms since 1970"
                )
            }
            Refusal::ControlBatch => write!(f, "invalid batch: producers cannot write control batches"),
            Refusal::TransactionalBatch => write!(f, "invalid batch: transactional batches are not supported"),
            Refusal::MetadataTooLong { bytes } => {
                write!(f, "metadata of an offset exceeds {OFFSET_METADATA_BYTES_MAX} bytes, got {bytes}")
            }
            Refusal::Claim(refusal) => refusal.fmt(f),
        }
    }
}

impl core::error::Error for Refusal {}
