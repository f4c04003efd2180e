//! Statements: preparing, running, and their summary.

use std::ops::ControlFlow;
use std::sync::Arc;

use quire::{Database, Error, ErrorKind, Position, Result};
use rusqlite::ffi;
use rusqlite::types::ValueRef;

use crate::SqlValue;
use crate::context::{StatementContext, invalid};
use crate::limits::SqlLimits;
use crate::sandbox::{self, STATEMENT_BYTES_MAX};
use crate::search;

/// SQL over a database. Cheap to create: it holds the database and the limits.
///
/// See the [crate's example](crate).
#[derive(Debug, Clone)]
pub struct Sql {
    database: Database,
    limits: SqlLimits,
}

/// A statement with its parameters.
#[derive(Debug, Clone, Copy, Default)]
pub struct SqlStatement<'s> {
    /// One `SELECT`, or an `EXPLAIN` of one.
    pub text: &'s str,
    /// The values of `?1`, `?2` and so on.
    pub parameters: &'s [SqlValue],
    /// The values of `:name`, `@name` and `$name`, by name without the sign.
    pub named: &'s [(&'s str, SqlValue)],
    /// The position as of which the log is read. `None`: the last published one. A statement with a
    /// position may not read states, such as jobs and queues.
    pub as_of: Option<Position>,
}

/// A statement that owns its text and its values.
#[derive(Debug, Clone, Default)]
pub struct OwnedSqlStatement {
    /// One `SELECT`, or an `EXPLAIN` of one.
    pub text: String,
    /// The values of `?1`, `?2` and so on.
    pub parameters: Vec<SqlValue>,
    /// The values of `:name`, `@name` and `$name`, by name without the sign.
    pub named: Vec<(String, SqlValue)>,
    /// The position as of which the log is read.
    pub as_of: Option<Position>,
}

impl OwnedSqlStatement {
    /// Passes the statement to `run`, for example to [`Sql::rows`].
    pub fn with<T>(&self, run: impl FnOnce(&SqlStatement<'_>) -> T) -> T {
        let named: Vec<(&str, SqlValue)> = self.named.iter().map(|(name, value)| (&**name, value.clone())).collect();
        run(&SqlStatement { text: &self.text, parameters: &self.parameters, named: &named, as_of: self.as_of })
    }
}

/// What a statement read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlSummary {
    /// The position as of which the log was read.
    pub as_of: Position,
    /// The number of rows that scans of tables read.
    pub scanned: u64,
    /// The number of rows of the result.
    pub rows: u64,
}

/// A whole result.
#[derive(Debug, Clone, PartialEq)]
pub struct SqlRows {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<SqlValue>>,
    /// What the statement read.
    pub summary: SqlSummary,
}

impl Sql {
    /// Returns SQL over a database, with the default limits. Over a guarded database, statements
    /// see only rows that its client may read.
    pub fn over(database: &Database) -> Self {
        search::attach(database);
        Sql { database: database.clone(), limits: SqlLimits::default() }
    }

    /// Sets the limits of each statement.
    #[must_use]
    pub fn limits(self, limits: SqlLimits) -> Self {
        Sql { limits, ..self }
    }

    /// Runs a statement with the values of `?1`, `?2` and so on, and returns its rows.
    ///
    /// # Errors
    /// As [`Sql::visit`].
    pub fn query(&self, text: &str, parameters: &[SqlValue]) -> Result<SqlRows> {
        self.rows(&SqlStatement { text, parameters, ..SqlStatement::default() })
    }

    /// Runs a statement and returns its rows.
    ///
    /// # Errors
    /// As [`Sql::visit`].
    pub fn rows(&self, statement: &SqlStatement<'_>) -> Result<SqlRows> {
        let (mut columns, mut rows) = (Vec::new(), Vec::new());
        let summary = self.visit(
            statement,
            |names| columns = names.to_vec(),
            |row| {
                rows.push(row.iter().map(|value| SqlValue::from(*value)).collect());
                ControlFlow::Continue(())
            },
        )?;
        Ok(SqlRows { columns, rows, summary })
    }

    /// Runs a statement. Passes the names of the columns to `begin`, and each row to `row`, until
    /// `row` breaks. No lock is held in between: writers continue, and `row` may take long.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a statement that is no `SELECT` or not valid SQL.
    /// [`ErrorKind::TooCostly`] when a limit is exceeded. [`ErrorKind::Cancelled`] when the budget
    /// of the database is cancelled. [`ErrorKind::NotPermitted`] for a table that needs the right
    /// to read the whole database. [`ErrorKind::Gone`] when the past of a graph was trimmed.
    /// [`ErrorKind::NotFound`] when `as_of` is not published yet. [`ErrorKind::Damaged`],
    /// [`ErrorKind::Io`] and [`ErrorKind::Failed`].
    pub fn visit(
        &self,
        statement: &SqlStatement<'_>,
        begin: impl FnOnce(&[String]),
        mut row: impl FnMut(&[ValueRef<'_>]) -> ControlFlow<()>,
    ) -> Result<SqlSummary> {
        let bytes = statement.text.len();
        if bytes > STATEMENT_BYTES_MAX {
            let message = format!(
                "the text of the statement has {bytes} bytes, more than {STATEMENT_BYTES_MAX}: bind values as parameters, or join with a table"
            );
            return Err(Error::new(ErrorKind::TooCostly, message));
        }
        let published = self.database.published();
        let at = statement.as_of.unwrap_or(published);
        if at > published {
            let message = format!("nothing is published at position {at} yet; the last is {published}");
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        let micros = u64::try_from(self.limits.time.as_micros()).unwrap_or(u64::MAX);
        let deadline = self.database.now().plus_micros(micros);
        let context = Arc::new(StatementContext::new(&self.database, at, statement.as_of.is_some(), deadline));
        let fail = |error: rusqlite::Error| context.take_failure().unwrap_or_else(|| self.error_of(&error));

        let mut connection = sandbox::open(&context, &self.limits).map_err(fail)?;
        sandbox::confine(&mut connection, &context, self.limits.instructions).map_err(fail)?;
        let mut prepared = connection.prepare(statement.text).map_err(fail)?;
        if prepared.column_count() == 0 {
            return Err(invalid("a statement is one SELECT: this text has none"));
        }
        bind(&mut prepared, statement)?;
        let columns: Vec<String> = prepared.column_names().map(str::to_owned).collect();
        begin(&columns);
        let (mut count, mut bytes) = (0, 0);
        let mut rows = prepared.raw_query();
        while let Some(found) = rows.next().map_err(fail)? {
            let value = |column| found.get_ref(column);
            let values: Vec<ValueRef<'_>> = (0..columns.len()).map(value).collect::<Result<_, _>>().map_err(fail)?;
            count += 1;
            bytes += values.iter().map(bytes_of).sum::<u64>();
            self.check_result(count, bytes)?;
            if row(&values).is_break() {
                break;
            }
        }
        Ok(SqlSummary { as_of: at, scanned: context.scanned(), rows: count })
    }

    fn check_result(&self, rows: u64, bytes: u64) -> Result<()> {
        let SqlLimits { rows: rows_max, bytes: bytes_max, .. } = self.limits;
        let message = if rows > rows_max {
            format!("the result has more than {rows_max} rows: add a WHERE or a LIMIT")
        } else if bytes > bytes_max {
            format!("the result has more than {bytes_max} bytes: select fewer columns or rows")
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::TooCostly, message))
    }

    /// Returns the error of SQLite as one of the database.
    fn error_of(&self, error: &rusqlite::Error) -> Error {
        let code = match error {
            rusqlite::Error::SqliteFailure(error, _) | rusqlite::Error::SqlInputError { error, .. } => {
                Some(error.extended_code & 0xff)
            }
            _ => None,
        };
        let (kind, message) = match (error, code) {
            (_, Some(ffi::SQLITE_NOMEM)) => {
                let bytes = self.limits.memory_bytes.map_or(String::new(), |bytes| format!(" {bytes} bytes of"));
                (ErrorKind::TooCostly, format!("the statements need more than{bytes} memory: sort or group fewer rows"))
            }
            (_, Some(ffi::SQLITE_TOOBIG)) => {
                (ErrorKind::TooCostly, format!("a value or a row has more than {} bytes", self.limits.value_bytes))
            }
            (_, Some(ffi::SQLITE_AUTH)) => {
                (ErrorKind::Invalid, "a statement is one SELECT over the tables: it changes nothing".to_owned())
            }
            (rusqlite::Error::MultipleStatement, _) => {
                (ErrorKind::Invalid, "the text has several statements: send one".to_owned())
            }
            (rusqlite::Error::SqlInputError { msg, offset, .. }, _) => {
                let place = usize::try_from(*offset).map_or(String::new(), |offset| format!(" at byte {offset}"));
                (ErrorKind::Invalid, format!("invalid SQL{place}: {msg}"))
            }
            (rusqlite::Error::SqliteFailure(_, Some(message)), _) => {
                (ErrorKind::Invalid, format!("invalid SQL: {message}"))
            }
            (error, _) => (ErrorKind::Invalid, format!("invalid SQL: {error}")),
        };
        Error::new(kind, message)
    }
}

fn bytes_of(value: &ValueRef<'_>) -> u64 {
    match value {
        ValueRef::Null => 1,
        ValueRef::Integer(_) | ValueRef::Real(_) => 8,
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len() as u64,
    }
}

/// Binds the parameters of a statement.
fn bind(prepared: &mut rusqlite::Statement<'_>, statement: &SqlStatement<'_>) -> Result<()> {
    let count = prepared.parameter_count();
    for index in 1..=count {
        let name = prepared.parameter_name(index).map(str::to_owned);
        let value = match name.as_deref().and_then(|name| name.strip_prefix([':', '@', '$'])) {
            Some(name) => statement.named.iter().find(|(given, _)| *given == name).map(|(_, value)| value),
            None => statement.parameters.get(index - 1),
        };
        let shown = name.unwrap_or_else(|| format!("?{index}"));
        let value = value.ok_or_else(|| invalid(format!("parameter {shown} has no value")))?;
        prepared.raw_bind_parameter(index, value).map_err(|error| invalid(error.to_string()))?;
    }
    if statement.parameters.len() > count {
        let given = statement.parameters.len();
        return Err(invalid(format!("the statement has {count} parameters, and {given} values were given")));
    }
    Ok(())
}
