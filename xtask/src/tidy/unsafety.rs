//! Rule `unsafe`: the only unsafe code of the project is in `crates/mapped`, and in the one file of
//! `crates/vtab` that implements two unsafe traits.
//!
//! The lint `unsafe_code = "forbid"` checks the same in crates that use the workspace's lints; this
//! rule also covers a crate that does not.

use super::{Violation, is_rust, lexer};
use crate::workspace::SourceFile;

const HOMES: [&str; 2] = ["crates/mapped/", "crates/vtab/src/module.rs"];

pub(super) fn check(files: &[SourceFile]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let is_home = |path: &str| HOMES.iter().any(|home| path.starts_with(home));
    for file in files.iter().filter(|file| is_rust(&file.path) && !is_home(&file.path)) {
        for line in lexer::lines_with(&lexer::code(&file.text), "unsafe") {
            let message =
                "`unsafe` stands only in crates/mapped and crates/vtab/src/module.rs: put a safe function there";
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
            file("crates/vtab/src/module.rs", "unsafe impl VTab for T {}"),
            file("crates/vtab/src/lib.rs", "unsafe impl VTab for T {}"),
            file("crates/log/src/a.rs", "// unsafe\nlet s = \"unsafe\";\n#![forbid(unsafe_code)]\n"),
            file("crates/log/src/b.rs", "//! B.\nfn f() {\n    unsafe { g() }\n}\n"),
        ];
        let places: Vec<_> = check(&files).into_iter().map(|violation| violation.place).collect();
        assert_eq!(places, ["crates/vtab/src/lib.rs:1", "crates/log/src/b.rs:3"]);
    }
}
