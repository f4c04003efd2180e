//! `quire sql`: a read-only SQL statement, with its rows as a table, as CSV or as JSON.

use std::fs;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use clap::Args;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::client::{HttpClient, Path};
use super::place::DatabaseArgs;
use crate::failure::{CommandError, Result, aside};
use crate::text::{counted, on_one_line};

/// The rows that decide how wide the columns of a table are.
const MEASURED_ROWS: usize = 1_000;

/// The widest column of a table, in characters. A longer value in the last column is not cut.
const WIDTH_MAX: usize = 80;

/// Arguments of `quire sql`.
#[derive(Debug, Args)]
pub(crate) struct SqlVerb {
    /// The statement, a SELECT; `quire sql "SELECT * FROM queues" --data DIR`
    #[arg(required_unless_present = "file")]
    statement: Option<String>,
    /// Read the statement from a file, or from standard input for `-`
    #[arg(long, value_name = "FILE", conflicts_with = "statement")]
    file: Option<PathBuf>,
    /// The value of ?1, ?2 and so on. A whole number is an integer, other values are text
    #[arg(long = "param", value_name = "VALUE", allow_hyphen_values = true)]
    params: Vec<String>,
    /// Read the log as of this position
    #[arg(long, value_name = "POSITION")]
    as_of: Option<u64>,
    /// Print one JSON object per row
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV with a header
    #[arg(long)]
    csv: bool,
    #[command(flatten)]
    place: DatabaseArgs,
}

/// How rows are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowForm {
    Table,
    Json,
    Csv,
}

impl SqlVerb {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        let SqlVerb { statement, file, params, as_of, json, csv, place } = self;
        let statement = match (statement, file) {
            (Some(statement), _) => statement,
            (None, Some(file)) if file.as_os_str() == "-" => {
                let mut text = String::new();
                io::stdin().read_to_string(&mut text)?;
                text
            }
            (None, Some(file)) => fs::read_to_string(&file)
                .map_err(|error| CommandError::at(format_args!("read {}", file.display()), error))?,
            (None, None) => unreachable!("one of them is required"),
        };
        let form = if json {
            RowForm::Json
        } else if csv {
            RowForm::Csv
        } else {
            RowForm::Table
        };
        let params: Vec<Value> = params.iter().map(|text| parameter(text)).collect();
        let mut body = json!({ "sql": statement, "params": params });
        if let Some(as_of) = as_of {
            body["as_of"] = json!(as_of);
        }
        place.visit(|client| print_result(client, &body, form, out))
    }
}

/// Returns a whole number as an integer, and other text as text.
fn parameter(text: &str) -> Value {
    text.parse::<i64>().map_or_else(|_| json!(text), |number| json!(number))
}

/// Runs a statement, and prints its rows as they arrive.
fn print_result(client: &HttpClient, body: &Value, form: RowForm, out: &mut dyn Write) -> Result {
    let path = Path::new(&["sql"]).with("format", "ndjson");
    let (mut printer, mut end) = (None::<RowPrinter>, None);
    let text = body.to_string();
    client.post_lines(&path, text.as_bytes(), |line| {
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
    })?;
    if let Some(printer) = &mut printer {
        printer.flush_rows(out)?;
    }
    out.flush()?;
    let end = end.ok_or_else(|| CommandError::new(format!("{} ended the result early", client.address())))?;
    if form == RowForm::Table {
        let rows = counted(end["rows"].as_u64().unwrap_or_default(), "row");
        let (scanned, as_of) = (&end["scanned"], &end["as_of"]);
        aside(format_args!("{rows}, {scanned} scanned, as of position {as_of}"));
    }
    Ok(())
}

/// Prints rows in one form.
struct RowPrinter {
    form: RowForm,
    names: Vec<String>,
    /// Rows of a table that are kept until the widths are known.
    measured: Vec<Vec<String>>,
    widths: Option<Vec<usize>>,
}

impl RowPrinter {
    fn begin(names: Vec<String>, form: RowForm, out: &mut dyn Write) -> Result<Self> {
        if form == RowForm::Csv {
            write_csv(out, &names)?;
        }
        let names = match form {
            RowForm::Table => names.iter().map(|name| on_one_line(name).into_owned()).collect(),
            RowForm::Json | RowForm::Csv => names,
        };
        Ok(RowPrinter { form, names, measured: Vec::new(), widths: None })
    }

    fn row(&mut self, values: Vec<Box<RawValue>>, out: &mut dyn Write) -> Result {
        match self.form {
            RowForm::Json => {
                let names = self.names.iter().map(|name| json!(name).to_string());
                let fields = names.zip(&values).map(|(name, value)| format!("{name}:{}", value.get()));
                writeln!(out, "{{{}}}", fields.collect::<Vec<_>>().join(","))?;
            }
            RowForm::Csv => write_csv(out, &values.iter().map(|value| shown(value, "")).collect::<Vec<_>>())?,
            RowForm::Table => {
                let cells: Vec<String> =
                    values.iter().map(|value| on_one_line(&shown(value, "-")).into_owned()).collect();
                if self.widths.is_some() {
                    return self.write_cells(&cells, out);
                }
                self.measured.push(cells);
                if self.measured.len() == MEASURED_ROWS {
                    self.flush_rows(out)?;
                }
            }
        }
        Ok(())
    }

    /// Prints the header and the rows that were kept.
    fn flush_rows(&mut self, out: &mut dyn Write) -> Result {
        if self.form != RowForm::Table || self.widths.is_some() {
            return Ok(());
        }
        let width = |column: usize| {
            let cells = self.measured.iter().map(|row| row[column].chars().count());
            cells.chain([self.names[column].chars().count()]).max().unwrap_or_default().min(WIDTH_MAX)
        };
        self.widths = Some((0..self.names.len()).map(width).collect());
        let rows = std::mem::take(&mut self.measured);
        self.write_cells(&self.names, out)?;
        rows.iter().try_for_each(|row| self.write_cells(row, out))
    }

    fn write_cells(&self, cells: &[String], out: &mut dyn Write) -> Result {
        let widths = self.widths.as_deref().unwrap_or_default();
        let mut line = String::new();
        for (number, (cell, width)) in cells.iter().zip(widths).enumerate() {
            if number + 1 == cells.len() {
                line += cell;
            } else {
                line += &format!("{cell:<width$}  ");
            }
        }
        Ok(writeln!(out, "{}", line.trim_end())?)
    }
}

/// Returns a value as text: a text without its quotes, other values as JSON, and `null` as `none`.
fn shown(value: &RawValue, none: &str) -> String {
    match serde_json::from_str(value.get()) {
        Ok(Value::Null) => none.to_owned(),
        Ok(Value::String(text)) => text,
        _ => value.get().to_owned(),
    }
}

fn write_csv(out: &mut dyn Write, cells: &[String]) -> Result {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(cells).map_err(|error| CommandError::new(error.to_string()))?;
    let bytes = writer.into_inner().map_err(|error| CommandError::new(error.to_string()))?;
    Ok(out.write_all(&bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(form: RowForm, names: &[&str], rows: &[&str]) -> String {
        let mut out = Vec::new();
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let mut printer = RowPrinter::begin(names, form, &mut out).expect("begun");
        for row in rows {
            printer.row(serde_json::from_str(row).expect("JSON"), &mut out).expect("printed");
        }
        printer.flush_rows(&mut out).expect("printed");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn rows_are_printed_in_each_form() {
        let rows = [r#"["a\nb",1,null]"#, r#"["x",1.50,{"base64":"/w=="}]"#];
        let names = ["name", "n", "last"];
        assert_eq!(
            printed(RowForm::Table, &names, &rows),
            "name  n     last\na\\nb  1     -\nx     1.50  {\"base64\":\"/w==\"}\n"
        );
        assert_eq!(
            printed(RowForm::Csv, &names, &rows),
            "name,n,last\n\"a\nb\",1,\nx,1.50,\"{\"\"base64\"\":\"\"/w==\"\"}\"\n"
        );
        assert_eq!(
            printed(RowForm::Json, &names, &rows),
            "{\"name\":\"a\\nb\",\"n\":1,\"last\":null}\n{\"name\":\"x\",\"n\":1.50,\"last\":{\"base64\":\"/w==\"}}\n"
        );
        assert_eq!(printed(RowForm::Table, &["a\n"], &[]), "a\\n\n");
    }

    #[test]
    fn a_whole_number_is_an_integer() {
        assert_eq!(parameter("-17"), json!(-17));
        assert_eq!(parameter("1.5"), json!("1.5"));
        assert_eq!(parameter("a"), json!("a"));
    }
}
