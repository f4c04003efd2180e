//! Failures as a client sees them: a status, a stable code, a message for people, and the facts.
//!
//! This is the one table from failures to statuses and codes: errors of the database in
//! [`of_error`], refusals in [`of_refusal`], invalid requests in the constructors. 409 is a
//! conflict with existing data; 400 is invalid whatever the data.

use axum::Json;
use axum::http::header::{ACCEPT, ACCEPT_ENCODING, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use quire::events::SelectRefusal;
use quire::{ClaimRefusal, ErrorKind, Reason};
use quire_access::budget::BudgetRefusal;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::json::Misread;

/// A status, and the code for programs.
pub(crate) type Code = (StatusCode, &'static str);

/// A request that failed.
#[derive(Debug, Serialize)]
pub(crate) struct Problem {
    #[serde(skip)]
    status: StatusCode,
    code: &'static str,
    message: String,
    /// Facts for programs beyond the code.
    #[serde(flatten)]
    facts: Map<String, Value>,
}

impl Problem {
    pub(crate) fn new((status, code): Code, message: impl Into<String>) -> Self {
        Problem { status, code, message: message.into(), facts: Map::new() }
    }

    /// The message, for people.
    pub(crate) fn into_message(self) -> String {
        self.message
    }

    /// Whether a request or response exceeds a limit.
    pub(crate) fn is_too_large(&self) -> bool {
        (self.status, self.code) == of_error(ErrorKind::TooLarge)
    }

    #[cfg(test)]
    pub(crate) fn code(&self) -> &'static str {
        self.code
    }

    /// Adds a fact.
    pub(crate) fn fact(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.facts.insert(name.to_owned(), value.into());
        self
    }

    /// Adds facts.
    pub(crate) fn facts(mut self, facts: Map<String, Value>) -> Self {
        self.facts.extend(facts);
        self
    }

    /// Removes the index of the part, for a request that commits a single part.
    pub(crate) fn of_one(mut self) -> Self {
        self.facts.remove("part");
        self
    }

    /// Adds the parameter with which the next read continues, where this one found nothing.
    pub(crate) fn continuing_at(mut self, parameter: &str, position: u64) -> Self {
        self.message += &format!("; nothing matches so far, continue with {parameter}={position}");
        self.fact(parameter, position)
    }

    /// Adds the line of a file.
    pub(crate) fn at_line(mut self, line: u64) -> Self {
        self.message = format!("line {line}: {}", self.message);
        self.fact("line", line)
    }

    /// An invalid part, parameter or name.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Problem::new((StatusCode::BAD_REQUEST, "invalid"), message)
    }

    /// A body that is not JSON, or has invalid fields.
    pub(crate) fn json(misread: &Misread) -> Self {
        let Misread { is_malformed, field, message, line, column } = misread;
        let code = if *is_malformed { "malformed_json" } else { "invalid" };
        let of = field.as_ref().map_or(String::new(), |field| format!("{field}: "));
        let message = format!("{of}{message} at line {line} column {column}");
        let problem = Problem::new((StatusCode::BAD_REQUEST, code), message);
        let problem = problem.fact("line", *line).fact("column", *column);
        match field {
            Some(field) => problem.fact("field", field.as_str()),
            None => problem,
        }
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Problem::new(of_error(ErrorKind::TooLarge), message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Problem::new(of_error(ErrorKind::NotFound), message)
    }

    pub(crate) fn offset_out_of_range(message: impl Into<String>) -> Self {
        Problem::new((StatusCode::NOT_FOUND, "offset_out_of_range"), message)
    }

    pub(crate) fn timeout(message: impl Into<String>) -> Self {
        Problem::new((StatusCode::REQUEST_TIMEOUT, "timeout"), message)
    }

    pub(crate) fn media_type(kind: &str) -> Self {
        let given = if kind.is_empty() { "no Content-Type".to_owned() } else { format!("Content-Type {kind:?}") };
        let message = format!("the body has {given}: send it as application/json");
        Problem::new((StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type"), message)
    }

    pub(crate) fn invalid_host(message: impl Into<String>) -> Self {
        Problem::new((StatusCode::BAD_REQUEST, "invalid_host"), message)
    }

    pub(crate) fn unknown_host(host: &str) -> Self {
        let message = format!(
            "this server has no name {host:?}: connect to its address, or add the name with `quire serve --http-host`"
        );
        Problem::new((StatusCode::MISDIRECTED_REQUEST, "unknown_host"), message)
    }

    pub(crate) fn foreign_origin(message: impl Into<String>) -> Self {
        Problem::new((StatusCode::FORBIDDEN, "foreign_origin"), message)
    }

    pub(crate) fn encoded(encoding: &str) -> Self {
        let message = format!("the body has Content-Encoding {encoding}: send it without encoding");
        Problem::new((StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_encoding"), message)
    }

    pub(crate) fn stalled(message: impl Into<String>) -> Self {
        Problem::new((StatusCode::SERVICE_UNAVAILABLE, "stalled"), message)
    }

    /// The server can't take writes now.
    pub(crate) fn not_ready(code: &'static str, message: impl Into<String>) -> Self {
        Problem::new((StatusCode::SERVICE_UNAVAILABLE, code), message)
    }

    /// The same problem with the status of a server that can't take writes.
    pub(crate) fn unavailable(self) -> Self {
        Problem { status: StatusCode::SERVICE_UNAVAILABLE, ..self }
    }

    pub(crate) fn too_many_connections() -> Self {
        let message = "the server has too many connections: close unused ones, or retry later";
        Problem::new((StatusCode::SERVICE_UNAVAILABLE, "too_many_connections"), message)
    }

    /// The client is gone: no one reads this.
    pub(crate) fn cancelled() -> Self {
        Problem::new((StatusCode::REQUEST_TIMEOUT, "cancelled"), "the client disconnected")
    }

    pub(crate) fn stopping() -> Self {
        Problem::new((StatusCode::SERVICE_UNAVAILABLE, "stopping"), "the server is stopping: retry when it is back")
    }

    /// An invalid read.
    pub(crate) fn select(refusal: &SelectRefusal) -> Self {
        let code = match refusal {
            SelectRefusal::InvalidName(_) => "invalid_name",
            SelectRefusal::InvalidQuery(_) => "invalid_query",
        };
        Problem::new((StatusCode::BAD_REQUEST, code), refusal.to_string())
    }

    pub(crate) fn unknown_route() -> Self {
        Problem::new((StatusCode::NOT_FOUND, "unknown_route"), "unknown path")
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "method not allowed: see the Allow header";
        Problem::new((StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"), message)
    }
}

impl From<BudgetRefusal> for Problem {
    fn from(refusal: BudgetRefusal) -> Self {
        match refusal.retry_after() {
            None => Problem::too_large(refusal.to_string()),
            Some(after) => {
                let after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
                let overloaded = (StatusCode::SERVICE_UNAVAILABLE, "overloaded");
                Problem::new(overloaded, refusal.to_string()).fact("retry_after_ms", after_ms)
            }
        }
    }
}

impl From<quire::Error> for Problem {
    fn from(error: quire::Error) -> Self {
        Problem::new(of_error(error.kind()), error.for_clients())
    }
}

/// Errors of the database.
fn of_error(kind: ErrorKind) -> Code {
    match kind {
        ErrorKind::Invalid => (StatusCode::BAD_REQUEST, "invalid"),
        ErrorKind::NotFound => (StatusCode::NOT_FOUND, "not_found"),
        ErrorKind::Gone => (StatusCode::GONE, "gone"),
        ErrorKind::Refused => (StatusCode::CONFLICT, "refused"),
        ErrorKind::Overloaded => (StatusCode::TOO_MANY_REQUESTS, "overloaded"),
        ErrorKind::TooCostly => (StatusCode::UNPROCESSABLE_ENTITY, "too_costly"),
        // The client that cancelled its request sees no response.
        ErrorKind::Cancelled => (StatusCode::SERVICE_UNAVAILABLE, "cancelled"),
        ErrorKind::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
        ErrorKind::ReadOnly => (StatusCode::FORBIDDEN, "read_only"),
        ErrorKind::NoSpace => (StatusCode::INSUFFICIENT_STORAGE, "no_space"),
        ErrorKind::Unsettled => (StatusCode::SERVICE_UNAVAILABLE, "unsettled"),
        ErrorKind::Failed => (StatusCode::SERVICE_UNAVAILABLE, "failed"),
        ErrorKind::Damaged => (StatusCode::INTERNAL_SERVER_ERROR, "damaged"),
        // The other kinds come from opening a database, and a server's database is open.
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "io"),
    }
}

/// Refusals, by the model that refuses.
pub(crate) fn of_refusal(reason: &Reason) -> Code {
    use quire::{events, graph, jobs, streams};
    const INVALID: StatusCode = StatusCode::BAD_REQUEST;
    const REFUSED: StatusCode = StatusCode::CONFLICT;
    match reason {
        Reason::Events(refusal) => match refusal {
            events::Refusal::ConditionFailed { .. } => (REFUSED, "condition_failed"),
            events::Refusal::AfterAhead { .. } => (REFUSED, "after_ahead"),
            events::Refusal::TooCostly { .. } => of_error(ErrorKind::TooCostly),
            events::Refusal::DuplicateEvent { .. } => (REFUSED, "duplicate_event"),
            events::Refusal::RepeatedId(_) => (INVALID, "repeated_id"),
            events::Refusal::NothingAsked => (INVALID, "nothing_asked"),
            events::Refusal::TooManyEvents { .. } => (INVALID, "too_many_events"),
            events::Refusal::TooManyConditions { .. } => (INVALID, "too_many_conditions"),
            events::Refusal::InvalidName(_) => (INVALID, "invalid_name"),
            events::Refusal::InvalidEvent { .. } => (INVALID, "invalid_event"),
            events::Refusal::InvalidQuery { .. } => (INVALID, "invalid_query"),
            events::Refusal::UpstreamBehind { .. } => (REFUSED, "upstream_behind"),
            events::Refusal::InvalidSource(_) => (INVALID, "invalid_name"),
            events::Refusal::TooManySources => (REFUSED, "too_many_sources"),
            events::Refusal::InvalidSubscriptionName(_) | events::Refusal::InvalidProjectionName(_) => {
                (INVALID, "invalid_name")
            }
            events::Refusal::InvalidSubscriptionQuery(_) => (INVALID, "invalid_query"),
            events::Refusal::InvalidGroupBy(_) => (INVALID, "invalid_group_by"),
            events::Refusal::NoAttempts => (INVALID, "no_attempts"),
            events::Refusal::TooManySubscriptions => (REFUSED, "too_many_subscriptions"),
            events::Refusal::UnknownStore => (REFUSED, "unknown_store"),
            events::Refusal::UnknownSubscription => (REFUSED, "unknown_subscription"),
            events::Refusal::SubscriptionOfAnotherStore => (REFUSED, "subscription_of_another_store"),
            events::Refusal::SubscriptionMoved { .. } => (REFUSED, "subscription_moved"),
            events::Refusal::AheadOfStore { .. } => (REFUSED, "ahead_of_store"),
            events::Refusal::InvalidTag(_) => (INVALID, "invalid_tag"),
            events::Refusal::TooManyForgotten => (REFUSED, "too_many_forgotten"),
            events::Refusal::TooManyProjections => (REFUSED, "too_many_projections"),
            events::Refusal::UnknownProjection => (REFUSED, "unknown_projection"),
            events::Refusal::ProjectionMoved { .. } => (REFUSED, "projection_moved"),
            events::Refusal::Claim(refusal) => of_claim(refusal),
        },
        Reason::Streams(refusal) => match refusal {
            streams::Refusal::InvalidTopicName(_) | streams::Refusal::InvalidGroupName(_) => (INVALID, "invalid_name"),
            streams::Refusal::InvalidPartitionCount { .. } => (INVALID, "invalid_partition_count"),
            streams::Refusal::TopicExists { .. } => (REFUSED, "topic_exists"),
            streams::Refusal::UnknownTopic { .. } | streams::Refusal::UnknownTopicId { .. } => {
                (REFUSED, "unknown_topic")
            }
            streams::Refusal::UnknownPartition { .. } => (REFUSED, "unknown_partition"),
            // The database resolves idempotency keys itself and returns the first result.
            streams::Refusal::MissingKey { .. } | streams::Refusal::UnreadKeys => (INVALID, "missing_key"),
            streams::Refusal::InvalidTimestamp { .. } => (INVALID, "invalid_timestamp"),
            streams::Refusal::ControlBatch => (INVALID, "control_batch"),
            streams::Refusal::TransactionalBatch => (INVALID, "transactional_batch"),
            streams::Refusal::MetadataTooLong { .. } => (INVALID, "metadata_too_long"),
            streams::Refusal::UnknownGroup { .. } => (REFUSED, "unknown_group"),
            streams::Refusal::TooFewPartitions { .. } => (REFUSED, "too_few_partitions"),
            streams::Refusal::InvalidSettings { .. } => (INVALID, "invalid_settings"),
            streams::Refusal::BeyondEnd { .. } => (REFUSED, "beyond_end"),
            streams::Refusal::BatchTooLarge { .. } => (REFUSED, "batch_too_large"),
            streams::Refusal::UnknownProducer { .. } => (REFUSED, "unknown_producer"),
            streams::Refusal::InvalidProducer { .. } => (INVALID, "invalid_producer"),
            streams::Refusal::FencedProducer { .. } => (REFUSED, "fenced_producer"),
            streams::Refusal::OutOfOrderSequence { .. } => (REFUSED, "out_of_order_sequence"),
            streams::Refusal::StaleGeneration { .. } => (REFUSED, "stale_generation"),
            streams::Refusal::InvalidMembers => (INVALID, "invalid_members"),
            streams::Refusal::InvalidLease { .. } => (INVALID, "invalid_lease"),
            streams::Refusal::UnknownMember { .. } => (REFUSED, "unknown_member"),
            streams::Refusal::NotOwner { .. } => (REFUSED, "not_owner"),
            streams::Refusal::GroupHasMembers { .. } => (REFUSED, "group_has_members"),
            streams::Refusal::Claim(refusal) => of_claim(refusal),
        },
        Reason::Jobs(refusal) => match refusal {
            jobs::Refusal::InvalidName { .. } => (INVALID, "invalid_name"),
            jobs::Refusal::StaleLease { .. } => (REFUSED, "stale_lease"),
            jobs::Refusal::UnknownJob { .. } => (REFUSED, "unknown_job"),
            jobs::Refusal::UnknownQueue { .. } => (REFUSED, "unknown_queue"),
            jobs::Refusal::WrongState { .. } => (REFUSED, "wrong_state"),
            jobs::Refusal::Duplicate { .. } => (REFUSED, "duplicate"),
            jobs::Refusal::QueueDraining { .. } => (REFUSED, "queue_draining"),
            jobs::Refusal::TooFewAttempts { .. } => (REFUSED, "too_few_attempts"),
            jobs::Refusal::TooManyActive { .. } => (REFUSED, "too_many_active"),
            jobs::Refusal::Overloaded { .. } => (StatusCode::TOO_MANY_REQUESTS, "overloaded"),
            jobs::Refusal::InvalidWeights => (INVALID, "invalid_weights"),
            jobs::Refusal::NestedEach => (INVALID, "nested_each"),
            jobs::Refusal::OutOfRange { .. } => (INVALID, "out_of_range"),
            jobs::Refusal::ControlCharacter { .. } => (INVALID, "invalid_name"),
            jobs::Refusal::Claim(refusal) => of_claim(refusal),
        },
        Reason::Graph(refusal) => match refusal {
            graph::Refusal::VersionMismatch { .. } => (REFUSED, "version_mismatch"),
            graph::Refusal::MissingBlock { .. } => (REFUSED, "missing_block"),
            graph::Refusal::TooManyEdges { .. } => (REFUSED, "too_many_edges"),
            graph::Refusal::AheadOfLog { .. } => (REFUSED, "ahead_of_log"),
            graph::Refusal::InvalidName { .. } => (INVALID, "invalid_name"),
            graph::Refusal::NotJson { .. } => (INVALID, "not_json"),
            graph::Refusal::OverLimit { .. } => (INVALID, "over_limit"),
            graph::Refusal::Claim(refusal) => of_claim(refusal),
        },
    }
}

/// Refusals of names and limits that the models share.
fn of_claim(refusal: &ClaimRefusal) -> Code {
    match refusal {
        ClaimRefusal::NameTaken { .. } => (StatusCode::CONFLICT, "name_taken"),
        ClaimRefusal::OverLimit { .. } => (StatusCode::CONFLICT, "limit_exceeded"),
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        // In whole seconds, as the header requires; the fact is precise.
        let retry_s = self.facts.get("retry_after_ms").and_then(Value::as_u64).map(|ms| ms.div_ceil(1_000));
        // Names the header, so that a client knows which of its headers failed (RFC 9110, 15.5.16).
        let accepted = match self.code {
            "unsupported_encoding" => Some((ACCEPT_ENCODING, "identity")),
            "unsupported_media_type" => Some((ACCEPT, "application/json")),
            _ => None,
        };
        let mut response = (self.status, Json(self)).into_response();
        if let Some((name, value)) = accepted {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        if let Some(seconds) = retry_s {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
