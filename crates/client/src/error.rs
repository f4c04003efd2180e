//! The error of a call.

use std::fmt;
use std::time::Duration;

use quire_api::Code;
use quire_api::reply::ProblemReply;
use serde_json::{Map, Value};

/// What kind of failure an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// The server answered with a problem.
    Problem,
    /// There was no whole answer. The server may have done what was asked.
    Unanswered,
    /// The answer is not that of a Quire server.
    Foreign,
    /// The client cannot send the request, for example because the URL is invalid.
    Invalid,
}

/// Why a call failed.
///
/// ```no_run
/// use quire_client::{Client, Code};
/// use quire_client::request::{AppendPart, CommitRequest, ConditionRequest, ItemRequest, QueryRequest};
///
/// let client = Client::builder("http://127.0.0.1:7070").build()?;
/// let query = QueryRequest::of(ItemRequest::any().tag("user:ada"));
/// let append = AppendPart::new("users").condition(ConditionRequest::fail_if_events_match(query));
/// match client.commit(&CommitRequest::of(append)) {
///     Err(error) if error.code() == Some(Code::ConditionFailed) => println!("event {}", error.facts()["position"]),
///     other => drop(other?),
/// }
/// # Ok::<(), quire_client::ClientError>(())
/// ```
#[derive(Debug, Clone)]
pub struct ClientError {
    kind: FailureKind,
    code: Option<Code>,
    status: u16,
    message: String,
    facts: Map<String, Value>,
    request_id: Option<String>,
    retry_after: Option<Duration>,
}

impl ClientError {
    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        let (message, facts) = (message.into(), Map::new());
        ClientError { kind, code: None, status: 0, message, facts, request_id: None, retry_after: None }
    }

    /// The error of a response with this status.
    pub(crate) fn of_response(status: u16, body: &[u8], retry_after: Option<Duration>) -> Self {
        match serde_json::from_slice::<ProblemReply<'static>>(body) {
            Ok(problem) => ClientError {
                kind: FailureKind::Problem,
                code: Code::from_name(&problem.code),
                status,
                message: problem.detail.into_owned(),
                facts: problem.facts.into_owned(),
                request_id: problem.request_id,
                retry_after,
            },
            Err(_) => ClientError {
                status,
                retry_after,
                ..ClientError::new(FailureKind::Foreign, format!("status {status} without a problem of Quire"))
            },
        }
    }

    /// The kind.
    pub fn kind(&self) -> FailureKind {
        self.kind
    }

    /// The code of the problem, if the client knows it.
    pub fn code(&self) -> Option<Code> {
        self.code
    }

    /// The HTTP status; 0 without an answer.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The facts of the problem, for programs.
    pub fn facts(&self) -> &Map<String, Value> {
        &self.facts
    }

    /// The id of the request in the server's log.
    pub fn request_id(&self) -> Option<&str> {
        self.request_id.as_deref()
    }

    /// The pause that the server asks for.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Whether another attempt may succeed.
    pub(crate) fn is_passing(&self) -> bool {
        self.kind == FailureKind::Unanswered || matches!(self.status, 429 | 503)
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ClientError {}
