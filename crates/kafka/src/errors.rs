//! Our errors and refusals as Kafka's error codes: the one table.
//!
//! What matters is what a client does with a code. A *retriable* one makes it ask for metadata and try again until its
//! own timeout; it stands for what may pass. Everything that the client has to change gets a code that is not retriable.

use std::fmt::Display;

use kafka_protocol::ResponseError;
use quire::streams::wire::{BatchError, RecordError};
use quire::streams::{Refusal, StreamReadError};
use quire::{Denied, Error, ErrorKind, Reason, Refused};

/// An error code, and the words for it where the protocol has room for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: ResponseError,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(code: ResponseError, message: impl Display) -> Self {
        Failure { code, message: message.to_string() }
    }

    pub(crate) fn unknown_topic() -> Self {
        Failure::new(ResponseError::UnknownTopicOrPartition, "there is no such topic")
    }

    pub(crate) fn unknown_topic_id() -> Self {
        Failure::new(ResponseError::UnknownTopicId, "unknown topic id")
    }

    pub(crate) fn unknown_partition(partition: i32) -> Self {
        Failure::new(ResponseError::UnknownTopicOrPartition, format!("unknown partition {partition}"))
    }

    pub(crate) fn unknown_epoch(epoch: i32) -> Self {
        Failure::new(ResponseError::UnknownLeaderEpoch, format!("no partition was ever led in epoch {epoch}"))
    }

    pub(crate) fn negative_offset(offset: i64) -> Self {
        Failure::new(ResponseError::OffsetOutOfRange, format!("no record has the offset {offset}"))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            ErrorKind::TooLarge => ResponseError::MessageTooLarge,
            ErrorKind::Invalid => ResponseError::InvalidRequest,
            ErrorKind::NotFound => ResponseError::UnknownTopicOrPartition,
            // The disk is full, damaged or failing: an operator can mend it while clients retry.
            ErrorKind::NoSpace | ErrorKind::Damaged | ErrorKind::Failed | ErrorKind::Io => {
                ResponseError::KafkaStorageError
            }
            // A producer refreshes its metadata and sends the batch again; its sequence numbers make the batch count once.
            ErrorKind::Unsettled => ResponseError::NotLeaderOrFollower,
            // Errors of opening a database, and of turning a refusal into an error, which no front end does.
            ErrorKind::NotADatabase | ErrorKind::InUse | ErrorKind::NewerFormat | ErrorKind::Refused => {
                ResponseError::UnknownServerError
            }
            _ => ResponseError::UnknownServerError,
        };
        Failure::new(code, error)
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        match refused.reason {
            Reason::Streams(refusal) => refusal.into(),
            // Only topics are written to through this protocol.
            Reason::Events(_) | Reason::Jobs(_) | Reason::Graph(_) => {
                Failure::new(ResponseError::UnknownServerError, refused)
            }
        }
    }
}

impl From<Denied<Refusal>> for Failure {
    fn from(denied: Denied<Refusal>) -> Self {
        match denied {
            Denied::Refused { refusal, .. } => refusal.into(),
            Denied::Unreadable(error) => Failure::new(ResponseError::KafkaStorageError, error),
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let code = match &refusal {
            Refusal::InvalidTopicName(_) => ResponseError::InvalidTopicException,
            Refusal::InvalidGroupName(_) => ResponseError::InvalidGroupId,
            Refusal::InvalidPartitionCount { .. } => ResponseError::InvalidPartitions,
            Refusal::TopicExists { .. } => ResponseError::TopicAlreadyExists,
            Refusal::UnknownTopic { .. } => ResponseError::UnknownTopicOrPartition,
            Refusal::UnknownTopicId { .. } => ResponseError::UnknownTopicId,
            Refusal::UnknownPartition { .. } => ResponseError::UnknownTopicOrPartition,
            Refusal::MissingKey { .. } => ResponseError::InvalidRecord,
            Refusal::UnreadKeys => ResponseError::InvalidRecord,
            Refusal::ControlBatch => ResponseError::InvalidRecord,
            Refusal::TransactionalBatch => ResponseError::InvalidTxnState,
            Refusal::MetadataTooLong { .. } => ResponseError::OffsetMetadataTooLarge,
            Refusal::UnknownGroup { .. } => ResponseError::GroupIdNotFound,
            Refusal::TooFewPartitions { .. } => ResponseError::InvalidPartitions,
            Refusal::InvalidSettings { .. } => ResponseError::InvalidConfig,
            Refusal::BeyondEnd { .. } => ResponseError::OffsetOutOfRange,
            Refusal::BatchTooLarge { .. } => ResponseError::MessageTooLarge,
            Refusal::UnknownProducer { .. } => ResponseError::UnknownProducerId,
            Refusal::InvalidProducer { .. } => ResponseError::InvalidRecord,
            Refusal::FencedProducer { .. } => ResponseError::InvalidProducerEpoch,
            Refusal::OutOfOrderSequence { .. } => ResponseError::OutOfOrderSequenceNumber,
            Refusal::StaleGeneration { .. } => ResponseError::IllegalGeneration,
            Refusal::InvalidMembers | Refusal::InvalidLease { .. } => ResponseError::InvalidRequest,
            Refusal::UnknownMember { .. } | Refusal::NotOwner { .. } => ResponseError::UnknownMemberId,
            Refusal::GroupHasMembers { .. } => ResponseError::NonEmptyGroup,
        };
        Failure::new(code, refusal)
    }
}

impl From<StreamReadError> for Failure {
    fn from(error: StreamReadError) -> Self {
        let code = match &error {
            StreamReadError::UnknownTopic { .. } => ResponseError::UnknownTopicOrPartition,
            StreamReadError::UnknownPartition { .. } => ResponseError::UnknownTopicOrPartition,
            StreamReadError::OffsetOutOfRange { .. } => ResponseError::OffsetOutOfRange,
            StreamReadError::Unreadable(_) => ResponseError::KafkaStorageError,
        };
        Failure::new(code, error)
    }
}

impl From<BatchError> for Failure {
    fn from(error: BatchError) -> Self {
        let code = match &error {
            // Bytes that were damaged on their way are worth sending again; a wrong form is not.
            BatchError::Checksum { .. } => ResponseError::CorruptMessage,
            BatchError::Magic { .. } => ResponseError::UnsupportedForMessageFormat,
            BatchError::Codec { .. } => ResponseError::UnsupportedCompressionType,
            BatchError::AppendTime => ResponseError::InvalidTimestamp,
            BatchError::TooShort { .. }
            | BatchError::Length { .. }
            | BatchError::DeleteHorizon
            | BatchError::Count { .. }
            | BatchError::TooFewBytes { .. } => ResponseError::InvalidRecord,
        };
        Failure::new(code, error)
    }
}

impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Self {
        Failure::new(ResponseError::InvalidRecord, error)
    }
}
