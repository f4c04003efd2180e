//! Rule `purity`: the contract and the models are `no_std`, and reach no clock, thread, file or
//! randomness.
//!
//! It checks the source of the library; tests (`tests/`, `tests.rs`, `*_tests.rs`) may use the
//! standard library.

use super::{Violation, is_rust, is_test, lexer};
use crate::workspace::SourceFile;

const PURE: [&str; 6] = ["model", "streams", "events", "jobs", "graph", "system"];

/// With `no_std` none of these exists, unless the crate imports `std`.
const BANNED: [&str; 6] = ["std", "SystemTime", "Instant", "rand", "fastrand", "getrandom"];

pub(super) fn check(files: &[SourceFile]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for name in PURE {
        let source = format!("crates/{name}/src/");
        let root = format!("{source}lib.rs");
        match files.iter().find(|file| file.path == root) {
            None => violations.push(Violation::new("purity", root, "the pure crate has no such file")),
            Some(file) if !lexer::code(&file.text).contains("#![no_std]") => {
                violations.push(Violation::new("purity", root, "add `#![no_std]`: a model runs where nothing else is"));
            }
            Some(_) => {}
        }
        for file in files.iter().filter(|file| file.path.starts_with(&source) && is_rust(&file.path)) {
            if is_test(&file.path) {
                continue;
            }
            let code = lexer::code(&file.text);
            for word in BANNED {
                for line in lexer::lines_with(&code, word) {
                    let message =
                        format!("`{word}` in a pure crate: time and ids come from `At`, reads from `History`");
                    violations.push(Violation::new("purity", format!("{}:{line}", file.path), message));
                }
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn pure_crates() -> Vec<SourceFile> {
        PURE.iter().map(|name| file(&format!("crates/{name}/src/lib.rs"), "//! Doc.\n#![no_std]\n")).collect()
    }

    #[test]
    fn pure_crates_pass_and_their_tests_may_use_the_standard_library() {
        let mut files = pure_crates();
        files.push(file(
            "crates/jobs/src/state.rs",
            "// std::time is not for us\nuse alloc::vec::Vec;\nlet operand = 1;",
        ));
        files.push(file("crates/jobs/tests/all.rs", "use std::time::SystemTime;"));
        files.push(file("crates/jobs/src/state/tests.rs", "use std::fs;"));
        files.push(file("crates/jobs/src/codec_tests.rs", "extern crate std;"));
        assert_eq!(check(&files), []);
    }

    #[test]
    fn a_model_that_reaches_for_the_world_is_named() {
        let mut files = pure_crates();
        files[1].text = "//! Doc. `#![no_std]`\n".to_owned();
        files.push(file("crates/events/src/a.rs", "//! A.\nuse std::time::SystemTime;\nlet x = rand::random();\n"));
        let places: Vec<_> = check(&files).into_iter().map(|violation| violation.place).collect();
        let of_events = |line| format!("crates/events/src/a.rs:{line}");
        assert_eq!(places, ["crates/streams/src/lib.rs".to_owned(), of_events(2), of_events(2), of_events(3)]);
    }

    #[test]
    fn a_pure_crate_that_moved_away_is_noticed() {
        let files: Vec<_> = pure_crates().into_iter().skip(1).collect();
        assert_eq!(check(&files).len(), 1);
    }
}
