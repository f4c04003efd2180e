//! The one table from errors and refusals to Kafka's error codes.
//!
//! A code determines what the client does. After a *retriable* code it refreshes its metadata and
//! retries until its own timeout. Such codes are used for temporary failures. Every failure that
//! the client has to fix gets a code that is not retriable.

use std::fmt::Display;

use kafka_protocol::ResponseError;
use quire::streams::wire::{BatchError, RecordError};
use quire::streams::{Refusal, StreamReadError};
use quire::{ClaimRefusal, CommitRefusal, DecideError, Error, ErrorKind, Reason};
use quire_access::budget::BudgetRefusal;

/// An error code, and a message where the protocol has a field for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KafkaError {
    pub(crate) code: ResponseError,
    pub(crate) message: String,
    /// The records of the partition that are at fault, by their index, when the others are not.
    pub(crate) records: Vec<u32>,
}

impl KafkaError {
    pub(crate) fn new(code: ResponseError, message: impl Display) -> Self {
        KafkaError { code, message: message.to_string(), records: Vec::new() }
    }

    /// Whether a read exceeded the steps of its request. No read fails with this code otherwise.
    pub(crate) fn is_too_costly(&self) -> bool {
        self.code == ResponseError::PolicyViolation
    }

    pub(crate) fn unknown_topic() -> Self {
        KafkaError::new(ResponseError::UnknownTopicOrPartition, "unknown topic")
    }

    pub(crate) fn unknown_topic_id() -> Self {
        KafkaError::new(ResponseError::UnknownTopicId, "unknown topic id")
    }

    pub(crate) fn unknown_partition(partition: i32) -> Self {
        KafkaError::new(ResponseError::UnknownTopicOrPartition, format!("unknown partition {partition}"))
    }

    pub(crate) fn unknown_epoch(epoch: i32) -> Self {
        KafkaError::new(ResponseError::UnknownLeaderEpoch, format!("unknown leader epoch {epoch}"))
    }

    pub(crate) fn negative_offset(offset: i64) -> Self {
        KafkaError::new(ResponseError::OffsetOutOfRange, format!("offset {offset} out of range"))
    }
}

impl From<Error> for KafkaError {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            ErrorKind::TooLarge => ResponseError::MessageTooLarge,
            ErrorKind::Invalid => ResponseError::InvalidRequest,
            ErrorKind::NotFound => ResponseError::UnknownTopicOrPartition,
            // A client must not repeat a request that is too costly.
            ErrorKind::TooCostly => ResponseError::PolicyViolation,
            // The client that cancelled its request sees no response.
            ErrorKind::Cancelled => ResponseError::NetworkException,
            // The disk is full, damaged or failing. An operator can repair it while clients retry.
            ErrorKind::NoSpace | ErrorKind::Damaged | ErrorKind::Failed | ErrorKind::Io => {
                ResponseError::KafkaStorageError
            }
            // A producer refreshes its metadata and sends the batch again; its sequence numbers
            // make the batch count once.
            ErrorKind::Unsettled => ResponseError::NotLeaderOrFollower,
            // Errors of opening a database, and of converting a refusal into an error. No front end
            // does either.
            ErrorKind::NotADatabase | ErrorKind::InUse | ErrorKind::NewerFormat | ErrorKind::Refused => {
                ResponseError::UnknownServerError
            }
            _ => ResponseError::UnknownServerError,
        };
        KafkaError::new(code, error.for_clients())
    }
}

impl From<CommitRefusal> for KafkaError {
    fn from(refused: CommitRefusal) -> Self {
        match refused.reason {
            Reason::Streams(refusal) => refusal.into(),
            // This protocol writes to topics only.
            Reason::Events(_) | Reason::Jobs(_) | Reason::Graph(_) => {
                KafkaError::new(ResponseError::UnknownServerError, refused)
            }
        }
    }
}

impl From<BudgetRefusal> for KafkaError {
    fn from(refusal: BudgetRefusal) -> Self {
        // Clients repeat the request.
        KafkaError::new(ResponseError::RequestTimedOut, refusal)
    }
}

impl From<DecideError<Refusal>> for KafkaError {
    fn from(denied: DecideError<Refusal>) -> Self {
        match denied {
            DecideError::Refused { refusal, .. } => refusal.into(),
            DecideError::Unreadable(error) => Error::from(error).into(),
        }
    }
}

impl From<Refusal> for KafkaError {
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
            Refusal::InvalidTimestamp { .. } => ResponseError::InvalidTimestamp,
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
            Refusal::Claim(ClaimRefusal::NameTaken { .. }) => ResponseError::TopicAlreadyExists,
            Refusal::Claim(ClaimRefusal::OverLimit { .. }) => ResponseError::PolicyViolation,
        };
        KafkaError::new(code, refusal)
    }
}

impl From<StreamReadError> for KafkaError {
    fn from(error: StreamReadError) -> Self {
        let code = match &error {
            StreamReadError::Unreadable(error) if error.is_too_costly() => ResponseError::PolicyViolation,
            StreamReadError::UnknownTopic { .. } => ResponseError::UnknownTopicOrPartition,
            StreamReadError::UnknownPartition { .. } => ResponseError::UnknownTopicOrPartition,
            StreamReadError::OffsetOutOfRange { .. } => ResponseError::OffsetOutOfRange,
            StreamReadError::Unreadable(_) => ResponseError::KafkaStorageError,
        };
        KafkaError::new(code, error)
    }
}

impl From<BatchError> for KafkaError {
    fn from(error: BatchError) -> Self {
        let code = match &error {
            // Bytes damaged in transit are worth sending again; a wrong format is not.
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
        KafkaError::new(code, error)
    }
}

impl From<RecordError> for KafkaError {
    fn from(error: RecordError) -> Self {
        KafkaError::new(ResponseError::InvalidRecord, error)
    }
}
