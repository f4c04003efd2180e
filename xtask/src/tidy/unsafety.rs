//! Rule `unsafe`: the only unsafe code of the project is in `crates/mapped`.
//!
//! The lint `unsafe_code = "forbid"` checks the same in crates that use the workspace's lints; this
//! rule also covers a crate that does not.

use super::{Violation, is_rust, lexer};
use crate::workspace::SourceFile;

const HOME: &str = "crates/mapped/";

pub(super) fn check(files: &[SourceFile]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in files.iter().filter(|file| is_rust(&file.path) && !file.path.starts_with(HOME)) {
        for line in lexer::lines_with(&lexer::code(&file.text), "unsafe") {
            let message = "`unsafe` stands only in crates/mapped: put a safe function there";
            violations.push(Violation::new("unsafe", format!("{}:{line}", file.path), message));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn unsafe_code_outside_its_home_is_named_with_its_line() {
        let files = [
            file("crates/mapped/src/map.rs", "unsafe { f() }"),
            file("crates/log/src/a.rs", "// unsafe\nlet s = \"unsafe\";\n#![forbid(unsafe_code)]\n"),
            file("crates/log/src/b.rs", "//! B.\nfn f() {\n    unsafe { g() }\n}\n"),
        ];
        let places: Vec<_> = check(&files).into_iter().map(|violation| violation.place).collect();
        assert_eq!(places, ["crates/log/src/b.rs:3"]);
    }
}
