//! A report: the output of `quire-bench --json`, read back.

use std::path::Path;

use serde_json::Value;

use super::heading::Heading;
use super::measurement::Measurement;
use quire_cli::failure::{CommandError, Result};

/// The heading of a run, and its results.
#[derive(Debug)]
pub(super) struct BenchReport {
    pub(super) heading: Heading,
    pub(super) results: Vec<Measurement>,
}

impl BenchReport {
    /// Reads a file. Several runs in one file become one report, under the first heading.
    ///
    /// # Errors
    /// When the file can't be read, a line is invalid, a case occurs twice, or the runs have
    /// different builds. The message names the line.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| CommandError::at(format_args!("read {}", path.display()), error))?;
        BenchReport::parse(&text).map_err(|problem| CommandError::new(format!("{}: {problem}", path.display())))
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut heading: Option<Heading> = None;
        let mut results: Vec<Measurement> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let wrong = |error| format!("line {number} is not one of `quire-bench --json`: {error}");
            let value: Value = serde_json::from_str(line).map_err(wrong)?;
            if value.get("case").is_some() {
                let result: Measurement = serde_json::from_value(value).map_err(wrong)?;
                if results.iter().any(|other| other.is_of_the_case_of(&result)) {
                    return Err(format!("line {number} is a second result of {}", result.name()));
                }
                results.push(result);
            } else {
                let read: Heading = serde_json::from_value(value).map_err(wrong)?;
                if heading.as_ref().is_some_and(|first| first.build != read.build) {
                    return Err(format!("line {number} begins a run of another build than the one before"));
                }
                heading.get_or_insert(read);
            }
        }
        let heading = heading.ok_or("it has no heading: it is not what `quire-bench --json` prints")?;
        Ok(BenchReport { heading, results })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_report_is_an_error_with_its_line() {
        assert!(BenchReport::parse("").expect_err("nothing").contains("no heading"));
        assert!(BenchReport::parse("{}\n").expect_err("no line of one").contains("line 1 is not one"));
        assert!(BenchReport::parse("{\"case\":7}\n").expect_err("no result").contains("line 1 is not one"));
    }
}
