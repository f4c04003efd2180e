//! `cargo xtask tidy`: the rules about the source that no compiler checks, each in its own file.
//!
//! ```text
//! cargo metadata ─▶ graph ─────────────────────────────┐
//! files ─▶ lexer ─▶ headers · unsafety · purity ·      ├─▶ violations, all of them
//!                   circle · leftovers · format_page · │
//!                   links · proofs · voice ────────────┘
//! ```
//!
//! A rule is a pure function from what it looks at to [`Violation`]s, so that its tests can show it failing. Rules
//! look at words, not at meaning: what clippy or the type system can check is not checked here again.

use std::fmt;
use std::fs;

use crate::workspace::Workspace;

mod circle;
mod format_page;
mod graph;
mod headers;
mod leftovers;
mod lexer;
mod links;
mod proofs;
mod purity;
mod unsafety;
mod voice;

/// A rule that is not kept, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    /// The rule's name, as ARCHITECTURE.md has it.
    rule: &'static str,
    /// A path, `path:line`, or the name of a crate.
    place: String,
    /// What is wrong, and what to do.
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
/// When a rule is not kept, or the source can't be read.
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
        leftovers::check,
        format_page::check,
        links::check,
        proofs::check,
        voice::check,
    ];
    for rule in rules {
        violations.extend(rule(&files));
    }
    if violations.is_empty() {
        println!("tidy: {} files keep every rule", files.len());
        return Ok(());
    }
    for violation in &violations {
        eprintln!("{violation}");
    }
    Err(format!("tidy: {} violations", violations.len()))
}

/// Prints everything that the rule `voice` finds in one crate or page, within its limits or not.
///
/// # Errors
/// When there is no such crate or page, or the source can't be read.
pub(crate) fn voice(workspace: &Workspace, unit: &str) -> Result<(), String> {
    voice::list(&workspace.files()?, unit)
}

/// Whether this is a Rust file of the workspace.
fn is_rust(path: &str) -> bool {
    path.ends_with(".rs")
}

/// Whether this file holds tests alone: `tests.rs`, `codec_tests.rs`, anything in a folder `tests`.
fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.ends_with("_tests.rs") || path.contains("/tests/")
}

#[cfg(test)]
fn file(path: &str, text: &str) -> crate::workspace::SourceFile {
    crate::workspace::SourceFile { path: path.to_owned(), text: text.to_owned() }
}
