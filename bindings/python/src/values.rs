//! Values of Python as bytes: the rule for payloads.
//!
//! `bytes`, `bytearray` and `memoryview` are stored as they are, `str` as UTF-8, `None` as no
//! value, and everything else as JSON. A stored value is read as `bytes`; `text()` and `json()`
//! decode it.

use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyMemoryView, PyString};

/// The bytes of a value, borrowed from the interpreter where it has them.
pub(crate) enum Value<'a> {
    Borrowed(&'a [u8]),
    Owned(Vec<u8>),
    Absent,
}

impl<'a> Value<'a> {
    #[inline]
    pub(crate) fn of(object: Option<&'a Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(object) = object else { return Ok(Value::Absent) };
        if let Ok(bytes) = object.cast::<PyBytes>() {
            Ok(Value::Borrowed(bytes.as_bytes()))
        } else if let Ok(text) = object.cast::<PyString>() {
            Ok(Value::Borrowed(text.to_str()?.as_bytes()))
        } else {
            Self::of_other(object)
        }
    }

    fn of_other(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if object.is_none() {
            Ok(Value::Absent)
        } else if let Ok(bytes) = object.cast::<PyByteArray>() {
            Ok(Value::Owned(bytes.to_vec()))
        } else if object.is_instance_of::<PyMemoryView>() {
            let bytes = object.call_method0("tobytes")?;
            Ok(Value::Owned(bytes.cast::<PyBytes>()?.as_bytes().to_vec()))
        } else {
            let text = encoder(object.py())?.call1((object,))?;
            Ok(Value::Owned(text.cast::<PyString>()?.to_str()?.as_bytes().to_vec()))
        }
    }

    /// Returns the bytes; none when the value is absent.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Value::Borrowed(bytes) => bytes,
            Value::Owned(bytes) => bytes,
            Value::Absent => &[],
        }
    }

    /// Returns the bytes; `None` when the value is absent.
    pub(crate) fn into_present(self) -> Option<Vec<u8>> {
        match self {
            Value::Borrowed(bytes) => Some(bytes.to_vec()),
            Value::Owned(bytes) => Some(bytes),
            Value::Absent => None,
        }
    }
}

/// Returns the bytes of a value that a commit keeps.
pub(crate) fn owned(object: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<u8>> {
    Ok(Value::of(object)?.into_present().unwrap_or_default())
}

fn encoder(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static ENCODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let encode = ENCODE.get_or_try_init(py, || {
        let options = PyDict::new(py);
        options.set_item("separators", (",", ":"))?;
        options.set_item("ensure_ascii", false)?;
        options.set_item("allow_nan", false)?;
        let encoder = py.import("json")?.getattr("JSONEncoder")?.call((), Some(&options))?;
        encoder.getattr("encode").map(Bound::unbind)
    })?;
    Ok(encode.bind(py))
}

/// Decodes bytes as JSON.
pub(crate) fn json(bytes: &Bound<'_, PyBytes>) -> PyResult<Py<PyAny>> {
    static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let loads = LOADS.import(bytes.py(), "json", "loads")?;
    loads.call1((bytes,)).map(Bound::unbind)
}

/// Decodes bytes as text.
pub(crate) fn text(bytes: &Bound<'_, PyBytes>) -> PyResult<String> {
    bytes.call_method0("decode")?.extract()
}

/// A duration of Python: seconds.
pub(crate) fn duration(name: &str, seconds: f64) -> PyResult<Duration> {
    let invalid = |_| PyValueError::new_err(format!("{name} must be a number of seconds from 0, got {seconds}"));
    Duration::try_from_secs_f64(seconds).map_err(invalid)
}

/// A time of Python: seconds since 1970, as `time.time()` returns.
pub(crate) fn seconds(time: quire::Timestamp) -> f64 {
    time.as_micros() as f64 / 1e6
}
