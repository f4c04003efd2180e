//! The rows of a statement, as they arrive.

use serde_json::{Map, Value, json};

use super::cells::ExportCell;
use crate::failure::{CommandError, Result};
use crate::verbs::client::{HttpClient, Path};

/// A part of a result.
#[derive(Debug)]
pub(super) enum ResultPart {
    Columns(Vec<String>),
    /// A row, and its length as text.
    Row(Vec<ExportCell>, usize),
}

/// How a result ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ResultEnd {
    Whole,
    /// The reader stopped.
    Stopped,
    /// The statement exceeded a limit after some rows. The message names it.
    TooCostly(String),
}

/// The body of a request.
pub(super) fn request(sql: &str, names: &Map<String, Value>, as_of: Option<u64>) -> Value {
    let mut body = json!({ "sql": sql, "named": names });
    if let Some(as_of) = as_of {
        body["as_of"] = json!(as_of);
    }
    body
}

/// Runs a statement, and passes the parts of its result to `part`, until `part` returns false.
///
/// # Errors
/// When the server can't be reached, refuses the statement, or ends the result early. The errors of
/// `part`.
pub(super) fn read(
    client: &HttpClient,
    request: &Value,
    mut part: impl FnMut(ResultPart) -> Result<bool>,
) -> Result<ResultEnd> {
    let path = Path::new(&["sql"]).with("format", "ndjson");
    let foreign = || CommandError::new(format!("{} does not respond like a Quire server", client.address()));
    let mut end = None;
    let is_stopped = client.post_lines(&path, request.to_string().as_bytes(), |line| {
        let parsed: Value = serde_json::from_str(line).map_err(|_| foreign())?;
        if let Value::Array(values) = parsed {
            let cells: Option<Vec<ExportCell>> = values.into_iter().map(ExportCell::parse).collect();
            return part(ResultPart::Row(cells.ok_or_else(foreign)?, line.len()));
        }
        if let Some(names) = parsed["columns"].as_array() {
            let names: Option<Vec<String>> = names.iter().map(|name| name.as_str().map(str::to_owned)).collect();
            return part(ResultPart::Columns(names.ok_or_else(foreign)?));
        }
        end = Some(match (parsed["error"]["code"].as_str(), parsed["error"]["detail"].as_str()) {
            (Some("too_costly"), Some(detail)) => ResultEnd::TooCostly(detail.to_owned()),
            (_, Some(detail)) => return Err(CommandError::new(detail)),
            _ => ResultEnd::Whole,
        });
        Ok(true)
    })?;
    match end {
        _ if is_stopped => Ok(ResultEnd::Stopped),
        Some(end) => Ok(end),
        None => Err(CommandError::new(format!("{} ended the result early", client.address()))),
    }
}
