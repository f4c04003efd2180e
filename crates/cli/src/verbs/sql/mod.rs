//! `quire sql`: read-only SQL, with the rows as a table, as CSV or as JSON; a shell on a terminal.

mod commands;
mod completion;
mod history;
mod interrupt;
mod result;
mod rows;
mod shell;
mod statements;

use std::fs;
use std::io::{self, IsTerminal, Read, Write};
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

#[cfg(feature = "parquet")]
pub(super) use self::statements::SqlText;

use self::rows::RowForm;
use self::shell::SqlShell;
use super::place::DatabaseArgs;
use crate::failure::{CommandError, Result, aside};

/// Arguments of `quire sql`.
#[derive(Debug, Args)]
pub(crate) struct SqlVerb {
    /// The statement, a SELECT; `quire sql "SELECT * FROM queues" --data DIR`. Without one, a
    /// terminal gets a shell
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

impl SqlVerb {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        let SqlVerb { statement, file, params, as_of, json, csv, place } = self;
        let form = if json {
            RowForm::Json
        } else if csv {
            RowForm::Csv
        } else {
            RowForm::Table
        };
        let statement = match (statement, file) {
            (Some(statement), _) => statement,
            (None, Some(file)) if file.as_os_str() == "-" => {
                let mut text = String::new();
                io::stdin().read_to_string(&mut text)?;
                text
            }
            (None, Some(file)) => fs::read_to_string(&file)
                .map_err(|error| CommandError::at(format_args!("read {}", file.display()), error))?,
            (None, None) if !params.is_empty() => {
                return Err(CommandError::Usage("--param needs a statement: the shell has no parameters".to_owned()));
            }
            (None, None) if io::stdin().is_terminal() && io::stdout().is_terminal() => {
                return place.visit(|client| SqlShell::start(client, form, as_of)?.run(out));
            }
            (None, None) => {
                let message = "no statement: give one, or --file FILE. The shell needs a terminal";
                return Err(CommandError::Usage(message.to_owned()));
            }
        };
        let params: Vec<Value> = params.iter().map(|text| parameter(text)).collect();
        let body = result::request(&statement, &params, as_of);
        place.visit(|client| {
            let summary = result::print(client, &body, form, out)?;
            if form == RowForm::Table {
                aside(format_args!("{summary}"));
            }
            Ok(())
        })
    }
}

/// Returns a whole number as an integer, and other text as text.
fn parameter(text: &str) -> Value {
    text.parse::<i64>().map_or_else(|_| json!(text), |number| json!(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_is_an_integer() {
        assert_eq!(parameter("-17"), json!(-17));
        assert_eq!(parameter("1.5"), json!("1.5"));
        assert_eq!(parameter("a"), json!("a"));
    }
}
