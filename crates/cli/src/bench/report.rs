//! A report: what `quire bench --json` printed, read back.

use std::path::Path;

use super::heading::Heading;
use super::measurement::Measurement;
use crate::failure::{Failure, Result};

/// The heading of a run, and its results.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) heading: Heading,
    pub(super) results: Vec<Measurement>,
}

impl Report {
    /// Reads a file. Of several runs behind each other, the results of all, under the first one's heading.
    ///
    /// # Errors
    /// When it can't be read, or a line is not one of a report; the line is named.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| Failure::at(format_args!("read {}", path.display()), error))?;
        Report::parse(&text).map_err(|problem| Failure::new(format!("{}: {problem}", path.display())))
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut heading = None;
        let mut results = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            if let Ok(result) = serde_json::from_str(line) {
                results.push(result);
            } else {
                let read: Heading = serde_json::from_str(line)
                    .map_err(|error| format!("line {number} is not one of `quire bench --json`: {error}"))?;
                heading.get_or_insert(read);
            }
        }
        let heading = heading.ok_or("it has no heading: it is not what `quire bench --json` prints")?;
        Ok(Report { heading, results })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_report_is_told_with_its_line() {
        assert!(Report::parse("").expect_err("nothing").contains("no heading"));
        assert!(Report::parse("{}\n").expect_err("no line of one").contains("line 1 is not one"));
    }
}
