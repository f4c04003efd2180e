//! Values of a result, and the columns of files.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::ExportType;

/// A value of a result.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ExportCell {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Bytes(Vec<u8>),
}

/// A column of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExportColumn {
    pub(super) name: String,
    pub(super) kind: ExportType,
}

impl ExportCell {
    /// Reads a value of a row of `POST /v1/sql`; `None` when it is no such value.
    pub(super) fn parse(value: Value) -> Option<Self> {
        Some(match value {
            Value::Null => ExportCell::Null,
            Value::String(text) => ExportCell::Text(text),
            Value::Number(number) => match number.as_i64() {
                Some(number) => ExportCell::Integer(number),
                None => ExportCell::Real(number.as_f64()?),
            },
            Value::Object(fields) => ExportCell::Bytes(STANDARD.decode(fields.get("base64")?.as_str()?).ok()?),
            Value::Bool(_) | Value::Array(_) => return None,
        })
    }

    /// The number of an integer.
    pub(super) fn integer(&self) -> Option<i64> {
        match self {
            ExportCell::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// What the value is, for a message.
    pub(super) fn kind_name(&self) -> &'static str {
        match self {
            ExportCell::Null => "NULL",
            ExportCell::Integer(_) => "an integer",
            ExportCell::Real(_) => "a real number",
            ExportCell::Text(_) => "text",
            ExportCell::Bytes(_) => "bytes that are not UTF-8",
        }
    }
}

/// The type that takes every value of a column; text without any value.
pub(super) fn inferred<'c>(cells: impl Iterator<Item = &'c ExportCell>) -> ExportType {
    let kind = |cell: &ExportCell| match cell {
        ExportCell::Null => None,
        ExportCell::Integer(_) => Some(ExportType::Integer),
        ExportCell::Real(_) => Some(ExportType::Real),
        ExportCell::Text(_) => Some(ExportType::Text),
        ExportCell::Bytes(_) => Some(ExportType::Binary),
    };
    let wider = |one: ExportType, other: ExportType| match (one, other) {
        (ExportType::Binary, _) | (_, ExportType::Binary) => ExportType::Binary,
        (ExportType::Text, _) | (_, ExportType::Text) => ExportType::Text,
        (ExportType::Real, _) | (_, ExportType::Real) => ExportType::Real,
        (ExportType::Integer, ExportType::Integer) => ExportType::Integer,
    };
    cells.filter_map(kind).reduce(wider).unwrap_or(ExportType::Text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_rows_are_read() {
        let parse = |value| ExportCell::parse(value);
        assert_eq!(parse(json!(null)), Some(ExportCell::Null));
        assert_eq!(parse(json!(-17)), Some(ExportCell::Integer(-17)));
        assert_eq!(parse(json!(1.5)), Some(ExportCell::Real(1.5)));
        assert_eq!(parse(json!("a")), Some(ExportCell::Text("a".to_owned())));
        assert_eq!(parse(json!({"base64": "/wA="})), Some(ExportCell::Bytes(vec![255, 0])));
        assert_eq!(parse(json!({"base64": "?"})), None);
        assert_eq!(parse(json!([1])), None);
    }

    #[test]
    fn a_column_has_the_type_that_takes_its_values() {
        let of = |cells: &[ExportCell]| inferred(cells.iter());
        let (integer, real) = (ExportCell::Integer(1), ExportCell::Real(1.5));
        let (text, bytes) = (ExportCell::Text("a".to_owned()), ExportCell::Bytes(vec![255]));
        assert_eq!(of(&[ExportCell::Null]), ExportType::Text);
        assert_eq!(of(&[ExportCell::Null, integer.clone()]), ExportType::Integer);
        assert_eq!(of(&[integer.clone(), real.clone()]), ExportType::Real);
        assert_eq!(of(&[integer, text.clone()]), ExportType::Text);
        assert_eq!(of(&[real, text, bytes]), ExportType::Binary);
    }
}
