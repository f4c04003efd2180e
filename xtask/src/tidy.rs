//! `cargo xtask tidy`: the rules about the source that no compiler checks, each in its own file.
//!
//! ```text
//! cargo metadata ─▶ graph ─────────────────────────────┐
//! files ─▶ lexer ─▶ headers · unsafety · purity ·      ├─▶ violations, all of them
//!                   circle · leftovers · opens ·       │
//!                   format_page · links · listeners ·  │
//!                   owners · proofs · assertions ·     │
//!                   voice ─────────────────────────────┘
//! ```
//!
//! A rule is a pure function from its input to [`Violation`]s, so that its tests can show it
//! failing. Rules match words, not meaning, and do not repeat checks of clippy or the type system.

use std::fmt;
use std::fs;

use crate::workspace::Workspace;

mod assertions;
mod circle;
mod format_page;
mod graph;
mod headers;
mod leftovers;
mod lexer;
mod links;
mod listeners;
mod opens;
mod owners;
mod proofs;
mod purity;
mod unsafety;
mod voice;

/// A violated rule, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    /// The rule's name, as in ARCHITECTURE.md.
    rule: &'static str,
    /// A path, `path:line`, or the name of a crate.
    place: String,
    /// The violation, and how to fix it.
    message: String,
}

impl Violation {
    fn new(rule: &'static str, place: impl Into<String>, message: impl Into<String>) -> Self {
        Violation { rule, place: place.into(), message: message.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: [{}] {}", self.place, self.rule, self.message)
    }
}

/// Checks every rule and prints every violation.
///
/// With `bless`, first writes the hash of the sources that define formats into the format page.
///
/// # Errors
/// When a rule is violated, or the source can't be read.
pub(crate) fn run(workspace: &Workspace, bless: bool) -> Result<(), String> {
    let mut files = workspace.files()?;
    if bless {
        let page = format_page::bless(&files)?;
        let path = workspace.root.join(format_page::PAGE);
        fs::write(&path, &page).map_err(|error| format!("could not write {}: {error}", path.display()))?;
        let file = files.iter_mut().find(|file| file.path == format_page::PAGE).expect("bless found the page");
        file.text = page;
    }

    let mut violations = graph::check(&graph::packages(&workspace.metadata)?);
    let rules = [
        headers::check,
        unsafety::check,
        purity::check,
        circle::check,
        assertions::check,
        leftovers::check,
        opens::check,
        format_page::check,
        links::check,
        listeners::check,
        owners::check,
        proofs::check,
        voice::check,
    ];
    for rule in rules {
        violations.extend(rule(&files));
    }
    if violations.is_empty() {
        println!("tidy: {} files pass every rule", files.len());
        return Ok(());
    }
    for violation in &violations {
        eprintln!("{violation}");
    }
    Err(format!("tidy: {} violations", violations.len()))
}

/// Prints every hit of the rule `voice` in one crate or page, within its limits or not.
///
/// # Errors
/// When the crate or page does not exist, or the source can't be read.
pub(crate) fn voice(workspace: &Workspace, unit: &str) -> Result<(), String> {
    voice::list(&workspace.files()?, unit)
}

/// Whether this is a Rust file.
fn is_rust(path: &str) -> bool {
    path.ends_with(".rs")
}

/// Whether this file contains only tests: `tests.rs`, `codec_tests.rs`, a file in a directory
/// `tests`.
fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.ends_with("_tests.rs") || path.contains("/tests/")
}

#[cfg(test)]
fn file(path: &str, text: &str) -> crate::workspace::SourceFile {
    crate::workspace::SourceFile { path: path.to_owned(), text: text.to_owned() }
}
