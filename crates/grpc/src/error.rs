//! Failures as a client sees them: a code, a message for people, and a `google.rpc.ErrorInfo` with
//! a reason for programs and the facts.
//!
//! The table of `quire-api` has the code and the reason of each failure, and its facts.
//! * `ABORTED`: a conflict with concurrent changes; read again and decide again.
//! * `FAILED_PRECONDITION`: impossible in the current state.
//! * `INVALID_ARGUMENT`: impossible in any state.

use std::collections::HashMap;
use std::fmt::Display;
use std::time::Duration;

use quire::events::SelectRefusal;
use quire::{CommitRefusal, Position, Reason, UnknownBlock, jobs};
use quire_access::AuthenticationError;
use quire_access::budget::BudgetRefusal;
use quire_api::{Code, FactValue, Failure, FailureFact, TimeUnit};
use tonic::Status;
use tonic_types::{ErrorDetails, StatusExt};

use crate::proto::{JobRefusal, RefusedCommit};

/// The domain of the reasons.
const DOMAIN: &str = "quire";

/// Converts an error of the database.
pub(crate) fn failed(error: quire::Error) -> Status {
    status(Failure::of_error(&error))
}

/// The status of work that may also fail in the database.
#[derive(Debug)]
pub(crate) struct CallFailure(pub(crate) Status);

impl From<quire::Error> for CallFailure {
    fn from(error: quire::Error) -> Self {
        CallFailure(failed(error))
    }
}

/// The status of a node of a cluster that does not lead.
pub(crate) fn not_leader(owner: &quire::Database) -> Status {
    failed(match owner.read(|_| ()) {
        Err(error) => error,
        Ok(_) => quire::Error::new(quire::ErrorKind::NotLeader, "this node has begun to lead; repeat the call"),
    })
}

/// Converts a refused commit of a call that is a commit of one part, without the part's index.
pub(crate) fn refused(refused: &CommitRefusal) -> Status {
    status(Failure::of_reason(&refused.reason, TimeUnit::Micros))
}

/// Converts a refused commit of parts of any models, with the part's index.
pub(crate) fn refused_in_part(refused: &CommitRefusal) -> Status {
    status(Failure::of_commit(refused, TimeUnit::Micros, "part"))
}

/// Describes a commit that was refused, as [`refused_in_part`] did. The caller adds the rest.
pub(crate) fn refused_commit(refused: &CommitRefusal) -> RefusedCommit {
    let Failure { code, message, facts } = Failure::of_commit(refused, TimeUnit::Micros, "part");
    let reason = code.reason().to_owned();
    RefusedCommit { reason, message, facts: shown(facts), ..RefusedCommit::default() }
}

/// Converts a refused commit of records, with the record's index.
pub(crate) fn refused_record(refused: &CommitRefusal) -> Status {
    let mut failure = Failure::of_commit(refused, TimeUnit::Micros, "record");
    failure.message = format!("record {}: {}", refused.part, failure.message);
    status(failure)
}

/// Converts a refused commit of commands to one graph, with the command's index.
pub(crate) fn refused_part(refused: &CommitRefusal) -> Status {
    let mut failure = Failure::of_commit(refused, TimeUnit::Micros, "command");
    failure.message = format!("command {}: {}", refused.part, failure.message);
    status(failure)
}

/// Converts the refusal of one item of a call whose other items were not refused.
pub(crate) fn refused_item(refusal: &jobs::Refusal) -> JobRefusal {
    let (job, state) = match refusal {
        jobs::Refusal::StaleLease { job, state } | jobs::Refusal::WrongState { job, state } => {
            (job.to_string(), state.name().to_owned())
        }
        jobs::Refusal::Duplicate { job } | jobs::Refusal::UnknownJob { job } => (job.to_string(), String::new()),
        _ => (String::new(), String::new()),
    };
    let Failure { code, message, facts } = Failure::of_reason(&Reason::Jobs(refusal.clone()), TimeUnit::Micros);
    JobRefusal {
        reason: code.reason().to_owned(),
        message,
        job,
        state,
        retry_after_us: retry_after_micros(refusal),
        facts: shown(facts),
    }
}

/// How long to wait before retrying a request that an overloaded queue has refused.
fn retry_after_micros(refusal: &jobs::Refusal) -> Option<u64> {
    match refusal {
        jobs::Refusal::Overloaded { retry_after_micros, .. } => Some(*retry_after_micros),
        _ => None,
    }
}

/// An invalid field of a call, which is refused, or of one of its items, which is.
#[derive(Debug)]
pub(crate) struct ItemFault {
    code: Code,
    message: String,
}

impl ItemFault {
    /// An invalid field, with a message.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        ItemFault { code: Code::Invalid, message: message.into() }
    }

    /// The same fault, with its place in front of the message.
    pub(crate) fn within(self, place: &str) -> Self {
        ItemFault { message: format!("{place}: {}", self.message), ..self }
    }

    /// An invalid part of a commit, by its index.
    pub(crate) fn in_part(self, part: usize) -> Status {
        status(Failure::new(self.code, self.message).with("part", part))
    }

    /// A number that exceeds its maximum.
    pub(crate) fn out_of_range(name: &str, number: u32, most: u32) -> Self {
        ItemFault { code: Code::OutOfRange, message: format!("{name} must be at most {most}, got {number}") }
    }
}

impl From<ItemFault> for Status {
    fn from(ItemFault { code, message }: ItemFault) -> Self {
        status(Failure::new(code, message))
    }
}

impl From<ItemFault> for JobRefusal {
    fn from(ItemFault { code, message }: ItemFault) -> Self {
        JobRefusal { reason: code.reason().to_owned(), message, ..JobRefusal::default() }
    }
}

/// An invalid field.
pub(crate) fn invalid(message: impl Into<String>) -> Status {
    status(Failure::new(Code::Invalid, message))
}

/// An invalid read of events.
pub(crate) fn select_refused(refusal: &SelectRefusal) -> Status {
    let code = match refusal {
        SelectRefusal::InvalidName(_) => Code::InvalidName,
        SelectRefusal::InvalidQuery(_) => Code::InvalidQuery,
    };
    status(Failure::new(code, refusal.to_string()))
}

/// A response that would be too large.
pub(crate) fn too_large(message: impl Into<String>) -> Status {
    status(Failure::new(Code::TooLarge, message))
}

/// A record that would be too large for any response, its partition, and the offset after it.
pub(crate) fn too_large_at(message: impl Into<String>, partition: u32, offset: u64, next_offset: u64) -> Status {
    status(unreadable_at(Code::TooLarge, message, partition, offset, next_offset))
}

/// A batch that its producer wrote unreadable, its partition, and the offset after it.
pub(crate) fn invalid_batch(message: impl Into<String>, partition: u32, offset: u64, next_offset: u64) -> Status {
    status(unreadable_at(Code::Invalid, message, partition, offset, next_offset))
}

/// A failure at an offset of a partition, with the offset where a reader continues.
fn unreadable_at(code: Code, message: impl Into<String>, partition: u32, offset: u64, next_offset: u64) -> Failure {
    let failure = Failure::new(code, message).with("partition", partition);
    failure.with("offset", offset).with("next_offset", next_offset)
}

/// An offset that is not in its partition.
pub(crate) fn offset_out_of_range(message: impl Into<String>, start: u64, next: u64) -> Status {
    status(Failure::new(Code::OffsetOutOfRange, message).with("start", start).with("next", next))
}

/// Another client took the place of a member.
pub(crate) fn member_replaced(message: impl Into<String>) -> Status {
    status(Failure::new(Code::MemberReplaced, message))
}

/// An invalid idempotency key, or one for a method that takes none.
pub(crate) fn invalid_key(message: impl Into<String>) -> Status {
    status(Failure::new(Code::InvalidIdempotencyKey, message))
}

/// A member that was removed because its client commits no pages.
pub(crate) fn member_hangs(message: impl Into<String>) -> Status {
    status(Failure::new(Code::UnknownMember, message))
}

/// A request or response without memory.
pub(crate) fn overloaded(refusal: BudgetRefusal) -> Status {
    match refusal.retry_after() {
        None => too_large(refusal.to_string()),
        Some(after) => busy(&refusal, after),
    }
}

/// What the server has no place for now.
pub(crate) fn busy(refusal: &impl Display, retry_after: Duration) -> Status {
    let after_us = u64::try_from(retry_after.as_micros()).unwrap_or(u64::MAX);
    status(Failure::new(Code::Overloaded, refusal.to_string()).with("retry_after_us", after_us))
}

/// A statement whose client did not read its pages.
pub(crate) fn unread() -> Status {
    status(Failure::new(Code::Timeout, "the client did not read the next page in time: the result is incomplete"))
}

/// A read that exceeded its steps before it found an event. The next read continues with `field`.
pub(crate) fn too_costly_so_far(error: &quire::Error, field: &'static str, position: u64) -> Status {
    let mut failure = Failure::of_error(error).with(field, position);
    failure.message += &format!("; nothing matches so far, continue with {field} = {position}");
    status(failure)
}

/// A local read of a position that this node has not published in time.
pub(crate) fn ahead_of_log(message: impl Into<String>, at: Position) -> Status {
    status(Failure::new(Code::AheadOfLog, message).with("at", at.get()))
}

/// A missing resource.
pub(crate) fn not_found(message: impl Into<String>) -> Status {
    status(Failure::new(Code::NotFound, message))
}

/// A call with a `Host` that is not a name of this server.
pub(crate) fn unknown_host(host: &str) -> Status {
    let message = format!(
        "this server has no name {host:?}: connect to its address, or add the name with `quire serve --grpc-host`"
    );
    status(Failure::new(Code::UnknownHost, message))
}

/// A call without a valid `Host`.
pub(crate) fn invalid_host() -> Status {
    status(Failure::new(Code::InvalidHost, "the call must have exactly one Host header, as HOST or HOST:PORT"))
}

/// A read at a block that the graph does not have.
pub(crate) fn unknown_block(unknown: UnknownBlock) -> Status {
    status(Failure::of_unknown_block(unknown))
}

/// A call without valid credentials.
pub(crate) fn unauthenticated(error: AuthenticationError) -> Status {
    status(Failure::new(Code::Unauthenticated, error.to_string()))
}

/// The credential of a running call is no longer accepted.
pub(crate) fn session_ended() -> Status {
    status(Failure::new(Code::Unauthenticated, "the session has ended: its credential is no longer accepted"))
}

/// A call of a page of another site.
pub(crate) fn foreign_origin() -> Status {
    let message =
        "a page of another site may not use this server: allow it with `quire serve --grpc-allow-origin ORIGIN`";
    status(Failure::new(Code::ForeignOrigin, message))
}

/// A message that did not arrive in time.
pub(crate) fn late() -> Status {
    status(Failure::new(Code::Timeout, "the message did not arrive in time: send it again"))
}

/// The server is stopping.
pub(crate) fn stopping() -> Status {
    let message = "the server is stopping: retry when it is back";
    status(Failure::new(Code::Stopping, message))
}

/// The facts by name, without those that have no value.
fn shown(facts: Vec<FailureFact>) -> HashMap<String, String> {
    let known = facts.into_iter().filter(|fact| fact.value != FactValue::Absent);
    known.map(|fact| (fact.name.to_owned(), fact.value.to_string())).collect()
}

/// Builds the status of a failure.
fn status(Failure { code, message, facts }: Failure) -> Status {
    let details = ErrorDetails::with_error_info(code.reason(), DOMAIN, shown(facts));
    Status::with_error_details(tonic::Code::from_i32(code.grpc() as i32), message, details)
}

#[cfg(test)]
mod tests {
    use quire::ErrorKind;
    use quire_api::{of_error, of_reason, samples};

    use super::*;

    /// Checks that the status has the code, the reason and the facts of the failure.
    #[track_caller]
    fn check(status: &Status, failure: &Failure) {
        assert_eq!(status.code() as i32, failure.code.grpc() as i32, "{failure:?}");
        let details = status.get_details_error_info().expect("every failure has details");
        assert_eq!((&*details.reason, &*details.domain), (failure.code.reason(), DOMAIN));
        assert_eq!(details.metadata, shown(failure.facts.clone()), "{failure:?}");
    }

    #[test]
    fn each_refusal_and_error_has_the_answer_of_the_table() {
        for reason in samples::reasons() {
            let failure = Failure::of_reason(&reason, TimeUnit::Micros);
            assert_eq!(failure.code, of_reason(&reason).code);
            if let Reason::Jobs(refusal) = &reason {
                let item = refused_item(refusal);
                assert_eq!((&*item.reason, &item.message), (failure.code.reason(), &failure.message));
                assert_eq!(item.facts, shown(failure.facts.clone()));
            }
            let of_part = CommitRefusal { part: 3, reason };
            check(&refused(&of_part), &failure);
            assert_eq!(refused(&of_part).message(), failure.message);
            check(&refused_in_part(&of_part), &failure.clone().with("part", 3_u32));
            check(&refused_record(&of_part), &failure.clone().with("record", 3_u32));
            check(&refused_part(&of_part), &failure.with("command", 3_u32));
        }
        for kind in ErrorKind::ALL {
            check(&failed(quire::Error::new(kind, "it failed")), &Failure::new(of_error(kind).code, "it failed"));
        }
    }
}
