//! Why a command is refused, with the facts it met, and the limits that a command must keep.

use alloc::string::String;
use core::fmt;

use quire_model::{Sequence, Stop};

use crate::{Generation, MemberId, NameProblem, ProducerId, TopicId};

/// The most partitions a topic may have.
pub const PARTITIONS_MAX: u32 = 100_000;

/// The most bytes that the note beside a committed offset may have: Kafka's `offset.metadata.max.bytes`.
pub const OFFSET_METADATA_BYTES_MAX: usize = 4096;

/// The most bytes of a name that the members of a group have in common: of its protocol, its type, a member.
pub const MEMBER_NAME_BYTES_MAX: usize = 255;

/// The most static members of a group, and the most members that share a topic by leases.
pub const STATIC_MEMBERS_MAX: usize = 10_000;

/// The longest lease of a member of a group, in milliseconds: an hour.
pub const LEASE_MS_MAX: u32 = 3_600_000;

/// Why a command can't be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A topic can't have this name.
    InvalidTopicName(NameProblem),
    /// A group can't have this name.
    InvalidGroupName(NameProblem),
    /// A topic can't have so many partitions.
    InvalidPartitionCount {
        /// How many were asked for.
        partitions: u32,
    },
    /// A topic of this name is there already.
    TopicExists {
        /// Its id.
        topic: TopicId,
        /// How many partitions it has.
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
        /// The partition that was asked for.
        partition: u32,
        /// How many there are, counted from 0.
        partitions: u32,
    },
    /// No group has this name.
    UnknownGroup {
        /// The name.
        name: String,
    },
    /// A topic does not lose partitions, nor is it asked for those that it has.
    TooFewPartitions {
        /// How many were asked for.
        partitions: u32,
        /// How many it has.
        current: u32,
    },
    /// A topic can't be set to take no batch.
    InvalidSettings {
        /// Which setting.
        setting: &'static str,
    },
    /// The records to be deleted are not all there yet.
    BeyondEnd {
        /// The first offset that was to be kept.
        before: Sequence,
        /// The offset that the next record gets.
        next: Sequence,
    },
    /// The batch is larger than its topic takes.
    BatchTooLarge {
        /// How many bytes it has.
        bytes: usize,
        /// How many it may have.
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
    /// A protocol or a member can't have so long a name, or a group so many static members.
    InvalidMembers,
    /// A member can't have so short or so long a lease.
    InvalidLease {
        /// The lease that was asked for.
        lease_ms: u32,
    },
    /// The member left, its lease ran out and somebody noticed, or another took its place.
    UnknownMember {
        /// The member.
        member: MemberId,
    },
    /// Another member reads the partition, or has read it since the one that commits did.
    NotOwner {
        /// The partition.
        partition: u32,
        /// Who was to commit in it.
        member: MemberId,
    },
    /// The group has members, or may have.
    GroupHasMembers {
        /// How many have a lease.
        leases: usize,
        /// The generation that a coordinator began for members of its own, whether or not they are there still.
        generation: Option<Generation>,
    },
    /// A record of a topic that compacts has a key.
    MissingKey {
        /// Which record of the batch has none, from 0.
        record: u32,
    },
    /// The topic compacts, and whoever asks has not read the keys of a compressed batch yet ([`Batch::noting_keys`](crate::wire::Batch::noting_keys)).
    /// A database reads them and asks again.
    UnreadKeys,
    /// Markers are for brokers to write, not for producers.
    ControlBatch,
    /// Transactions are not offered.
    TransactionalBatch,
    /// The note beside the offset is too long.
    MetadataTooLong {
        /// How many bytes it has.
        bytes: usize,
    },
}

impl From<Refusal> for Stop<Refusal> {
    fn from(refusal: Refusal) -> Self {
        Stop::Refused(refusal)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::InvalidTopicName(problem) => write!(f, "no topic can have this name: {problem}"),
            Refusal::InvalidGroupName(problem) => write!(f, "no consumer group can have this name: {problem}"),
            Refusal::InvalidPartitionCount { partitions } => {
                write!(f, "a topic has 1 to {PARTITIONS_MAX} partitions, not {partitions}")
            }
            Refusal::TopicExists { partitions, .. } => {
                write!(f, "the topic exists already (partitions: {partitions})")
            }
            Refusal::UnknownTopic { name } => write!(f, "there is no topic {name:?}"),
            Refusal::UnknownTopicId { topic } => write!(f, "there is no topic with id {topic}"),
            Refusal::UnknownPartition { partition, partitions, .. } => {
                write!(f, "the topic has no partition {partition} (partitions: {partitions}, counted from 0)")
            }
            Refusal::UnknownGroup { name } => write!(f, "there is no consumer group {name:?}"),
            Refusal::TooFewPartitions { partitions, current } => {
                write!(f, "the topic has {current} partitions already, and can't be given {partitions}")
            }
            Refusal::InvalidSettings { setting } => write!(f, "{setting} must be at least 1"),
            Refusal::BeyondEnd { before, next } => {
                write!(f, "the partition ends at offset {next}, and can't begin at {before}")
            }
            Refusal::BatchTooLarge { bytes, bytes_max } => {
                write!(f, "the topic takes record batches of at most {bytes_max} bytes, not {bytes}")
            }
            Refusal::UnknownProducer { producer } => write!(f, "no producer was given the id {producer} here"),
            Refusal::InvalidProducer { producer, epoch, sequence } => {
                write!(f, "producer {producer} can't have the epoch {epoch} and the sequence {sequence}")
            }
            Refusal::FencedProducer { producer, epoch, current } => {
                write!(f, "producer {producer} writes with epoch {current} now, and no more with {epoch}")
            }
            Refusal::OutOfOrderSequence { producer, expected, sequence } => {
                write!(f, "the next record of producer {producer} has the sequence {expected}, not {sequence}")
            }
            Refusal::StaleGeneration { generation, current } => {
                write!(f, "the group's generation is {current}, and {generation} was named")
            }
            Refusal::InvalidMembers => write!(
                f,
                "a protocol or member has a name of at most {MEMBER_NAME_BYTES_MAX} bytes, and a group at most \
                 {STATIC_MEMBERS_MAX} static members"
            ),
            Refusal::InvalidLease { lease_ms } => {
                write!(f, "a member's lease has 1 to {LEASE_MS_MAX} milliseconds, not {lease_ms}")
            }
            Refusal::UnknownMember { member } => write!(f, "member {member} is none of the group: it joins anew"),
            Refusal::NotOwner { partition, member } => {
                write!(
                    f,
                    "partition {partition} is not read by member {member} of the group any more, or was read by another in between"
                )
            }
            Refusal::GroupHasMembers { leases, generation: None } => {
                write!(f, "the group has {leases} members, whose leases run")
            }
            Refusal::GroupHasMembers { generation: Some(generation), .. } => {
                write!(f, "the group's generation {generation} began with members, who may be there still")
            }
            Refusal::MissingKey { record } => {
                write!(f, "the topic is compacted by key, and record {record} of the batch has none")
            }
            Refusal::UnreadKeys => {
                write!(f, "the topic is compacted by key, and the keys of the compressed batch were not read")
            }
            Refusal::ControlBatch => write!(f, "producers can't write control batches"),
            Refusal::TransactionalBatch => write!(f, "transactional batches are not supported"),
            Refusal::MetadataTooLong { bytes } => {
                write!(f, "the metadata of an offset has at most {OFFSET_METADATA_BYTES_MAX} bytes, not {bytes}")
            }
        }
    }
}

impl core::error::Error for Refusal {}
