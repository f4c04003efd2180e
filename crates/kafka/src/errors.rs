//! Errors and refusals as Kafka's error codes.
//!
//! The table of `quire-api` has the codes of refusals and of errors of the database. A code
//! determines what the client does. After a *retriable* code it refreshes its metadata and
//! retries until its own timeout. Such codes are used for temporary failures. Every failure that
//! the client has to fix gets a code that is not retriable.

use std::fmt::Display;

use kafka_protocol::ResponseError;
use quire::streams::wire::{BatchError, RecordError};
use quire::streams::{Refusal, StreamReadError};
use quire::{CommitRefusal, DecideError, Error, NotPermitted, PermissionRefusal, Reason};
use quire_access::budget::BudgetRefusal;
use quire_api::{Row, of_error, of_permission, of_streams, of_system};

/// An error code, and a message where the protocol has a field for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KafkaError {
    pub(crate) code: ResponseError,
    pub(crate) message: String,
    /// The indexes of the invalid records, when the other records of the batch are valid.
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

    pub(crate) fn fenced_epoch(epoch: i32, current: i32) -> Self {
        let message = format!("fenced leader epoch {epoch}: the current epoch is {current}");
        KafkaError::new(ResponseError::FencedLeaderEpoch, message)
    }

    pub(crate) fn negative_offset(offset: i64) -> Self {
        KafkaError::new(ResponseError::OffsetOutOfRange, format!("offset {offset} out of range"))
    }
}

/// The code of a row of the table.
fn code_of(row: Row) -> ResponseError {
    let known = row.kafka.and_then(|code| ResponseError::try_from_code(code.number()));
    known.unwrap_or(ResponseError::UnknownServerError)
}

impl From<Error> for KafkaError {
    fn from(error: Error) -> Self {
        match error.refusal().map(|refused| &refused.reason) {
            Some(Reason::NotPermitted(refused)) => return KafkaError::from(refused.refusal.clone()),
            Some(Reason::System(refusal)) => return KafkaError::new(code_of(of_system(refusal)), refusal),
            _ => {}
        }
        KafkaError::new(code_of(of_error(error.kind())), error.for_clients())
    }
}

impl From<CommitRefusal> for KafkaError {
    fn from(refused: CommitRefusal) -> Self {
        match refused.reason {
            Reason::Streams(refusal) => refusal.into(),
            Reason::NotPermitted(NotPermitted { refusal, .. }) => refusal.into(),
            Reason::System(refusal) => KafkaError::new(code_of(of_system(&refusal)), refusal),
            // This protocol writes to topics only.
            Reason::Events(_) | Reason::Jobs(_) | Reason::Graph(_) | Reason::Idempotency(_) => {
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
        KafkaError::new(code_of(of_streams(&refusal)), refusal)
    }
}

impl From<PermissionRefusal> for KafkaError {
    fn from(refusal: PermissionRefusal) -> Self {
        KafkaError::new(code_of(of_permission(&refusal)), refusal)
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

#[cfg(test)]
mod tests {
    use quire::ErrorKind;
    use quire_api::samples;

    use super::*;

    #[test]
    fn each_refusal_and_error_has_the_answer_of_the_table() {
        for refusal in samples::streams() {
            let (code, message) = (of_streams(&refusal).kafka.expect("Kafka clients meet it"), refusal.to_string());
            let error = KafkaError::from(CommitRefusal { part: 0, reason: Reason::Streams(refusal) });
            assert_eq!((error.code.code(), error.message), (code.number(), message));
        }
        for refusal in samples::system() {
            let code = of_system(&refusal).kafka.map_or(-1, |code| code.number());
            let message = refusal.to_string();
            let error = KafkaError::from(CommitRefusal { part: 0, reason: Reason::System(refusal) });
            assert_eq!((error.code.code(), error.message), (code, message));
        }
        for kind in ErrorKind::ALL {
            let error = KafkaError::from(Error::new(kind, "it failed"));
            assert_eq!(Some(error.code.code()), of_error(kind).kafka.map(|code| code.number()), "{kind:?}");
        }
    }

    #[test]
    fn each_code_of_the_table_is_known_by_its_name() {
        for code in samples::rows().into_iter().filter_map(|row| row.kafka) {
            let known = ResponseError::try_from_code(code.number()).expect("a code of the protocol");
            let name = format!("{known:?}").to_ascii_uppercase();
            assert_eq!(name, code.name().replace('_', ""), "{code:?}");
        }
    }
}
