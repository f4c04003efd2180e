//! Rule `leftover`: the source contains no notes for later, stubs, ignored tests or merge
//! conflicts.
//!
//! Notes are searched in comments of Rust and anywhere in other code; pages (`*.md`) may contain
//! them. Conflicts are searched in every file.

use super::{Violation, is_rust, lexer};
use crate::workspace::SourceFile;

const NOTES: [&str; 3] = ["TODO", "FIXME", "XXX"];

/// Forbidden Rust code, and what to do instead. Spaces between tokens do not hide it.
const STUBS: [(&str, &str); 5] = [
    ("todo!", "write it, or leave it out"),
    ("unimplemented!", "write it, or leave it out"),
    ("dbg!", "remove it"),
    ("#[ignore", "a test runs or is deleted"),
    ("dead_code", "delete what nobody uses"),
];

const OTHER_CODE: [&str; 5] = [".toml", ".py", ".sh", ".yml", ".proto"];

/// The prefixes of lines in which git left two versions.
const CONFLICTS: [&str; 2] = ["<<<<<<< ", ">>>>>>> "];

pub(super) fn check(files: &[SourceFile]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in files {
        for (number, line) in (1..).zip(file.text.lines()) {
            if let Some(mark) = CONFLICTS.iter().find(|mark| line.starts_with(**mark)) {
                let message = format!("`{}`: resolve the conflict", mark.trim_end());
                violations.push(Violation::new("leftover", format!("{}:{number}", file.path), message));
            }
        }
        let rust = is_rust(&file.path);
        let is_other_code =
            file.path.starts_with(".ci/") || OTHER_CODE.iter().any(|ending| file.path.ends_with(ending));
        if !rust && !is_other_code {
            continue;
        }
        let mut report = |line: usize, what: &str, instead: &str| {
            let message = format!("`{what}`: {instead}");
            violations.push(Violation::new("leftover", format!("{}:{line}", file.path), message));
        };
        let comments = if rust { lexer::comments(&file.text) } else { file.text.clone() };
        for note in NOTES {
            lexer::lines_with(&comments, note).for_each(|line| report(line, note, "do it now, or open an issue"));
        }
        if rust {
            let code = lexer::code(&file.text);
            let dense: Vec<String> = code.lines().map(|line| line.replace(' ', "")).collect();
            let dense = dense.join("\n");
            for (stub, instead) in STUBS {
                lexer::lines_with(&dense, stub).for_each(|line| report(line, stub, instead));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[track_caller]
    fn check_one(path: &str, text: &str, expect: &[(&str, &str)]) {
        let violations = check(&[file(path, text)]);
        let found: Vec<_> =
            violations.iter().map(|violation| (violation.place.as_str(), violation.message.as_str())).collect();
        assert_eq!(found.len(), expect.len(), "{found:?}");
        for ((place, message), (at, what)) in found.iter().zip(expect) {
            assert_eq!(place, at);
            assert!(message.contains(what), "{message}");
        }
    }

    #[test]
    fn each_note_is_found_in_comments_and_not_in_strings_or_names() {
        for note in NOTES {
            check_one("a.rs", &format!("//! A.\n// {note}: later\n"), &[("a.rs:2", note)]);
            check_one("a.py", &format!("# {note}\n"), &[("a.py:1", note)]);
            check_one(".ci/run", &format!("# {note}\n"), &[(".ci/run:1", note)]);
            check_one("a.rs", &format!("let a = \"{note}\"; let b = {note}S;"), &[]);
            check_one("a.md", &format!("no {note} here"), &[]);
        }
    }

    #[test]
    fn conflicts_are_found_in_every_file() {
        for path in ["a.rs", "a.md", "a.json"] {
            check_one(path, &format!("//! A.\n{}main\nb\n", CONFLICTS[0]), &[(&format!("{path}:2"), "resolve")]);
            check_one(path, &format!("//! A.\n{}topic\n", CONFLICTS[1]), &[(&format!("{path}:2"), "resolve")]);
            check_one(path, "//! A.\n>>> a = 1\n  <<<<<<< \n", &[]);
        }
    }

    #[test]
    fn each_stub_is_found_in_code_and_not_in_comments() {
        check_one("a.rs", "fn f() {\n    todo!()\n}", &[("a.rs:2", "todo!")]);
        check_one("a.rs", "unimplemented!(\"x\")", &[("a.rs:1", "unimplemented!")]);
        check_one("a.rs", "let a = dbg!(b);", &[("a.rs:1", "dbg!")]);
        check_one("a.rs", "#[test]\n#[ignore = \"slow\"]\nfn f() {}", &[("a.rs:2", "#[ignore")]);
        check_one("a.rs", "#![allow(dead_code)]", &[("a.rs:1", "dead_code")]);
        check_one("a.rs", "#[expect(unused,\n    dead_code)]", &[("a.rs:2", "dead_code")]);
        check_one("a.rs", "// todo!() and #[ignore] are for others\nlet s = \"dbg!\";", &[]);
    }
}
