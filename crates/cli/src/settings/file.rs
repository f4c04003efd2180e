//! A file of settings, in TOML.
//!
//! Invariant: a file is used as a whole or not at all. Every problem is reported, with its line.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, Command};
use toml::de::{DeTable, DeValue};

use super::key;
use crate::failure::{CommandError, Result};

/// How similar a name must be to be suggested, from 0 to 1.
const SIMILAR_MIN: f64 = 0.8;

/// Settings that a file can't have.
const NOT_IN_FILES: [&str; 3] = ["config", "help", "version"];

/// A file that was read and whose settings are valid.
#[derive(Debug)]
pub(super) struct SettingsFile {
    path: PathBuf,
    entries: Vec<FileEntry>,
}

/// A setting of the file.
#[derive(Debug)]
pub(super) struct FileEntry {
    /// The name of the flag.
    flag: String,
    values: Vec<String>,
    line: usize,
}

impl SettingsFile {
    /// Reads a file of settings for the flags of `serve`.
    ///
    /// # Errors
    /// When the file can't be read, is not TOML, or has an unknown or invalid setting.
    pub(super) fn read(path: &Path, serve: &Command) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| CommandError::at(format_args!("read the settings in {}", path.display()), error))?;
        match parse(&text, serve) {
            Ok(entries) => Ok(SettingsFile { path: path.to_owned(), entries }),
            Err(problems) => {
                let located = problems.iter().map(|(line, problem)| format!("line {line}: {problem}"));
                let located: Vec<_> = located.collect();
                Err(CommandError::new(format!("invalid settings in {}: {}", path.display(), located.join("; "))))
            }
        }
    }

    pub(super) fn into_path(self) -> PathBuf {
        self.path
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The line of a setting, if the file has it.
    pub(super) fn line_of(&self, flag: &str) -> Option<usize> {
        self.entries.iter().find(|entry| entry.flag == flag).map(|entry| entry.line)
    }

    /// Makes the settings of the file the defaults of the flags.
    pub(super) fn add_defaults(&self, command: Command) -> Command {
        command.mut_args(|arg| {
            let given = arg.get_long().and_then(|flag| self.entries.iter().find(|entry| entry.flag == flag));
            match given {
                // clap keeps defaults for the life of the process. A reload adds some bytes.
                Some(FileEntry { values, .. }) => {
                    let values: Vec<&'static str> = values.iter().map(|value| value.clone().leak() as _).collect();
                    arg.required(false).default_values(values)
                }
                None => arg,
            }
        })
    }
}

pub(super) type Problems = Vec<(usize, String)>;

/// Parses the text of a file, with the problems of an invalid one.
pub(super) fn parse(text: &str, serve: &Command) -> Result<Vec<FileEntry>, Problems> {
    let line_at = |byte: usize| text[..byte.min(text.len())].matches('\n').count() + 1;
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_at(span.start));
        vec![(line, error.message().to_owned())]
    })?;
    let (mut entries, mut problems) = (Vec::new(), Problems::new());
    for (name, value) in table.get_ref() {
        let line = line_at(name.span().start);
        match entry(name.get_ref(), value.get_ref(), serve) {
            Ok((flag, values)) => entries.push(FileEntry { flag, values, line }),
            Err(problem) => problems.push((line, problem)),
        }
    }
    problems.sort();
    if problems.is_empty() { Ok(entries) } else { Err(problems) }
}

/// The flag and the values of a setting.
fn entry(name: &str, value: &DeValue<'_>, serve: &Command) -> Result<(String, Vec<String>), String> {
    let flags = serve.get_arguments().filter_map(|arg| Some((arg, arg.get_long()?)));
    let known: Vec<_> = flags.filter(|(_, flag)| !NOT_IN_FILES.contains(flag)).collect();
    let Some(&(arg, flag)) = known.iter().find(|(_, flag)| key(flag) == name) else {
        let similar = known.iter().map(|(_, flag)| (strsim::jaro_winkler(&key(flag), name), key(flag)));
        let best = similar.max_by(|(one, _), (other, _)| one.total_cmp(other));
        let hint = match best.filter(|(similarity, _)| *similarity >= SIMILAR_MIN) {
            Some((_, key)) => format!("; did you mean `{key}`?"),
            None => "; `quire config print` lists the settings".to_owned(),
        };
        return Err(format!("unknown setting `{name}`{hint}"));
    };
    let values = match value {
        DeValue::Array(values) if takes_many(arg) => values.iter().map(|value| text_of(value.get_ref())).collect(),
        value => text_of(value).map(|value| vec![value]),
    };
    let values: Vec<String> = values.map_err(|kind| format!("`{name}` can't be {kind}"))?;
    for value in &values {
        check(serve, arg, flag, value).map_err(|problem| format!("invalid `{name}`: {problem}"))?;
    }
    Ok((flag.to_owned(), values))
}

fn takes_many(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

/// The text of a value, as a flag has it.
fn text_of(value: &DeValue<'_>) -> Result<String, &'static str> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Boolean(flag) => Ok(flag.to_string()),
        DeValue::Integer(number) => {
            let digits = number.as_str();
            let parsed = i128::from_str_radix(digits, number.radix());
            Ok(parsed.map_or_else(|_| digits.to_owned(), |number| number.to_string()))
        }
        DeValue::Float(number) => Ok(number.as_str().to_owned()),
        DeValue::Datetime(_) => Err("a date"),
        DeValue::Array(_) => Err("a list"),
        DeValue::Table(_) => Err("a table"),
    }
}

/// Checks a value as the flag would.
fn check(serve: &Command, arg: &Arg, flag: &str, value: &str) -> Result<(), String> {
    if matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::SetFalse) {
        let is_flag = matches!(value, "true" | "false");
        return if is_flag { Ok(()) } else { Err(format!("{value:?} is neither true nor false")) };
    }
    let alone = serve.clone().mut_args(|arg| arg.required(false)).no_binary_name(true);
    match alone.try_get_matches_from([format!("--{flag}={value}")]) {
        Ok(_) => Ok(()),
        Err(error) => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            Err(first.trim_start_matches("error: ").to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::Quire;

    fn check_file(text: &str, expect: &[(usize, &str)]) {
        let command = Quire::command();
        let problems = parse(text, super::super::serve_of(&command)).err().unwrap_or_default();
        let found: Vec<_> = problems.iter().map(|(line, problem)| (*line, problem.as_str())).collect();
        assert_eq!(found.len(), expect.len(), "{found:?}");
        for ((line, problem), (expected_line, expected)) in found.iter().zip(expect) {
            assert!(line == expected_line && problem.contains(expected), "{found:?}");
        }
    }

    #[test]
    fn valid_settings_have_no_problem() {
        check_file("", &[]);
        let text = "data = '/x'\nkafka_auto_create_topics = false\nkafka_frame_bytes_max = 2_000_000\nlog = \"warn\"\n\
            pack_segments = true\nkafka_connections_max = 0x10\nprofile = 'small-disk'\n";
        check_file(text, &[]);
    }

    #[test]
    fn every_problem_is_reported_with_its_line() {
        let text = "# settings\ndat = '/x'\n\nkafka_idle_timeout_ms = 'soon'\n[kafka]\nx = 1\n";
        check_file(
            text,
            &[
                (2, "unknown setting `dat`; did you mean `data`?"),
                (4, "invalid `kafka_idle_timeout_ms`: invalid value 'soon'"),
                (5, "`kafka` can't be a table"),
            ],
        );
        check_file(
            "durability = 'maybe'\nzzzz = 1",
            &[
                (1, "invalid `durability`: invalid value 'maybe'"),
                (2, "unknown setting `zzzz`; `quire config print` lists the settings"),
            ],
        );
        check_file("kafka-connections-max = 5", &[(1, "did you mean `kafka_connections_max`?")]);
        check_file("config = 'other.toml'", &[(1, "unknown setting `config`")]);
        check_file("log = 1979-05-27\nhttp = ['a']", &[(1, "`log` can't be a date"), (2, "`http` can't be a list")]);
    }

    #[test]
    fn invalid_toml_is_reported_with_its_line() {
        check_file("data = '/x'\nlog = \n", &[(2, "")]);
        check_file("data = '/x'\ndata = '/y'\n", &[(2, "duplicate key")]);
    }
}
