//! A value of a column, a parameter or a filter.

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};

/// A value of SQL.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum SqlValue {
    /// No value.
    #[default]
    Null,
    /// An integer.
    Integer(i64),
    /// A floating-point number.
    Real(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

impl SqlValue {
    /// Returns bytes as text if they are UTF-8, and as a blob otherwise.
    pub fn text_or_blob(bytes: impl Into<Vec<u8>>) -> Self {
        match String::from_utf8(bytes.into()) {
            Ok(text) => SqlValue::Text(text),
            Err(error) => SqlValue::Blob(error.into_bytes()),
        }
    }

    /// Returns a count or a time as an integer. Beyond the integers of SQL, returns the largest
    /// one.
    pub fn count(number: u64) -> Self {
        SqlValue::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }

    /// Returns the bytes of text or a blob; 8 for a number.
    pub fn bytes(&self) -> usize {
        match self {
            SqlValue::Null => 0,
            SqlValue::Integer(_) | SqlValue::Real(_) => 8,
            SqlValue::Text(text) => text.len(),
            SqlValue::Blob(bytes) => bytes.len(),
        }
    }
}

impl From<&str> for SqlValue {
    fn from(text: &str) -> Self {
        SqlValue::Text(text.to_owned())
    }
}

impl From<String> for SqlValue {
    fn from(text: String) -> Self {
        SqlValue::Text(text)
    }
}

impl From<i64> for SqlValue {
    fn from(number: i64) -> Self {
        SqlValue::Integer(number)
    }
}

impl<T: Into<SqlValue>> From<Option<T>> for SqlValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(SqlValue::Null, Into::into)
    }
}

impl From<ValueRef<'_>> for SqlValue {
    fn from(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => SqlValue::Null,
            ValueRef::Integer(number) => SqlValue::Integer(number),
            ValueRef::Real(number) => SqlValue::Real(number),
            ValueRef::Text(text) => SqlValue::text_or_blob(text),
            ValueRef::Blob(bytes) => SqlValue::Blob(bytes.to_vec()),
        }
    }
}

impl ToSql for SqlValue {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            SqlValue::Null => ValueRef::Null,
            SqlValue::Integer(number) => ValueRef::Integer(*number),
            SqlValue::Real(number) => ValueRef::Real(*number),
            SqlValue::Text(text) => ValueRef::Text(text.as_bytes()),
            SqlValue::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}
