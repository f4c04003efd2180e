//! Why a command is refused, with the facts it met, and the limits that a command must keep.

use alloc::string::String;
use core::fmt;

use crate::{NameProblem, TopicId};

/// The most partitions a topic may have.
pub const PARTITIONS_MAX: u32 = 100_000;

/// The most bytes that the note beside a committed offset may have: Kafka's `offset.metadata.max.bytes`.
pub const OFFSET_METADATA_BYTES_MAX: usize = 4096;

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

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::InvalidTopicName(problem) => write!(f, "no topic can have this name: {problem}"),
            Refusal::InvalidGroupName(problem) => write!(f, "no consumer group can have this name: {problem}"),
            Refusal::InvalidPartitionCount { partitions } => {
                write!(f, "a topic has 1 to {PARTITIONS_MAX} partitions, not {partitions}")
            }
            Refusal::TopicExists { topic, partitions } => {
                write!(f, "the topic exists already (id {topic}, partitions: {partitions})")
            }
            Refusal::UnknownTopic { name } => write!(f, "there is no topic {name:?}"),
            Refusal::UnknownTopicId { topic } => write!(f, "there is no topic with id {topic}"),
            Refusal::UnknownPartition { topic, partition, partitions } => {
                write!(f, "topic {topic} has {partitions} partitions, and none with number {partition}")
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
