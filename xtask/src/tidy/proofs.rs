//! Rule `proof`: a test that a page names exists.
//!
//! It treats every code span that is a name of five words or more as a test, and searches a
//! function of that name. It does not check what the test proves. A decision describes its time,
//! and may name a test that was removed. The names of metrics and settings are compared with the
//! program by tests of their own.

use std::collections::BTreeSet;

use super::{Violation, is_rust};
use crate::workspace::SourceFile;

/// The minimum number of words in a test's name: settings and functions have fewer.
const WORDS_MIN: usize = 5;

const DECISIONS: &str = "docs/decisions/";

/// Pages of names that are no tests.
const OF_OTHER_NAMES: [&str; 2] = ["docs/metrics.md", "docs/settings.md"];

pub(super) fn check(files: &[SourceFile]) -> Vec<Violation> {
    let rust = files.iter().filter(|file| is_rust(&file.path));
    let there: BTreeSet<&str> = rust.flat_map(|file| file.text.lines().filter_map(function)).collect();
    let mut violations = Vec::new();
    let is_checked = |path: &str| !path.starts_with(DECISIONS) && !OF_OTHER_NAMES.contains(&path);
    for page in files.iter().filter(|file| file.path.ends_with(".md") && is_checked(&file.path)) {
        for (number, line) in (1..).zip(page.text.lines()) {
            let spans = line.split('`').skip(1).step_by(2);
            for name in spans.filter(|span| is_test_name(span) && !there.contains(span)) {
                let message = format!("there is no test `{name}`: it was renamed, or goes from the page");
                violations.push(Violation::new("proof", format!("{}:{number}", page.path), message));
            }
        }
    }
    violations
}

/// The name of the function that begins on a line.
fn function(line: &str) -> Option<&str> {
    let (_, behind) = line.split_once("fn ")?;
    behind.split(['(', '<']).next()
}

fn is_test_name(span: &str) -> bool {
    let is_word = |word: &str| word.chars().all(|char| char.is_ascii_lowercase() || char.is_ascii_digit());
    let words = span.split('_');
    words.clone().count() >= WORDS_MIN && words.clone().all(|word| !word.is_empty() && is_word(word))
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn a_test_that_is_not_there_is_named_with_its_page() {
        let files = [
            file("crates/a/src/a.rs", "#[test]\nfn what_is_there_is_found() {\n"),
            file(
                "docs/a.md",
                "`what_is_there_is_found`, `an_other_setting`, `cargo test`\n`what_was_there_is_gone` (a)\n",
            ),
        ];
        let places: Vec<_> = check(&files).into_iter().map(|violation| violation.place).collect();
        assert_eq!(places, ["docs/a.md:2"]);
    }
}
