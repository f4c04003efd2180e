//! SQL statements and their rows.
//!
//! Both homes take a [`Statement`] and return [`SqlRows`], so values are converted in one place.

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyIterator, PyList, PyMapping, PyString, PyTuple};
use quire::{Database, Position, StepBudget};
use quire_sql::{Sql, SqlRows, SqlStatement, SqlSummary, SqlValue};

use crate::errors;
use crate::home::{Home, Shared};
use crate::values::Value;
use crate::{served, wait};

/// A statement with its parameters.
pub(crate) struct Statement {
    pub(crate) text: String,
    pub(crate) parameters: Vec<SqlValue>,
    pub(crate) named: Vec<(String, SqlValue)>,
    pub(crate) as_of: Option<u64>,
}

impl Statement {
    /// The statement of the arguments of a call. `params` is a mapping of names to values, or an
    /// iterable of values.
    fn of(text: String, params: Option<&Bound<'_, PyAny>>, as_of: Option<u64>) -> PyResult<Self> {
        let mut statement = Statement { text, parameters: Vec::new(), named: Vec::new(), as_of };
        let Some(params) = params else { return Ok(statement) };
        if let Ok(named) = params.cast::<PyMapping>() {
            for item in named.items()?.iter() {
                let (name, value): (String, Bound<'_, PyAny>) = item.extract()?;
                statement.named.push((name, parameter(&value)?));
            }
        } else if params.is_instance_of::<PyString>() || params.is_instance_of::<PyBytes>() {
            return Err(PyTypeError::new_err("params must be a list of values or a dict of names, not one value"));
        } else {
            for value in params.try_iter()? {
                statement.parameters.push(parameter(&value?)?);
            }
        }
        Ok(statement)
    }

    /// Runs the statement on an embedded database.
    fn run(&self, database: &Database) -> quire::Result<SqlRows> {
        let named: Vec<(&str, SqlValue)> = self.named.iter().map(|(name, value)| (&**name, value.clone())).collect();
        let (text, parameters) = (&*self.text, &*self.parameters);
        let as_of = self.as_of.map(Position::new);
        Sql::over(database).rows(&SqlStatement { text, parameters, named: &named, as_of })
    }
}

/// A parameter of a statement.
fn parameter(object: &Bound<'_, PyAny>) -> PyResult<SqlValue> {
    if object.is_none() {
        return Ok(SqlValue::Null);
    } else if let Ok(flag) = object.cast::<PyBool>() {
        return Ok(SqlValue::Integer(flag.is_true().into()));
    } else if object.is_instance_of::<PyInt>() {
        let beyond = |_| PyOverflowError::new_err(format!("a parameter must fit in 64 bits with a sign, got {object}"));
        return object.extract().map(SqlValue::Integer).map_err(beyond);
    } else if let Ok(number) = object.cast::<PyFloat>() {
        let number = number.value();
        if !number.is_finite() {
            return Err(PyValueError::new_err(format!("a parameter must be a finite number, got {number}")));
        }
        return Ok(SqlValue::Real(number));
    } else if let Ok(text) = object.cast::<PyString>() {
        return Ok(SqlValue::Text(text.to_str()?.to_owned()));
    }
    let is_bytes = |name| object.get_type().name().is_ok_and(|found| found == name);
    if ["bytes", "bytearray", "memoryview"].into_iter().any(is_bytes) {
        return Ok(SqlValue::Blob(Value::of(Some(object))?.into_present().unwrap_or_default()));
    }
    let found = object.get_type().name()?;
    Err(PyTypeError::new_err(format!("a parameter must be None, a number, a text or bytes, got {found}")))
}

/// A value of a row.
fn value<'py>(py: Python<'py>, value: SqlValue) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        SqlValue::Null => py.None().into_bound(py),
        SqlValue::Integer(number) => number.into_pyobject(py)?.into_any(),
        SqlValue::Real(number) => number.into_pyobject(py)?.into_any(),
        SqlValue::Text(text) => text.into_pyobject(py)?.into_any(),
        SqlValue::Blob(bytes) => PyBytes::new(py, &bytes).into_any(),
    })
}

/// The rows of a statement, as tuples.
#[pyclass(frozen, get_all, module = "quire")]
pub(crate) struct Rows {
    columns: Vec<String>,
    rows: Py<PyList>,
    as_of: u64,
    scanned: u64,
}

impl Rows {
    fn new(py: Python<'_>, found: SqlRows) -> PyResult<Self> {
        let SqlRows { columns, rows: found, summary: SqlSummary { as_of, scanned, .. } } = found;
        let rows = PyList::empty(py);
        for row in found {
            let values = row.into_iter().map(|found| value(py, found)).collect::<PyResult<Vec<_>>>()?;
            rows.append(PyTuple::new(py, values)?)?;
        }
        Ok(Rows { columns, rows: rows.unbind(), as_of: as_of.get(), scanned })
    }
}

#[pymethods]
impl Rows {
    fn __len__(&self, py: Python<'_>) -> usize {
        self.rows.bind(py).len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.rows.bind(py).try_iter()
    }

    fn __getitem__<'py>(&self, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.rows.bind(index.py()).as_any().get_item(index)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!("Rows(columns={:?}, rows={}, as_of={})", self.columns, self.__len__(py), self.as_of)
    }

    /// The rows as dicts.
    fn dicts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let dicts = PyList::empty(py);
        for row in self.rows.bind(py).iter() {
            let dict = PyDict::new(py);
            for (name, value) in self.columns.iter().zip(row.try_iter()?) {
                dict.set_item(name, value?)?;
            }
            dicts.append(dict)?;
        }
        Ok(dicts)
    }

    /// The rows as a `DataFrame` of pandas.
    fn pandas<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let options = PyDict::new(py);
        options.set_item("columns", &self.columns)?;
        py.import("pandas")?.getattr("DataFrame")?.call((self.rows.bind(py),), Some(&options))
    }
}

/// Runs a statement. The handler of a signal can end the wait for its rows.
pub(crate) fn query(
    py: Python<'_>,
    home: &Home,
    text: String,
    params: Option<&Bound<'_, PyAny>>,
    as_of: Option<u64>,
) -> PyResult<Rows> {
    let statement = Statement::of(text, params, as_of)?;
    let found = match home {
        Home::Embedded(database) => embedded(py, database, statement)?,
        Home::Served(client) => client.call(py, move |client| served::sql::rows(client, &statement))?,
    };
    Rows::new(py, found)
}

/// Runs a statement in this process. A signal that ends the wait also ends the statement.
fn embedded(py: Python<'_>, database: &Shared<Database>, statement: Statement) -> PyResult<SqlRows> {
    let budget = StepBudget::unbounded();
    let bounded = database.get()?.within(budget.clone());
    let found = wait::interruptible(py, move || statement.run(&bounded)).inspect_err(|_| budget.cancel())?;
    errors::result(py, found)
}
