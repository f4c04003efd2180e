//! The result of a statement: it is requested, and printed as it arrives.

use std::fmt;
use std::io::Write;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::rows::{RowForm, RowPrinter};
use crate::failure::{CommandError, Result};
use crate::text::counted;
use crate::verbs::client::{HttpClient, Path};

/// What a statement read.
#[derive(Debug)]
pub(super) struct ResultSummary {
    rows: u64,
    scanned: u64,
    as_of: u64,
}

impl fmt::Display for ResultSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ResultSummary { rows, scanned, as_of } = self;
        write!(f, "{}, {scanned} scanned, as of position {as_of}", counted(*rows, "row"))
    }
}

/// The body of the request for a statement.
pub(super) fn request(statement: &str, params: &[Value], as_of: Option<u64>) -> Value {
    let mut body = json!({ "sql": statement, "params": params });
    if let Some(as_of) = as_of {
        body["as_of"] = json!(as_of);
    }
    body
}

/// Runs a statement, and prints its rows as they arrive.
///
/// # Errors
/// When the server can't be reached, refuses the statement, or ends the result early. The rows
/// until then are printed.
pub(super) fn print(client: &HttpClient, body: &Value, form: RowForm, out: &mut dyn Write) -> Result<ResultSummary> {
    let path = Path::new(&["sql"]).with("format", "ndjson");
    let (mut printer, mut end) = (None::<RowPrinter>, None);
    let text = body.to_string();
    let sent = client.post_lines(&path, text.as_bytes(), |line| {
        let odd = |_| CommandError::new(format!("{} does not respond like a Quire server: no JSON", client.address()));
        if line.starts_with('[') {
            let values: Vec<Box<RawValue>> = serde_json::from_str(line).map_err(odd)?;
            let printer = printer.as_mut().ok_or_else(|| CommandError::new("a row came before the columns"))?;
            printer.row(values, out)?;
            return Ok(true);
        }
        let mut line: Value = serde_json::from_str(line).map_err(odd)?;
        if let Some(detail) = line["error"]["detail"].as_str() {
            return Err(CommandError::new(detail));
        }
        match line["columns"].as_array_mut() {
            Some(columns) => {
                let names = columns.iter().map(|name| name.as_str().unwrap_or_default().to_owned()).collect();
                printer = Some(RowPrinter::begin(names, form, out)?);
            }
            None => end = Some(line),
        }
        Ok(true)
    });
    if let Some(printer) = &mut printer {
        printer.flush_rows(out)?;
    }
    out.flush()?;
    sent?;
    let end = end.ok_or_else(|| CommandError::new(format!("{} ended the result early", client.address())))?;
    let number = |name: &str| end[name].as_u64().unwrap_or_default();
    Ok(ResultSummary { rows: number("rows"), scanned: number("scanned"), as_of: number("as_of") })
}
