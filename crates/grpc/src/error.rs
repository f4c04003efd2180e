//! Failures as a client sees them: a code, a message for people, and a `google.rpc.ErrorInfo` with
//! a reason for programs and the facts.
//!
//! This is the one table from failures to codes and reasons: errors of the database in
//! [`of_error`], refusals in [`of_refusal`], invalid requests in the other functions.
//! * `ABORTED`: a conflict with concurrent changes; read again and decide again.
//! * `FAILED_PRECONDITION`: impossible in the current state.
//! * `INVALID_ARGUMENT`: impossible in any state.

use std::collections::HashMap;

use quire::events::SelectRefusal;
use quire::{ClaimRefusal, CommitRefusal, ErrorKind, Reason, events, graph, jobs, streams};
use quire_access::budget::BudgetRefusal;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::proto::JobRefusal;

/// The domain of the reasons.
const DOMAIN: &str = "quire";

/// A code, and the reason for programs.
type CodeReason = (Code, &'static str);

/// The facts of an error, by name.
type ErrorFacts = Vec<(&'static str, String)>;

/// Converts an error of the database.
pub(crate) fn failed(error: quire::Error) -> Status {
    status(of_error(error.kind()), error.for_clients(), Vec::new())
}

/// Converts a refused commit of a call that is a commit of one part, without the part's index.
pub(crate) fn refused(refused: &CommitRefusal) -> Status {
    status(of_refusal(&refused.reason), refused.reason.to_string(), facts(&refused.reason))
}

/// Converts a refused commit of several parts, with the part's index.
pub(crate) fn refused_part(refused: &CommitRefusal) -> Status {
    let mut facts = facts(&refused.reason);
    facts.push(("command", refused.part.to_string()));
    let message = format!("command {}: {}", refused.part, refused.reason);
    status(of_refusal(&refused.reason), message, facts)
}

/// Converts the refusal of one item of a call whose other items were not refused.
pub(crate) fn refused_item(refusal: &jobs::Refusal) -> JobRefusal {
    let (_, reason) = of_jobs(refusal);
    let (job, state) = match refusal {
        jobs::Refusal::StaleLease { job, state } | jobs::Refusal::WrongState { job, state } => {
            (job.to_string(), state.name().to_owned())
        }
        jobs::Refusal::Duplicate { job } | jobs::Refusal::UnknownJob { job } => (job.to_string(), String::new()),
        _ => (String::new(), String::new()),
    };
    JobRefusal {
        reason: reason.to_owned(),
        message: refusal.to_string(),
        job,
        state,
        retry_after_us: retry_after_micros(refusal),
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
    reason: &'static str,
    message: String,
}

impl ItemFault {
    /// An invalid field, with a message.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        ItemFault { reason: "INVALID", message: message.into() }
    }

    /// A number that exceeds its maximum.
    pub(crate) fn out_of_range(name: &str, number: u32, most: u32) -> Self {
        ItemFault { reason: "OUT_OF_RANGE", message: format!("{name} must be at most {most}, got {number}") }
    }
}

impl From<ItemFault> for Status {
    fn from(ItemFault { reason, message }: ItemFault) -> Self {
        status((Code::InvalidArgument, reason), message, Vec::new())
    }
}

impl From<ItemFault> for JobRefusal {
    fn from(ItemFault { reason, message }: ItemFault) -> Self {
        JobRefusal { reason: reason.to_owned(), message, ..JobRefusal::default() }
    }
}

/// An invalid field.
pub(crate) fn invalid(message: impl Into<String>) -> Status {
    status((Code::InvalidArgument, "INVALID"), message, Vec::new())
}

/// An invalid read of events.
pub(crate) fn select_refused(refusal: &SelectRefusal) -> Status {
    let reason = match refusal {
        SelectRefusal::InvalidName(_) => "INVALID_NAME",
        SelectRefusal::InvalidQuery(_) => "INVALID_QUERY",
    };
    status((Code::InvalidArgument, reason), refusal.to_string(), Vec::new())
}

/// A response that would be too large.
pub(crate) fn too_large(message: impl Into<String>) -> Status {
    status(of_error(ErrorKind::TooLarge), message, Vec::new())
}

/// A request or response without memory.
pub(crate) fn overloaded(refusal: BudgetRefusal) -> Status {
    match refusal.retry_after() {
        None => too_large(refusal.to_string()),
        Some(after) => {
            let facts = vec![("retry_after_us", after.as_micros().to_string())];
            status(of_error(ErrorKind::Overloaded), refusal.to_string(), facts)
        }
    }
}

/// A read that exceeded its steps before it found an event. The next read continues with `field`.
pub(crate) fn too_costly_so_far(error: &quire::Error, field: &'static str, position: u64) -> Status {
    let message = format!("{}; nothing matches so far, continue with {field} = {position}", error.for_clients());
    status(of_error(error.kind()), message, vec![(field, position.to_string())])
}

/// A missing resource.
pub(crate) fn not_found(message: impl Into<String>) -> Status {
    status(of_error(ErrorKind::NotFound), message, Vec::new())
}

/// A call of a page of another site.
pub(crate) fn foreign_origin() -> Status {
    let message = "a page of another site may not use this server";
    status((Code::PermissionDenied, "FOREIGN_ORIGIN"), message, Vec::new())
}

/// A message that did not arrive in time.
pub(crate) fn late() -> Status {
    status((Code::DeadlineExceeded, "LATE"), "the message did not arrive in time: send it again", Vec::new())
}

/// The server is stopping.
pub(crate) fn stopping() -> Status {
    let message = "the server is stopping: retry when it is back";
    status((Code::Unavailable, "STOPPING"), message, Vec::new())
}

fn status((code, reason): CodeReason, message: impl Into<String>, facts: ErrorFacts) -> Status {
    let facts: HashMap<String, String> = facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Status::with_error_details(code, message, ErrorDetails::with_error_info(reason, DOMAIN, facts))
}

/// Errors of the database.
fn of_error(kind: ErrorKind) -> CodeReason {
    match kind {
        ErrorKind::Invalid => (Code::InvalidArgument, "INVALID"),
        ErrorKind::NotFound => (Code::NotFound, "NOT_FOUND"),
        ErrorKind::Gone => (Code::OutOfRange, "GONE"),
        ErrorKind::Refused => (Code::FailedPrecondition, "REFUSED"),
        ErrorKind::Overloaded => (Code::ResourceExhausted, "OVERLOADED"),
        ErrorKind::TooCostly => (Code::ResourceExhausted, "TOO_COSTLY"),
        ErrorKind::Cancelled => (Code::Cancelled, "CANCELLED"),
        ErrorKind::TooLarge => (Code::OutOfRange, "TOO_LARGE"),
        ErrorKind::ReadOnly => (Code::FailedPrecondition, "READ_ONLY"),
        ErrorKind::NoSpace => (Code::ResourceExhausted, "NO_SPACE"),
        // Not UNAVAILABLE, after which clients repeat a call by themselves.
        ErrorKind::Unsettled => (Code::Aborted, "UNSETTLED"),
        ErrorKind::Failed => (Code::Unavailable, "FAILED"),
        ErrorKind::Damaged => (Code::DataLoss, "DAMAGED"),
        // The other kinds come from opening a database, and a server's database is open.
        _ => (Code::Internal, "IO"),
    }
}

/// Refusals, by the model that refuses.
fn of_refusal(reason: &Reason) -> CodeReason {
    match reason {
        Reason::Events(refusal) => of_events(refusal),
        // No call is a command on a topic: those belong to Kafka.
        Reason::Streams(streams::Refusal::Claim(refusal)) => of_claim(refusal),
        Reason::Streams(_) => (Code::FailedPrecondition, "REFUSED"),
        Reason::Jobs(refusal) => of_jobs(refusal),
        Reason::Graph(refusal) => of_graph(refusal),
    }
}

/// Refusals of names and limits that the models share.
fn of_claim(refusal: &ClaimRefusal) -> CodeReason {
    match refusal {
        ClaimRefusal::NameTaken { .. } => (Code::AlreadyExists, "NAME_TAKEN"),
        ClaimRefusal::OverLimit { .. } => (Code::ResourceExhausted, "LIMIT_EXCEEDED"),
    }
}

fn of_events(refusal: &events::Refusal) -> CodeReason {
    use events::Refusal;
    match refusal {
        Refusal::ConditionFailed { .. } => (Code::Aborted, "CONDITION_FAILED"),
        Refusal::AfterAhead { .. } => (Code::FailedPrecondition, "AFTER_AHEAD"),
        Refusal::TooCostly { .. } => of_error(ErrorKind::TooCostly),
        Refusal::DuplicateEvent { .. } => (Code::AlreadyExists, "DUPLICATE_EVENT"),
        Refusal::RepeatedId(_) => (Code::InvalidArgument, "REPEATED_ID"),
        Refusal::NothingAsked => (Code::InvalidArgument, "NOTHING_ASKED"),
        Refusal::TooManyEvents { .. } => (Code::InvalidArgument, "TOO_MANY_EVENTS"),
        Refusal::TooManyConditions { .. } => (Code::InvalidArgument, "TOO_MANY_CONDITIONS"),
        Refusal::InvalidName(_) => (Code::InvalidArgument, "INVALID_NAME"),
        Refusal::InvalidEvent { .. } => (Code::InvalidArgument, "INVALID_EVENT"),
        Refusal::InvalidQuery { .. } => (Code::InvalidArgument, "INVALID_QUERY"),
        Refusal::UpstreamBehind { .. } => (Code::AlreadyExists, "UPSTREAM_BEHIND"),
        Refusal::InvalidSource(_) => (Code::InvalidArgument, "INVALID_NAME"),
        Refusal::TooManySources => (Code::ResourceExhausted, "TOO_MANY_SOURCES"),
        Refusal::InvalidSubscriptionName(_) | Refusal::InvalidProjectionName(_) => {
            (Code::InvalidArgument, "INVALID_NAME")
        }
        Refusal::InvalidSubscriptionQuery(_) => (Code::InvalidArgument, "INVALID_QUERY"),
        Refusal::InvalidGroupBy(_) => (Code::InvalidArgument, "INVALID_GROUP_BY"),
        Refusal::NoAttempts => (Code::InvalidArgument, "NO_ATTEMPTS"),
        Refusal::TooManySubscriptions => (Code::ResourceExhausted, "TOO_MANY_SUBSCRIPTIONS"),
        Refusal::UnknownStore => (Code::NotFound, "UNKNOWN_STORE"),
        Refusal::UnknownSubscription => (Code::NotFound, "UNKNOWN_SUBSCRIPTION"),
        Refusal::SubscriptionOfAnotherStore => (Code::AlreadyExists, "SUBSCRIPTION_OF_ANOTHER_STORE"),
        Refusal::SubscriptionMoved { .. } => (Code::Aborted, "SUBSCRIPTION_MOVED"),
        Refusal::AheadOfStore { .. } => (Code::FailedPrecondition, "AHEAD_OF_STORE"),
        Refusal::InvalidTag(_) => (Code::InvalidArgument, "INVALID_TAG"),
        Refusal::TooManyForgotten => (Code::ResourceExhausted, "TOO_MANY_FORGOTTEN"),
        Refusal::TooManyProjections => (Code::ResourceExhausted, "TOO_MANY_PROJECTIONS"),
        Refusal::UnknownProjection => (Code::NotFound, "UNKNOWN_PROJECTION"),
        Refusal::ProjectionMoved { .. } => (Code::Aborted, "PROJECTION_MOVED"),
        Refusal::Claim(refusal) => of_claim(refusal),
    }
}

fn of_jobs(refusal: &jobs::Refusal) -> CodeReason {
    use jobs::Refusal;
    match refusal {
        Refusal::InvalidName { .. } => (Code::InvalidArgument, "INVALID_NAME"),
        Refusal::StaleLease { .. } => (Code::FailedPrecondition, "STALE_LEASE"),
        Refusal::UnknownJob { .. } => (Code::NotFound, "UNKNOWN_JOB"),
        Refusal::UnknownQueue { .. } => (Code::NotFound, "UNKNOWN_QUEUE"),
        Refusal::WrongState { .. } => (Code::FailedPrecondition, "WRONG_STATE"),
        Refusal::Duplicate { .. } => (Code::AlreadyExists, "DUPLICATE"),
        Refusal::QueueDraining { .. } => (Code::FailedPrecondition, "QUEUE_DRAINING"),
        Refusal::TooFewAttempts { .. } => (Code::FailedPrecondition, "TOO_FEW_ATTEMPTS"),
        Refusal::TooManyActive { .. } => (Code::FailedPrecondition, "TOO_MANY_ACTIVE"),
        Refusal::Overloaded { .. } => (Code::ResourceExhausted, "OVERLOADED"),
        Refusal::InvalidWeights => (Code::InvalidArgument, "INVALID_WEIGHTS"),
        Refusal::NestedEach => (Code::InvalidArgument, "NESTED_EACH"),
        Refusal::OutOfRange { .. } => (Code::InvalidArgument, "OUT_OF_RANGE"),
        Refusal::ControlCharacter { .. } => (Code::InvalidArgument, "INVALID_NAME"),
        Refusal::Claim(refusal) => of_claim(refusal),
    }
}

fn of_graph(refusal: &graph::Refusal) -> CodeReason {
    use graph::Refusal;
    match refusal {
        Refusal::VersionMismatch { .. } => (Code::Aborted, "VERSION_MISMATCH"),
        Refusal::MissingBlock { .. } => (Code::FailedPrecondition, "MISSING_BLOCK"),
        Refusal::TooManyEdges { .. } => (Code::FailedPrecondition, "TOO_MANY_EDGES"),
        Refusal::AheadOfLog { .. } => (Code::FailedPrecondition, "AHEAD_OF_LOG"),
        Refusal::InvalidName { .. } => (Code::InvalidArgument, "INVALID_NAME"),
        Refusal::NotJson { .. } => (Code::InvalidArgument, "NOT_JSON"),
        Refusal::OverLimit { .. } => (Code::InvalidArgument, "OVER_LIMIT"),
        Refusal::Claim(refusal) => of_claim(refusal),
    }
}

/// The facts that a program may use besides the reason.
fn facts(reason: &Reason) -> ErrorFacts {
    match reason {
        Reason::Events(refusal) => events_facts(refusal),
        Reason::Jobs(jobs::Refusal::Duplicate { job }) => vec![("job", job.to_string())],
        Reason::Jobs(jobs::Refusal::StaleLease { job, state } | jobs::Refusal::WrongState { job, state }) => {
            vec![("job", job.to_string()), ("state", state.name().to_owned())]
        }
        Reason::Graph(graph::Refusal::VersionMismatch { block, name, expected, found }) => {
            let versions = [("expected", expected.get().to_string()), ("found", found.get().to_string())];
            block_facts(block, name).chain(versions).collect()
        }
        Reason::Graph(
            graph::Refusal::MissingBlock { block, name, .. } | graph::Refusal::TooManyEdges { block, name, .. },
        ) => block_facts(block, name).collect(),
        Reason::Jobs(jobs::Refusal::Claim(refusal))
        | Reason::Graph(graph::Refusal::Claim(refusal))
        | Reason::Streams(streams::Refusal::Claim(refusal)) => claim_facts(refusal),
        Reason::Streams(_) | Reason::Jobs(_) | Reason::Graph(_) => Vec::new(),
    }
}

fn claim_facts(refusal: &ClaimRefusal) -> ErrorFacts {
    match refusal {
        ClaimRefusal::NameTaken { topic, kind, name } => {
            vec![("topic", topic.to_string()), ("kind", kind.to_string()), ("name", name.to_string())]
        }
        ClaimRefusal::OverLimit { limit, count, more, count_max } => vec![
            ("limit", limit.setting().to_owned()),
            ("count", count.to_string()),
            ("more", more.to_string()),
            ("most", count_max.to_string()),
        ],
    }
}

/// A block, and its name when the command gave it.
fn block_facts(block: &graph::BlockId, name: &Option<String>) -> impl Iterator<Item = (&'static str, String)> {
    [("block", block.to_string())].into_iter().chain(name.clone().map(|name| ("name", name)))
}

fn events_facts(refusal: &events::Refusal) -> ErrorFacts {
    use events::Refusal;
    match refusal {
        Refusal::ConditionFailed { condition, position } => {
            let met = position.map(|position| ("position", position.to_string()));
            [("condition", condition.to_string())].into_iter().chain(met).collect()
        }
        Refusal::AfterAhead { condition, after, head } => {
            vec![("condition", condition.to_string()), ("after", after.to_string()), ("head", head.to_string())]
        }
        Refusal::TooCostly { condition, steps_max } => {
            vec![("condition", condition.to_string()), ("most", steps_max.to_string())]
        }
        Refusal::DuplicateEvent { event, id, position } => {
            vec![("event", event.to_string()), ("id", id.to_string()), ("position", position.to_string())]
        }
        Refusal::RepeatedId(id) => vec![("id", id.to_string())],
        Refusal::InvalidEvent { event, .. } => vec![("event", event.to_string())],
        Refusal::InvalidQuery { condition, .. } => vec![("condition", condition.to_string())],
        Refusal::TooManyEvents { events } => vec![("given", events.to_string())],
        Refusal::TooManyConditions { conditions } => vec![("given", conditions.to_string())],
        Refusal::UpstreamBehind { position, known } => {
            vec![("position", position.to_string()), ("known", known.to_string())]
        }
        Refusal::SubscriptionMoved { position } | Refusal::ProjectionMoved { position } => {
            vec![("position", position.to_string())]
        }
        Refusal::AheadOfStore { position, head } => {
            vec![("position", position.to_string()), ("head", head.to_string())]
        }
        Refusal::Claim(refusal) => claim_facts(refusal),
        Refusal::NothingAsked
        | Refusal::InvalidName(_)
        | Refusal::InvalidSource(_)
        | Refusal::TooManySources
        | Refusal::InvalidSubscriptionName(_)
        | Refusal::InvalidSubscriptionQuery(_)
        | Refusal::InvalidGroupBy(_)
        | Refusal::NoAttempts
        | Refusal::TooManySubscriptions
        | Refusal::UnknownStore
        | Refusal::UnknownSubscription
        | Refusal::SubscriptionOfAnotherStore
        | Refusal::InvalidProjectionName(_)
        | Refusal::InvalidTag(_)
        | Refusal::TooManyForgotten
        | Refusal::TooManyProjections
        | Refusal::UnknownProjection => Vec::new(),
    }
}
