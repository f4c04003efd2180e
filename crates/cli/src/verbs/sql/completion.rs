//! Completion in the shell: tables, their columns, keywords, functions and commands.

use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};
use serde_json::json;

use super::commands::COMMANDS;
use super::statements::SqlText;
use crate::failure::{CommandError, Result};
use crate::verbs::client::{HttpClient, Path};

/// The words of a statement.
const KEYWORDS: &[&str] = &[
    "ALL",
    "AND",
    "AS",
    "ASC",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "COLLATE",
    "CROSS",
    "DESC",
    "DISTINCT",
    "ELSE",
    "END",
    "EXCEPT",
    "EXISTS",
    "EXPLAIN",
    "FROM",
    "GLOB",
    "GROUP",
    "HAVING",
    "IN",
    "INNER",
    "INTERSECT",
    "IS",
    "JOIN",
    "LEFT",
    "LIKE",
    "LIMIT",
    "MATCH",
    "NOT",
    "NULL",
    "OFFSET",
    "ON",
    "OR",
    "ORDER",
    "OVER",
    "PARTITION",
    "PLAN",
    "QUERY",
    "RECURSIVE",
    "SELECT",
    "THEN",
    "UNION",
    "USING",
    "VALUES",
    "WHEN",
    "WHERE",
    "WITH",
];

/// Functions that statements use most, and those of Quire.
const FUNCTIONS: &[&str] = &[
    "ago_ms(",
    "avg(",
    "block_id(",
    "coalesce(",
    "count(",
    "iif(",
    "iso(",
    "json_each(",
    "json_valid(",
    "length(",
    "max(",
    "min(",
    "now_ms(",
    "substr(",
    "sum(",
];

/// A table and its columns.
#[derive(Debug)]
struct TableColumns {
    table: String,
    columns: Vec<String>,
}

/// The tables that the shell completes.
#[derive(Debug)]
pub(super) struct SqlCompletion {
    tables: Vec<TableColumns>,
}

impl SqlCompletion {
    /// Reads the tables of a database.
    ///
    /// # Errors
    /// When it can't be reached.
    pub(super) fn read(client: &HttpClient) -> Result<Self> {
        let statement = json!({ "sql": "SELECT table_name, name FROM quire_columns" });
        let answer = client.post(&Path::new(&["sql"]), &statement)?;
        let mut tables: Vec<TableColumns> = Vec::new();
        for row in answer["rows"].as_array().into_iter().flatten() {
            let [Some(table), Some(column)] = [0, 1].map(|number| row[number].as_str()) else {
                return Err(CommandError::new("the names of the tables are no text"));
            };
            match tables.last_mut().filter(|last| last.table == table) {
                Some(last) => last.columns.push(column.to_owned()),
                None => tables.push(TableColumns { table: table.to_owned(), columns: vec![column.to_owned()] }),
            }
        }
        Ok(SqlCompletion { tables })
    }

    /// Whether there is a table with this name.
    pub(super) fn has_table(&self, name: &str) -> bool {
        self.tables.iter().any(|table| table.table == name)
    }

    /// Where the word before the cursor begins, and what it may become.
    fn candidates(&self, text: &str, cursor: usize) -> (usize, Vec<String>) {
        let before = &text[..cursor];
        let start = before.rfind(|letter: char| !is_of_word(letter)).map_or(0, |at| at + letter_len(before, at));
        if before.starts_with('.') {
            return self.of_command(before, start);
        }
        let known = SqlText::parse(before);
        if known.is_open() || known.code().len() != known.code().trim_end().len() && before.ends_with(is_of_word) {
            return (start, Vec::new());
        }
        let word = &before[start..];
        let code = SqlText::parse(text);
        let tokens = tokens(code.code());
        let named = |name: &str| self.tables.iter().find(|table| table.table.eq_ignore_ascii_case(name));
        let mut found: Vec<String> = Vec::new();
        if let Some(qualifier) = before[..start].strip_suffix('.') {
            let begin =
                qualifier.rfind(|letter: char| !is_of_word(letter)).map_or(0, |at| at + letter_len(qualifier, at));
            let table = named(&qualifier[begin..]).or_else(|| named(table_of_alias(&tokens, &qualifier[begin..])?));
            found.extend(table.into_iter().flat_map(|table| table.columns.iter().cloned()));
        } else if tokens_before(known.code(), start).is_some_and(|last| is_one_of(last, &["FROM", "JOIN"])) {
            found.extend(self.tables.iter().map(|table| table.table.clone()));
        } else {
            let mut mentioned: Vec<&TableColumns> = tokens.iter().filter_map(|token| named(token)).collect();
            if mentioned.is_empty() && !word.is_empty() {
                mentioned = self.tables.iter().collect();
            }
            found.extend(mentioned.into_iter().flat_map(|table| table.columns.iter().cloned()));
            if !word.is_empty() {
                found.extend(self.tables.iter().map(|table| table.table.clone()));
                found.extend(FUNCTIONS.iter().map(|function| (*function).to_owned()));
                let is_small = word.chars().all(|letter| !letter.is_ascii_uppercase());
                found.extend(KEYWORDS.iter().map(|keyword| match is_small {
                    true => keyword.to_ascii_lowercase(),
                    false => (*keyword).to_owned(),
                }));
            }
        }
        let begins = |name: &String| name.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word));
        found.retain(begins);
        found.sort();
        found.dedup();
        (start, found)
    }

    /// The same for a command of the shell.
    fn of_command(&self, before: &str, start: usize) -> (usize, Vec<String>) {
        let (start, names): (usize, Vec<&str>) = match before.split_once(' ') {
            None => (0, COMMANDS.iter().map(|command| command.name).collect()),
            Some((".mode", _)) => (start, vec!["csv", "json", "table"]),
            Some((".schema", _)) => (start, self.tables.iter().map(|table| &*table.table).collect()),
            Some(_) => (start, Vec::new()),
        };
        let word = &before[start..];
        (start, names.into_iter().filter(|name| name.starts_with(word)).map(str::to_owned).collect())
    }
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn letter_len(text: &str, at: usize) -> usize {
    text[at..].chars().next().map_or(0, char::len_utf8)
}

fn is_one_of(word: &str, words: &[&str]) -> bool {
    words.iter().any(|other| other.eq_ignore_ascii_case(word))
}

/// The words and the marks of a statement.
fn tokens(code: &str) -> Vec<&str> {
    let (mut tokens, mut rest) = (Vec::new(), code.trim_start());
    while let Some(first) = rest.chars().next() {
        let end = match is_of_word(first) {
            true => rest.find(|letter: char| !is_of_word(letter)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        tokens.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    tokens
}

/// The last token before a place.
fn tokens_before(code: &str, end: usize) -> Option<&str> {
    tokens(&code[..end]).pop()
}

/// The table with an alias: `events e`, or `events AS e`.
fn table_of_alias<'t>(tokens: &[&'t str], alias: &str) -> Option<&'t str> {
    let is_alias = |token: &str| token.eq_ignore_ascii_case(alias);
    let place = tokens.iter().enumerate().find_map(|(place, token)| {
        let before = place.checked_sub(1)?;
        let named = if is_one_of(tokens[before], &["AS"]) { before.checked_sub(1)? } else { before };
        let is_table = named > 0 && (is_one_of(tokens[named - 1], &["FROM", "JOIN"]) || tokens[named - 1] == ",");
        (is_alias(token) && is_table).then_some(named)
    })?;
    Some(tokens[place])
}

impl Completer for SqlCompletion {
    type Candidate = String;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.candidates(line, pos))
    }
}

impl Validator for SqlCompletion {
    /// Enter ends a statement after its `;`, and a command at once.
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let text = context.input();
        let is_complete = text.trim_start().starts_with('.') || SqlText::parse(text).is_complete();
        Ok(if is_complete { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

impl Hinter for SqlCompletion {
    type Hint = String;
}

impl Highlighter for SqlCompletion {}

impl Helper for SqlCompletion {}

#[cfg(test)]
mod tests {
    use super::*;

    fn completion() -> SqlCompletion {
        let table = |table: &str, columns: &[&str]| TableColumns {
            table: table.to_owned(),
            columns: columns.iter().map(|column| (*column).to_owned()).collect(),
        };
        SqlCompletion {
            tables: vec![table("events", &["store", "position", "type"]), table("jobs", &["id", "state", "payload"])],
        }
    }

    /// The candidates at the mark `|` of a text, each with the text before its word.
    #[track_caller]
    fn completed(text: &str, expected: &[&str]) {
        let (before, after) = text.split_once('|').expect("a mark");
        let (start, found) = completion().candidates(&format!("{before}{after}"), before.len());
        let whole: Vec<String> = found.iter().map(|name| format!("{}{name}", &before[..start])).collect();
        assert_eq!(whole, expected, "{text}");
    }

    #[test]
    fn tables_follow_from_and_join() {
        completed("SELECT * FROM |", &["SELECT * FROM events", "SELECT * FROM jobs"]);
        completed("select * from jobs join ev|", &["select * from jobs join events"]);
        completed("SELECT * FROM Jo|", &["SELECT * FROM jobs"]);
    }

    #[test]
    fn columns_are_those_of_the_named_tables() {
        completed("SELECT st| FROM jobs", &["SELECT state"]);
        completed("SELECT st|", &["SELECT state", "SELECT store"]);
        completed("SELECT p| FROM events", &["SELECT partition", "SELECT plan", "SELECT position"]);
        completed(
            "SELECT * FROM jobs WHERE |",
            &["SELECT * FROM jobs WHERE id", "SELECT * FROM jobs WHERE payload", "SELECT * FROM jobs WHERE state"],
        );
        completed("SELECT e.s| FROM jobs j, events AS e", &["SELECT e.store"]);
        completed("SELECT j.s| FROM jobs j JOIN events e", &["SELECT j.state"]);
        completed("SELECT jobs.s|", &["SELECT jobs.state"]);
        completed("SELECT x.s| FROM jobs j", &[]);
    }

    #[test]
    fn keywords_have_the_case_of_the_word() {
        completed("SEL|", &["SELECT"]);
        completed("sel|", &["select"]);
        completed("SELECT cou|", &["SELECT count("]);
        completed("|", &[]);
    }

    #[test]
    fn nothing_is_completed_in_quotes_and_comments() {
        completed("SELECT 'st|", &[]);
        completed("SELECT /* st|", &[]);
        completed("SELECT 1 -- st|", &[]);
    }

    #[test]
    fn commands_and_their_arguments_are_completed() {
        completed(".sc|", &[".schema"]);
        completed(".schema j|", &[".schema jobs"]);
        completed(".mode c|", &[".mode csv"]);
        completed(".quit |", &[]);
    }
}
