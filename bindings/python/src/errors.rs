//! Errors of the database, and of calls of a server, as exceptions. The classes are in
//! `quire/_errors.py`.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use quire::ErrorKind;
use quire_api::{Code, FactValue, Failure, TimeUnit};
use quire_client::{ClientError, FailureKind};
use serde_json::Value;

/// The error of a call, of either home of a database.
pub(crate) enum CallError {
    Embedded(quire::Error),
    Served(ClientError),
    /// An argument is invalid, or only an embedded database carries out the request.
    Invalid(String),
    /// The handler of a consumer failed at every try.
    Handler(String),
    /// An answer of a server lacks the named thing.
    NotFound(String),
}

impl From<quire::Error> for CallError {
    fn from(error: quire::Error) -> Self {
        CallError::Embedded(error)
    }
}

impl From<ClientError> for CallError {
    fn from(error: ClientError) -> Self {
        CallError::Served(error)
    }
}

/// Returns the exception of an error: its class, code and facts.
pub(crate) fn exception(py: Python<'_>, error: &CallError) -> PyErr {
    match error {
        CallError::Embedded(error) => of_database(py, error),
        CallError::Served(error) => of_client(py, error),
        CallError::Handler(message) => raised(py, "Handler", "handler", message),
        CallError::NotFound(message) => raised(py, "NotFound", "not_found", message),
        CallError::Invalid(message) => raised(py, "Invalid", "invalid", message),
    }
}

/// Returns the exception of an error of an embedded database.
pub(crate) fn of_database(py: Python<'_>, error: &quire::Error) -> PyErr {
    make_of_database(py, error).unwrap_or_else(|error| error)
}

/// Returns the exception of an error of a client.
pub(crate) fn of_client(py: Python<'_>, error: &ClientError) -> PyErr {
    make_of_client(py, error).unwrap_or_else(|error| error)
}

fn make_of_database(py: Python<'_>, error: &quire::Error) -> PyResult<PyErr> {
    let failure = match error.refusal() {
        Some(refused) => Failure::of_commit(refused, TimeUnit::Millis, "part"),
        None => Failure::of_error(error),
    };
    let code = match error.kind() {
        // A server has no codes for the kinds that only a process with the directory meets.
        ErrorKind::NotADatabase => "not_a_database",
        ErrorKind::InUse => "in_use",
        ErrorKind::NewerFormat => "newer_format",
        ErrorKind::Handler => "handler",
        _ => failure.code.name(),
    };
    let facts = PyDict::new(py);
    for fact in &failure.facts {
        match &fact.value {
            FactValue::Absent => facts.set_item(fact.name, py.None())?,
            FactValue::Number(number) => facts.set_item(fact.name, *number)?,
            FactValue::Text(text) => facts.set_item(fact.name, text)?,
        }
    }
    make(py, &format!("{:?}", error.kind()), code, &error.to_string(), &facts, None)
}

fn make_of_client(py: Python<'_>, error: &ClientError) -> PyResult<PyErr> {
    let (kind, code) = match error.kind() {
        FailureKind::Problem => (kind_of_problem(error), error.code_name().unwrap_or("error")),
        FailureKind::Invalid => ("Invalid", "invalid"),
        FailureKind::Handler => ("Handler", "handler"),
        FailureKind::Foreign => ("Unanswered", "foreign"),
        _ => ("Unanswered", "unanswered"),
    };
    let facts = PyDict::new(py);
    for (name, value) in error.facts() {
        match value {
            Value::Null => facts.set_item(name, py.None())?,
            Value::String(text) => facts.set_item(name, text)?,
            Value::Number(number) if number.is_u64() => facts.set_item(name, number.as_u64())?,
            Value::Number(number) if number.is_i64() => facts.set_item(name, number.as_i64())?,
            other => facts.set_item(name, other.to_string())?,
        }
    }
    make(py, kind, code, &error.to_string(), &facts, error.request_id())
}

/// The kind that the same failure has in an embedded database.
fn kind_of_problem(error: &ClientError) -> &'static str {
    match error.code() {
        Some(Code::Unauthenticated | Code::NotPermitted | Code::OwnerOnly | Code::ForeignOrigin) => "NotPermitted",
        Some(Code::Overloaded | Code::TooManyConnections) => "Overloaded",
        Some(Code::TooCostly) => "TooCostly",
        Some(Code::Cancelled) => "Cancelled",
        Some(Code::ReadOnly) => "ReadOnly",
        Some(Code::Damaged) => "Damaged",
        Some(Code::Io | Code::NoSegment) => "Io",
        Some(Code::NoSpace) => "NoSpace",
        Some(Code::Unsettled | Code::Stalled) => "Unsettled",
        Some(Code::Failed | Code::Stopping) => "Failed",
        Some(Code::TooLarge) => "TooLarge",
        Some(Code::IdempotencyKeyReused | Code::ReservedStore) => "Refused",
        // Only a refusal names a part of a commit.
        _ if error.facts().contains_key("part") => "Refused",
        _ => match error.status() {
            401 | 403 => "NotPermitted",
            404 => "NotFound",
            409 => "Refused",
            410 => "Gone",
            429 => "Overloaded",
            400..500 => "Invalid",
            _ => "Failed",
        },
    }
}

/// Converts the result of a call that ran without the interpreter's lock.
pub(crate) fn result<T, E: Into<CallError>>(py: Python<'_>, result: Result<T, E>) -> PyResult<T> {
    result.map_err(|error| exception(py, &error.into()))
}

/// The error of a value that was inherited by a fork.
pub(crate) fn forked() -> PyErr {
    let message = "the database was opened before a fork: open it again in this process";
    Python::attach(|py| raised(py, "Failed", "in_use", message))
}

/// The error of a closed database.
pub(crate) fn closed() -> PyErr {
    Python::attach(|py| raised(py, "Failed", "failed", "the database is closed: open it again"))
}

/// The error of a request that only an embedded database carries out, for this reason.
pub(crate) fn unserved(reason: &str) -> PyErr {
    Python::attach(|py| raised(py, "Invalid", "invalid", reason))
}

/// An exception without facts.
fn raised(py: Python<'_>, kind: &str, code: &str, message: &str) -> PyErr {
    make(py, kind, code, message, &PyDict::new(py), None).unwrap_or_else(|error| error)
}

fn make(
    py: Python<'_>,
    kind: &str,
    code: &str,
    message: &str,
    facts: &Bound<'_, PyDict>,
    request_id: Option<&str>,
) -> PyResult<PyErr> {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = MAKE.import(py, "quire._errors", "_make")?;
    Ok(PyErr::from_value(make.call1((kind, code, message, facts, request_id))?))
}
