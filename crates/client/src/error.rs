//! The error of a call.

use std::fmt;
use std::io;
use std::sync::Arc;
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
    /// TLS failed for a reason that lasts: the certificate of the server is not trusted or has
    /// another name, or the server refused the certificate of the client. The server did nothing.
    Untrusted,
    /// The answer is longer than the client keeps in memory. The server did what was asked.
    TooLong,
    /// The writer of a download failed; the source of the error has the reason.
    Output,
    /// The client cannot send the request, for example because the URL is invalid.
    Invalid,
    /// The handler of a job returned an error, or panicked.
    Handler,
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
    code: Option<Box<str>>,
    status: u16,
    message: Box<str>,
    facts: Map<String, Value>,
    request_id: Option<Box<str>>,
    retry_after: Option<Duration>,
    source: Option<Arc<io::Error>>,
}

impl ClientError {
    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        let (message, facts) = (message.into().into_boxed_str(), Map::new());
        let (code, request_id, retry_after, source) = (None, None, None, None);
        ClientError { kind, code, status: 0, message, facts, request_id, retry_after, source }
    }

    /// The error of a writer that a download goes to.
    pub(crate) fn of_writer(error: io::Error) -> Self {
        let message = format!("can't write the answer: {error}");
        ClientError { source: Some(Arc::new(error)), ..ClientError::new(FailureKind::Output, message) }
    }

    /// The error of an answer that no Quire server gives.
    pub(crate) fn foreign(address: &str, what: impl fmt::Display) -> Self {
        let message = format!("{address} does not respond like a Quire server: {what}");
        ClientError::new(FailureKind::Foreign, message)
    }

    /// The error of a response with this status.
    pub(crate) fn of_response(address: &str, status: u16, body: &[u8], retry_after: Option<Duration>) -> Self {
        match serde_json::from_slice::<ProblemReply<'static>>(body) {
            Ok(problem) => ClientError {
                kind: FailureKind::Problem,
                code: Some(problem.code.into()),
                status,
                message: problem.detail.into(),
                facts: problem.facts.into_owned(),
                request_id: problem.request_id.map(String::into_boxed_str),
                retry_after,
                source: None,
            },
            Err(_) => ClientError {
                status,
                retry_after,
                ..ClientError::foreign(
                    address,
                    format_args!("status {status} in another form than Quire's; give the address of --http"),
                )
            },
        }
    }

    /// The error of a problem within a stream.
    pub(crate) fn of_message(address: &str, body: &[u8]) -> Self {
        let mut error = ClientError::of_response(address, 0, body, None);
        if let Ok(problem) = serde_json::from_slice::<ProblemReply<'static>>(body) {
            error.status = problem.status;
        }
        error.retry_after = error.facts.get("retry_after_ms").and_then(Value::as_u64).map(Duration::from_millis);
        error
    }

    /// The kind.
    pub fn kind(&self) -> FailureKind {
        self.kind
    }

    /// The code of the problem, if the client knows it.
    pub fn code(&self) -> Option<Code> {
        self.code_name().and_then(Code::from_name)
    }

    /// The name of the code of the problem, also of one that the client does not know.
    pub fn code_name(&self) -> Option<&str> {
        self.code.as_deref()
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

    /// Whether the server refused what was asked: it did nothing, and a retry changes nothing.
    pub fn is_refusal(&self) -> bool {
        let is_refused = matches!(self.status, 400 | 401 | 403 | 404 | 409 | 410 | 413 | 422);
        self.kind == FailureKind::Problem && is_refused
    }

    /// Whether the server refused the credentials, or a permission is missing.
    pub(crate) fn is_of_access(&self) -> bool {
        self.kind == FailureKind::Problem && matches!(self.status, 401 | 403)
    }

    /// Whether the server refused a commit for another part than this one, or as a whole.
    /// A missing permission without a part is no such refusal.
    pub(crate) fn is_of_other_part(&self, own: u64) -> bool {
        let part = self.facts.get("part").and_then(Value::as_u64);
        self.is_refusal() && part != Some(own) && (part.is_some() || !self.is_of_access())
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

impl std::error::Error for ClientError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|error| error as _)
    }
}
