//! Failures as a client sees them: problem details (RFC 9457) with a stable code, a message for
//! people, the facts, and the id of the request.
//!
//! The table of `quire-api` has the code and the status of each failure, and its facts. The type of
//! a problem is the path of the page of its code, which [`page`] serves.

use std::borrow::Cow;
use std::fmt::Display;
use std::time::Duration;

use axum::http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use quire::events::SelectRefusal;
use quire::{CommitRefusal, Reason};
use quire_access::AuthenticationError;
use quire_access::budget::BudgetRefusal;
use quire_api::reply::ProblemReply;
use quire_api::{Code, FactValue, Failure, TimeUnit};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::json::Misread;
use crate::params::{Params, PathNames};
use crate::request_id;
use crate::response::text_of;

/// The media type of a problem.
const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// A request that failed, or a part of one.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: Code,
    message: String,
    /// Facts for programs beyond the code.
    facts: Map<String, Value>,
}

impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.reply(None).serialize(serializer)
    }
}

impl Problem {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Failure::new(code, message).into()
    }

    /// A refused commit, with the index of its part, from 0.
    pub(crate) fn refused(refused: &CommitRefusal) -> Self {
        Failure::of_commit(refused, TimeUnit::Millis, "part").into()
    }

    /// A refusal without a part: of one item of a part.
    pub(crate) fn of_reason(reason: &Reason) -> Self {
        Failure::of_reason(reason, TimeUnit::Millis).into()
    }

    fn reply(&self, request_id: Option<String>) -> ProblemReply<'_> {
        ProblemReply {
            kind: format!("/errors/{}", self.code.name()),
            title: self.code.title().into(),
            status: self.status.as_u16(),
            detail: (&*self.message).into(),
            code: self.code.name().into(),
            facts: Cow::Borrowed(&self.facts),
            request_id,
        }
    }

    /// The problem of a part of a response.
    pub(crate) fn within_response<'p>(self) -> ProblemReply<'p> {
        let reply = self.reply(None);
        let ProblemReply { kind, title, status, code, .. } = reply;
        let (detail, facts) = (self.message.into(), Cow::Owned(self.facts));
        ProblemReply { kind, title, status, detail, code, facts, request_id: None }
    }

    /// The message, for people.
    pub(crate) fn into_message(self) -> String {
        self.message
    }

    /// Whether a request or response exceeds a limit.
    pub(crate) fn is_too_large(&self) -> bool {
        self.code == Code::TooLarge
    }

    /// Whether a request needs more steps than it has.
    pub(crate) fn is_too_costly(&self) -> bool {
        self.code == Code::TooCostly
    }

    #[cfg(test)]
    pub(crate) fn code(&self) -> &'static str {
        self.code.name()
    }

    /// Adds a fact.
    pub(crate) fn fact(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.facts.insert(name.to_owned(), value.into());
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
        Problem::new(Code::Invalid, message)
    }

    /// A body that is not JSON, or has invalid fields.
    pub(crate) fn json(misread: &Misread) -> Self {
        let Misread { is_malformed, field, message, line, column } = misread;
        let code = if *is_malformed { Code::MalformedJson } else { Code::Invalid };
        let of = field.as_ref().map_or(String::new(), |field| format!("{field}: "));
        let message = format!("{of}{message} at line {line} column {column}");
        let problem = Problem::new(code, message);
        let problem = problem.fact("line", *line).fact("column", *column);
        match field {
            Some(field) => problem.fact("field", field.as_str()),
            None => problem,
        }
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Problem::new(Code::TooLarge, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Problem::new(Code::NotFound, message)
    }

    pub(crate) fn offset_out_of_range(message: impl Into<String>) -> Self {
        Problem::new(Code::OffsetOutOfRange, message)
    }

    pub(crate) fn timeout(message: impl Into<String>) -> Self {
        Problem::new(Code::Timeout, message)
    }

    pub(crate) fn media_type(kind: &str) -> Self {
        let given = if kind.is_empty() { "no Content-Type".to_owned() } else { format!("Content-Type {kind:?}") };
        let message = format!("the body has {given}: send it as application/json");
        Problem::new(Code::UnsupportedMediaType, message)
    }

    pub(crate) fn invalid_host(message: impl Into<String>) -> Self {
        Problem::new(Code::InvalidHost, message)
    }

    pub(crate) fn unknown_host(host: &str) -> Self {
        let message = format!(
            "this server has no name {host:?}: connect to its address, or add the name with `quire serve --http-host`"
        );
        Problem::new(Code::UnknownHost, message)
    }

    pub(crate) fn foreign_origin(message: impl Into<String>) -> Self {
        Problem::new(Code::ForeignOrigin, message)
    }

    pub(crate) fn encoded(encoding: &str) -> Self {
        let message = format!("the body has Content-Encoding {encoding}: send it as gzip or zstd, or without encoding");
        Problem::new(Code::UnsupportedEncoding, message)
    }

    pub(crate) fn stalled(message: impl Into<String>) -> Self {
        Problem::new(Code::Stalled, message)
    }

    /// The same problem with the status of a server that can't respond now.
    pub(crate) fn unavailable(self) -> Self {
        Problem { status: StatusCode::SERVICE_UNAVAILABLE, ..self }
    }

    pub(crate) fn too_many_connections() -> Self {
        let message = "the server has too many connections: close unused ones, or retry later";
        Problem::new(Code::TooManyConnections, message)
    }

    /// The client is gone: no one reads this.
    pub(crate) fn cancelled() -> Self {
        Problem::new(Code::Cancelled, "the client disconnected")
    }

    pub(crate) fn stopping() -> Self {
        Problem::new(Code::Stopping, "the server is stopping: retry when it is back")
    }

    /// An invalid read.
    pub(crate) fn select(refusal: &SelectRefusal) -> Self {
        let code = match refusal {
            SelectRefusal::InvalidName(_) => Code::InvalidName,
            SelectRefusal::InvalidQuery(_) => Code::InvalidQuery,
        };
        Problem::new(code, refusal.to_string())
    }

    pub(crate) fn unknown_route() -> Self {
        Problem::new(Code::UnknownRoute, "unknown path")
    }

    pub(crate) fn ambiguous_path() -> Self {
        let message = "ambiguous path: several routes fit; encode each slash in a name as %2F";
        Problem::new(Code::UnknownRoute, message)
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "method not allowed: see the Allow header";
        Problem::new(Code::MethodNotAllowed, message)
    }
}

impl From<BudgetRefusal> for Problem {
    fn from(refusal: BudgetRefusal) -> Self {
        match refusal.retry_after() {
            None => Problem::too_large(refusal.to_string()),
            Some(after) => busy(&refusal, after),
        }
    }
}

/// What the server has no place for now. This is not the state of a queue, which is 429, but of the
/// server: 503.
pub(crate) fn busy(refusal: &impl Display, retry_after: Duration) -> Problem {
    let retry_ms = u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX);
    Problem::new(Code::Overloaded, refusal.to_string()).fact("retry_after_ms", retry_ms).unavailable()
}

/// The response to a request whose client is not authenticated.
pub(crate) fn unauthenticated(error: AuthenticationError) -> Response {
    let mut response = Problem::new(Code::Unauthenticated, error.to_string()).into_response();
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

impl From<quire::Error> for Problem {
    fn from(error: quire::Error) -> Self {
        Failure::of_error(&error).into()
    }
}

impl From<Failure> for Problem {
    fn from(Failure { code, message, facts }: Failure) -> Self {
        let status = StatusCode::from_u16(code.http()).expect("the statuses of the table are valid");
        let facts = facts.into_iter().map(|fact| (fact.name.to_owned(), json_of(fact.value))).collect();
        Problem { status, code, message, facts }
    }
}

/// A fact as JSON.
fn json_of(value: FactValue) -> Value {
    match value {
        FactValue::Absent => Value::Null,
        FactValue::Number(number) => number_of(number),
        FactValue::Text(text) => Value::String(text),
    }
}

fn number_of(number: i128) -> Value {
    match (u64::try_from(number), i64::try_from(number)) {
        (Ok(number), _) => Value::from(number),
        (Err(_), Ok(number)) => Value::from(number),
        (Err(_), Err(_)) => unreachable!("no fact exceeds 64 bits: {number}"),
    }
}

/// `GET /errors/{code}`: what a code means, and what to do.
pub(crate) async fn page(PathNames(name): PathNames<String>, params: Params) -> Result<String, Problem> {
    params.end()?;
    let code = Code::from_name(&name).ok_or_else(|| Problem::not_found(format!("unknown code {name:?}")))?;
    Ok(format!("{} ({})\n\n{}\n{}\n", code.name(), code.http(), code.title(), code.action()))
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        // In whole seconds, as the header requires; the fact is precise.
        let retry_s = self.facts.get("retry_after_ms").and_then(Value::as_u64).map(|ms| ms.div_ceil(1_000));
        // Names the header, so that a client knows which of its headers failed (RFC 9110, 15.5.16).
        let accepted = match self.code {
            Code::UnsupportedEncoding => Some((ACCEPT_ENCODING, "gzip, zstd, identity")),
            Code::UnsupportedMediaType => Some((ACCEPT, "application/json")),
            _ => None,
        };
        let body = text_of(&self.reply(request_id::current()));
        let mut response = (self.status, [(CONTENT_TYPE, PROBLEM_JSON)], body).into_response();
        if let Some((name, value)) = accepted {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        if let Some(seconds) = retry_s {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use quire::ErrorKind;
    use quire_api::{of_error, of_reason, samples};

    use super::*;

    #[test]
    fn each_refusal_and_error_has_the_answer_of_the_table() {
        for reason in samples::reasons() {
            let failure = Failure::of_reason(&reason, TimeUnit::Millis);
            let problem = Problem::of_reason(&reason);
            assert_eq!(problem.code, of_reason(&reason).code, "{reason:?}");
            assert_eq!(problem.status.as_u16(), problem.code.http(), "{reason:?}");
            assert_eq!(problem.message, failure.message);
            let facts = failure.facts.into_iter().map(|fact| (fact.name.to_owned(), json_of(fact.value)));
            assert_eq!(problem.facts, facts.collect::<Map<_, _>>(), "{reason:?}");

            let of_part = Problem::refused(&CommitRefusal { part: 3, reason });
            assert_eq!(of_part.facts["part"], 3);
            assert_eq!(of_part.of_one().facts, problem.facts);
        }
        for kind in ErrorKind::ALL {
            let problem = Problem::from(quire::Error::new(kind, "it failed"));
            assert_eq!(problem.code, of_error(kind).code, "{kind:?}");
            assert_eq!((problem.status.as_u16(), &*problem.message), (problem.code.http(), "it failed"));
        }
    }
}
