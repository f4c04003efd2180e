//! Errors of the database as exceptions. The classes are in `quire/_errors.py`.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use quire::ErrorKind;
use quire_api::{FactValue, Failure, TimeUnit};

/// Returns the exception of an error: its class, code and facts.
pub(crate) fn exception(py: Python<'_>, error: &quire::Error) -> PyErr {
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
    let made = facts(py, &failure).and_then(|facts| make(py, &error.kind(), code, &error.to_string(), &facts));
    made.unwrap_or_else(|error| error)
}

/// Converts the result of a call that ran without the interpreter's lock.
pub(crate) fn result<T>(py: Python<'_>, result: quire::Result<T>) -> PyResult<T> {
    result.map_err(|error| exception(py, &error))
}

/// The error of a value that was inherited by a fork.
pub(crate) fn forked() -> PyErr {
    failed("in_use", "the database was opened before a fork: open it again in this process")
}

/// The error of a closed database.
pub(crate) fn closed() -> PyErr {
    failed("failed", "the database is closed: open it again")
}

fn failed(code: &str, message: &str) -> PyErr {
    Python::attach(|py| make(py, &ErrorKind::Failed, code, message, &PyDict::new(py)).unwrap_or_else(|error| error))
}

fn facts<'py>(py: Python<'py>, failure: &Failure) -> PyResult<Bound<'py, PyDict>> {
    let facts = PyDict::new(py);
    for fact in &failure.facts {
        match &fact.value {
            FactValue::Absent => facts.set_item(fact.name, py.None())?,
            FactValue::Number(number) => facts.set_item(fact.name, *number)?,
            FactValue::Text(text) => facts.set_item(fact.name, text)?,
        }
    }
    Ok(facts)
}

fn make(py: Python<'_>, kind: &ErrorKind, code: &str, message: &str, facts: &Bound<'_, PyDict>) -> PyResult<PyErr> {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = MAKE.import(py, "quire._errors", "_make")?;
    Ok(PyErr::from_value(make.call1((format!("{kind:?}"), code, message, facts))?))
}
