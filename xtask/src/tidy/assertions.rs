//! Rule `assertion`: the log states its invariants as assertions, at least 28 per 100 functions.
//!
//! An assertion stops the process before a violated invariant reaches the disk, and cannot become
//! untrue unnoticed as a comment can. The rule counts `assert!`, `debug_assert!` and their variants
//! outside of tests, and functions with a body. It leaves out the folders that read damaged files:
//! there a violated expectation is an error for the caller.

use super::circle::{tokens, without_tests};
use super::{Violation, is_rust, is_test, lexer};
use crate::workspace::SourceFile;

/// The source folder of the log.
const LOG: &str = "crates/log/src/";

/// The folders of the log without assertions: they read files that may be damaged in any way, or
/// hold tests.
const LEFT_OUT: [&str; 3] = ["crates/log/src/inspect/", "crates/log/src/salvage/", "crates/log/src/explored/"];

/// The least number of assertions per 100 functions.
const PER_HUNDRED_MIN: usize = 28;

const ASSERTIONS: [&str; 6] =
    ["assert", "assert_eq", "assert_ne", "debug_assert", "debug_assert_eq", "debug_assert_ne"];

pub(super) fn check(files: &[SourceFile]) -> Vec<Violation> {
    let counts = |path: &str| {
        path.starts_with(LOG) && is_rust(path) && !is_test(path) && !LEFT_OUT.iter().any(|left| path.starts_with(left))
    };
    let (functions, assertions) = files
        .iter()
        .filter(|file| counts(&file.path))
        .map(|file| count(&file.text))
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    if assertions * 100 >= functions * PER_HUNDRED_MIN {
        return Vec::new();
    }
    let message = format!(
        "{assertions} assertions in {functions} functions, expected at least {PER_HUNDRED_MIN} per 100: state preconditions and invariants of new code as assertions"
    );
    vec![Violation::new("assertion", LOG, message)]
}

/// The functions with a body and the assertions of a file, without its tests.
fn count(text: &str) -> (usize, usize) {
    let code = lexer::code(text);
    let all = tokens(&code);
    let tokens = without_tests(&all);
    let is_name = |token: &&str| token.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let has_body = |at: usize| tokens[at..].iter().find(|token| matches!(**token, "{" | ";")) == Some(&"{");
    let functions =
        (0..tokens.len()).filter(|at| tokens[*at] == "fn" && tokens.get(at + 1).is_some_and(is_name) && has_body(*at));
    let assertions = tokens.windows(2).filter(|pair| ASSERTIONS.contains(&pair[0]) && pair[1] == "!");
    (functions.count(), assertions.count())
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn functions_with_a_body_and_assertions_outside_of_tests_are_counted() {
        let text = "trait T { fn declared(&self); }\nfn one(f: fn(u8)) { assert!(true); }\n\
            fn two() { debug_assert_eq!(1, 1); } // assert!(false)\nconst _: () = assert!(true);\n\
            #[cfg(test)]\nmod tests { fn three() { assert!(true); } }";
        assert_eq!(count(text), (2, 3));
    }

    #[test]
    fn too_few_assertions_are_a_violation_and_other_folders_do_not_count() {
        let log = |body: &str| file("crates/log/src/a.rs", body);
        let with = "fn a() { assert!(true); } fn b() {} fn c() {}";
        assert_eq!(check(&[log(with)]), []);
        let found = check(&[log("fn a() { assert!(true); } fn b() {} fn c() {} fn d() {}")]);
        assert!(found[0].message.starts_with("1 assertions in 4 functions, expected at least 28"), "{found:?}");
        let elsewhere = ["crates/log/src/salvage/a.rs", "crates/log/src/explored/a.rs", "crates/log/tests/a.rs"];
        for path in elsewhere.into_iter().chain(["crates/shard/src/a.rs"]) {
            assert_eq!(check(&[log(with), file(path, "fn a() {} fn b() {}")]), [], "{path}");
        }
    }
}
