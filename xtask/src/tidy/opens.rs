//! Rule `opens`: the core opens files in one place, which refuses links, pipes and devices and
//! creates files for the owner alone.
//!
//! Tests, also at the end of a file, may use the standard library.

use super::{Violation, is_rust, is_test, lexer};
use crate::workspace::SourceFile;

/// Where files are opened.
const HOME: &str = "crates/log/src/storage/disk.rs";

/// The crates that reach files of a database or a backup.
const CORE: [&str; 4] = ["crates/mapped/src/", "crates/log/src/", "crates/shard/src/", "crates/quire/src/"];

const BANNED: [&str; 9] = [
    "File::open",
    "File::create",
    "File::create_new",
    "File::options",
    "OpenOptions",
    "fs::read",
    "fs::read_to_string",
    "fs::write",
    "fs::copy",
];

pub(super) fn check(files: &[SourceFile]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in files.iter().filter(|file| is_rust(&file.path) && file.path != HOME && !is_test(&file.path)) {
        if !CORE.iter().any(|source| file.path.starts_with(source)) {
            continue;
        }
        let code = lexer::code(&file.text);
        let code = code.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        for word in BANNED {
            for line in lexer::lines_with(code, word) {
                let message = format!("`{word}` opens a file past the storage: use `Storage::open` or `Storage::read`");
                violations.push(Violation::new("opens", format!("{}:{line}", file.path), message));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn a_file_that_is_opened_past_the_storage_is_named_with_its_line() {
        let files = [
            file(HOME, "File::open(path)"),
            file("crates/cli/src/a.rs", "std::fs::read(path)"),
            file("crates/quire/tests/a.rs", "fs::read(path)"),
            file(
                "crates/log/src/a.rs",
                "// File::open\nfs::read_dir(path)\n#[cfg(test)]\nmod tests {\n    fs::read(a)\n}\n",
            ),
            file("crates/log/src/b.rs", "//! B.\nfn f() {\n    std::fs::File::open(path)\n}\n"),
            file("crates/quire/src/c.rs", "use std::fs::OpenOptions;\nfs::write(path, b)\n"),
        ];
        let places: Vec<_> = check(&files).into_iter().map(|violation| violation.place).collect();
        assert_eq!(places, ["crates/log/src/b.rs:3", "crates/quire/src/c.rs:1", "crates/quire/src/c.rs:2"]);
    }
}
