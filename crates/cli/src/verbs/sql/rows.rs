//! Rows of a result as a table, as JSON or as CSV.

use std::io::Write;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::failure::{CommandError, Result};
use crate::text::on_one_line;

/// The rows that decide how wide the columns of a table are.
const MEASURED_ROWS: usize = 1_000;

/// The widest column of a table, in characters. A longer value in the last column is not cut.
const WIDTH_MAX: usize = 80;

/// How rows are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowForm {
    Table,
    Json,
    Csv,
}

/// Prints rows in one form.
pub(super) struct RowPrinter {
    form: RowForm,
    names: Vec<String>,
    /// Rows of a table that are kept until the widths are known.
    measured: Vec<Vec<String>>,
    widths: Option<Vec<usize>>,
}

impl RowPrinter {
    /// Begins a result with these columns.
    ///
    /// # Errors
    /// When `out` fails.
    pub(super) fn begin(names: Vec<String>, form: RowForm, out: &mut dyn Write) -> Result<Self> {
        if form == RowForm::Csv {
            write_csv(out, &names)?;
        }
        let names = match form {
            RowForm::Table => names.iter().map(|name| on_one_line(name).into_owned()).collect(),
            RowForm::Json | RowForm::Csv => names,
        };
        Ok(RowPrinter { form, names, measured: Vec::new(), widths: None })
    }

    /// Prints a row. A table keeps its first rows until it knows the widths.
    ///
    /// # Errors
    /// When `out` fails.
    pub(super) fn row(&mut self, values: Vec<Box<RawValue>>, out: &mut dyn Write) -> Result {
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
    ///
    /// # Errors
    /// When `out` fails.
    pub(super) fn flush_rows(&mut self, out: &mut dyn Write) -> Result {
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
}
