//! Rule `voice`: comments, pages and the names of types are written in plain technical English.
//!
//! ```text
//! files ─▶ prose: paragraphs ─▶ habits: hits        ─▶ at most 1 per 1,000 words ─┐
//!                 sentences  ─▶ more than 25 words  ─▶ at most 8 %                ├─▶ violations
//!                 lines      ─▶ wider than 100      ─▶ none                       │
//!                 words      ─▶ types without backticks ─▶ none                   │
//!       ─▶ types: names      ─▶ no nouns, or twice  ─▶ none                       ┘
//! ```
//!
//! The limits hold for each crate and for each page. What a habit is, and which words to use instead,
//! stands in [`habits`]; the exceptions for names stand in [`types`].

use std::collections::BTreeMap;

use super::{Violation, is_rust};
use crate::workspace::SourceFile;

mod habits;
mod prose;
mod types;

const RULE: &str = "voice";

/// The words for which a crate or a page may have one hit.
const WORDS_PER_HIT: usize = 1_000;

/// A sentence with more words is long.
const SENTENCE_WORDS_MAX: usize = 25;

/// How many of a hundred sentences may be long.
const LONG_PERCENT_MAX: usize = 8;

/// What the rule counted in a crate or a page.
#[derive(Debug, Default)]
struct Count {
    words: usize,
    sentences: usize,
    hits: Vec<Violation>,
    long: Vec<Violation>,
    wide: Vec<Violation>,
    names: Vec<Violation>,
}

impl Count {
    /// The violations of wording: of each kind all hits, if there are more than allowed.
    fn wording(&mut self, unit: &str) -> Vec<Violation> {
        let mut violations = Vec::new();
        let hits_max = (self.words / WORDS_PER_HIT).max(1);
        if self.hits.len() > hits_max {
            let message = format!("{} hits in {} words; at most {hits_max}", self.hits.len(), self.words);
            violations.append(&mut self.hits);
            violations.push(Violation::new(RULE, unit, message));
        }
        let long_max = (self.sentences * LONG_PERCENT_MAX / 100).max(1);
        if self.long.len() > long_max {
            let message = format!(
                "{} of {} sentences have more than {SENTENCE_WORDS_MAX} words; at most {long_max}",
                self.long.len(),
                self.sentences
            );
            violations.append(&mut self.long);
            violations.push(Violation::new(RULE, unit, message));
        }
        violations.append(&mut self.wide);
        violations
    }

    fn summary(&self) -> String {
        format!(
            "{} hits in {} words, {} of {} sentences too long, {} lines too wide, {} names",
            self.hits.len(),
            self.words,
            self.long.len(),
            self.sentences,
            self.wide.len(),
            self.names.len()
        )
    }
}

pub(super) fn check(files: &[SourceFile]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (unit, mut count) in counts(files) {
        violations.extend(count.wording(&unit));
        violations.append(&mut count.names);
    }
    violations
}

/// Everything that the rule finds in a crate or a page, within the limits or not.
///
/// # Errors
/// When there is no such crate or page.
pub(super) fn list(files: &[SourceFile], unit: &str) -> Result<(), String> {
    let unit = unit.trim_end_matches('/');
    let mut counts = counts(files);
    let Some(count) = counts.remove(unit) else {
        let units: Vec<_> = counts.into_keys().collect();
        return Err(format!("`--voice` takes a crate or a page, not `{unit}`: one of {}", units.join(", ")));
    };
    let summary = count.summary();
    for violation in count.hits.iter().chain(&count.long).chain(&count.wide).chain(&count.names) {
        println!("{violation}");
    }
    println!("{unit}: {summary}");
    Ok(())
}

/// The count of each crate and page. A name of two types counts for the crate of its second
/// definition.
fn counts(files: &[SourceFile]) -> BTreeMap<String, Count> {
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    let types = types::types(files);
    for file in files {
        let Some(unit) = unit(&file.path) else { continue };
        let count = counts.entry(unit).or_default();
        if file.text.contains("// This file is @generated") {
            continue;
        }
        for paragraph in prose::paragraphs(&file.path, &file.text) {
            let place = || format!("{}:{}", file.path, paragraph.line);
            count.words += prose::words(&paragraph.text);
            if is_rust(&file.path) {
                count.names.extend(types::bare(&file.path, &paragraph.text, &types).into_iter().map(|name| {
                    let message = format!("`{name}` is a type: write it as code, or the word that is meant");
                    Violation::new(RULE, place(), message)
                }));
            }
            for sentence in prose::sentences(&paragraph.text) {
                count.sentences += 1;
                let words = sentence.split_whitespace().count();
                if words > SENTENCE_WORDS_MAX {
                    let message = format!("{words} words: split it, or make a list: {}", shortened(sentence));
                    count.long.push(Violation::new(RULE, place(), message));
                }
            }
            for habit in habits::HABITS {
                let hits = habit.hits(&paragraph.text).into_iter().map(|(from, to)| {
                    let hit = &paragraph.text[from..to];
                    let message = format!("\"{hit}\" ({}): write {}", habit.name, habit.instead);
                    Violation::new(RULE, place(), message)
                });
                count.hits.extend(hits);
            }
        }
        count.wide.extend(prose::too_wide(&file.path, &file.text).into_iter().map(|line| {
            Violation::new(RULE, format!("{}:{line}", file.path), "the comment is wider than 100 columns: wrap it")
        }));
    }
    for complaint in types::complaints(&types) {
        let Some(unit) = unit(&complaint.at.path) else { continue };
        let place = format!("{}:{}", complaint.at.path, complaint.at.line);
        counts.entry(unit).or_default().names.push(Violation::new(RULE, place, complaint.message));
    }
    counts
}

/// The crate or page that a file counts for: a page for itself, a source file for its crate.
fn unit(path: &str) -> Option<String> {
    if path.ends_with(".md") {
        return Some(path.to_owned());
    }
    let is_source = is_rust(path) || path.ends_with(".proto");
    let mut names = path.split('/');
    let first = names.next()?;
    match (is_source, first) {
        (false, _) => None,
        (true, "crates") => Some(format!("crates/{}", names.next()?)),
        (true, other) => Some(other.to_owned()),
    }
}

fn shortened(sentence: &str) -> String {
    let words: Vec<_> = sentence.split_whitespace().take(8).collect();
    format!("{} …", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn messages(files: &[SourceFile]) -> Vec<String> {
        let counts = counts(files);
        let violations = counts.into_iter().flat_map(|(unit, mut count)| {
            let wording = count.wording(&unit);
            wording.into_iter().chain(count.names)
        });
        violations.map(|one| one.to_string()).collect()
    }

    #[test]
    fn one_hit_passes_and_the_second_is_named_with_both() {
        assert_eq!(messages(&[file("docs/a.md", "Nobody reads.")]), [""; 0]);
        let two = messages(&[file("docs/a.md", "Nobody reads.\n\nIt is told.")]);
        assert_eq!(two.len(), 3);
        assert_eq!(
            two[0],
            "docs/a.md:1: [voice] \"Nobody\" (somebody, nobody): write name the actor: another process, no reader, every client"
        );
        assert!(two[1].starts_with("docs/a.md:3: [voice] \"told\""), "{}", two[1]);
        assert_eq!(two[2], "docs/a.md: [voice] 2 hits in 5 words; at most 1");
    }

    #[test]
    fn a_crate_is_counted_over_its_files_and_a_page_by_itself() {
        let hit = "// Nobody reads.\n";
        let crates = [file("crates/a/src/a.rs", hit), file("crates/a/tests/b.rs", hit), file("crates/b/src/a.rs", hit)];
        assert_eq!(
            messages(&crates).last().map(String::as_str),
            Some("crates/a: [voice] 2 hits in 4 words; at most 1")
        );
        let words = format!("Nobody reads. It is told. {}", "A word. ".repeat(1_000));
        assert_eq!(messages(&[file("docs/a.md", &words)]), [""; 0]);
    }

    #[test]
    fn long_sentences_are_named_above_eight_of_a_hundred() {
        let (long, short) = (format!("{}.\n\n", "word ".repeat(26)), "A word.\n\n");
        let page = |long_count, short_count| {
            messages(&[file("docs/a.md", &format!("{}{}", long.repeat(long_count), short.repeat(short_count)))])
        };
        assert_eq!(page(2, 23), [""; 0]);
        assert_eq!(page(3, 22).len(), 4);
        assert_eq!(page(1, 0), [""; 0]);
    }

    #[test]
    fn a_wide_comment_and_a_bad_name_are_named_at_once() {
        let text = format!("// {}\nstruct Told;\n", "word. ".repeat(20));
        let found = messages(&[file("crates/a/src/a.rs", &text)]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("crates/a/src/a.rs:1: [voice] the comment is wider"));
        assert!(found[1].starts_with("crates/a/src/a.rs:2: [voice] the type `Told`"));
    }

    #[test]
    fn a_name_of_two_types_counts_for_the_crate_of_the_second() {
        let counts = counts(&[file("crates/a/src/a.rs", "struct Place;"), file("crates/b/src/a.rs", "struct Place;")]);
        let names = |unit: &str| counts[unit].names.len();
        assert_eq!((names("crates/a"), names("crates/b")), (0, 1));
    }

    #[test]
    fn generated_code_is_left_out() {
        let text = "//! What.\n\n// This file is @generated by prost-build.\n/// Nobody is told.\n";
        assert_eq!(messages(&[file("crates/a/src/v1.rs", text)]), [""; 0]);
    }
}
