//! Why a read gives nothing.

use core::fmt;

use quire_model::{ReadError, Sequence};

use crate::TopicId;

/// Why a partition can't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamReadError {
    /// No topic has this id.
    UnknownTopic {
        /// The id.
        topic: TopicId,
    },
    /// The topic has no such partition.
    UnknownPartition {
        /// The topic.
        topic: TopicId,
        /// The requested partition.
        partition: u32,
        /// The number of partitions, which are counted from 0.
        partitions: u32,
    },
    /// The offset is not there any more, or not yet.
    OffsetOutOfRange {
        /// The requested offset.
        from: Sequence,
        /// The first offset of the partition.
        start: Sequence,
        /// The offset after the last record.
        next: Sequence,
    },
    /// The log can't be read.
    Unreadable(ReadError),
}

impl From<ReadError> for StreamReadError {
    fn from(error: ReadError) -> Self {
        StreamReadError::Unreadable(error)
    }
}

impl fmt::Display for StreamReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StreamReadError::UnknownTopic { topic } => write!(f, "unknown topic id {topic}"),
            StreamReadError::UnknownPartition { partition, partitions, .. } => {
                write!(f, "unknown partition {partition}: the topic has {partitions} partitions, counted from 0")
            }
            StreamReadError::OffsetOutOfRange { from, start, next } => {
                write!(f, "offset {from} is out of range: the partition starts at {start}, its next offset is {next}")
            }
            StreamReadError::Unreadable(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for StreamReadError {}
