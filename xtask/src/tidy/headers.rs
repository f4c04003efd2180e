//! Rule `header`: every Rust file begins with a `//!` paragraph that describes it.

use super::{Violation, is_rust};
use crate::workspace::SourceFile;

pub(super) fn check(files: &[SourceFile]) -> Vec<Violation> {
    let begins_with_doc = |text: &str| {
        text.lines().next().and_then(|line| line.strip_prefix("//!")).is_some_and(|doc| !doc.trim().is_empty())
    };
    files
        .iter()
        .filter(|file| is_rust(&file.path) && !begins_with_doc(&file.text))
        .map(|file| {
            let message = "begin the file with `//!`: what it is, the one invariant it keeps, what it does not do";
            Violation::new("header", &file.path, message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn a_file_without_a_paragraph_of_its_own_is_named() {
        let files = [
            file("crates/a/src/lib.rs", "//! What it is.\n"),
            file("crates/a/tests/t.rs", "use std::fs;\n\n//! Too late.\n"),
            file("crates/a/src/b.rs", "//!\nfn f() {}\n"),
            file("crates/a/src/c.rs", ""),
            file("crates/a/README.md", "# No Rust\n"),
        ];
        let places: Vec<_> = check(&files).into_iter().map(|violation| violation.place).collect();
        assert_eq!(places, ["crates/a/tests/t.rs", "crates/a/src/b.rs", "crates/a/src/c.rs"]);
    }
}
