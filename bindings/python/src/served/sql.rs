//! SQL of a server.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use quire::Position;
use quire_client::reply::SqlReply;
use quire_client::{Call, Client};
use quire_sql::{SqlRows, SqlSummary, SqlValue};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::errors::CallError;
use crate::sql::Statement;

/// Runs a statement.
pub(crate) fn rows(client: &Client, statement: &Statement) -> Result<SqlRows, CallError> {
    let named: Map<String, Value> = statement.named.iter().map(|(name, value)| (name.clone(), shown(value))).collect();
    let params: Vec<Value> = statement.parameters.iter().map(shown).collect();
    let request = json!({ "sql": statement.text, "params": params, "named": named, "as_of": statement.as_of });
    let SqlReply { columns, rows, as_of, scanned } = client.read(Call::post(&["sql"]).json(&request)?.reading())?;
    let summary = SqlSummary { as_of: Position::new(as_of), scanned, rows: rows.len() as u64 };
    let rows = rows.iter().map(|row| row_of(row).ok_or_else(|| odd(row))).collect::<Result<_, _>>()?;
    Ok(SqlRows { columns, rows, summary })
}

/// A parameter as JSON.
fn shown(value: &SqlValue) -> Value {
    match value {
        SqlValue::Null => Value::Null,
        SqlValue::Integer(number) => json!(number),
        SqlValue::Real(number) => json!(number),
        SqlValue::Text(text) => json!(text),
        SqlValue::Blob(bytes) => json!({ "base64": STANDARD.encode(bytes) }),
    }
}

/// The values of a row; `None` for a row that a server does not send.
fn row_of(row: &RawValue) -> Option<Vec<SqlValue>> {
    let values: Vec<Value> = serde_json::from_str(row.get()).ok()?;
    values.into_iter().map(value_of).collect()
}

fn value_of(value: Value) -> Option<SqlValue> {
    Some(match value {
        Value::Null => SqlValue::Null,
        Value::Number(number) => match number.as_i64() {
            Some(number) => SqlValue::Integer(number),
            None => SqlValue::Real(number.as_f64()?),
        },
        Value::String(text) => SqlValue::Text(text),
        Value::Object(blob) => SqlValue::Blob(STANDARD.decode(blob.get("base64")?.as_str()?).ok()?),
        Value::Bool(_) | Value::Array(_) => return None,
    })
}

fn odd(row: &RawValue) -> CallError {
    CallError::Invalid(format!("the server's answer has the invalid row {row}"))
}
