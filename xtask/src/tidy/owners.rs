//! Rule `owner`: only the database commits as the owner of its directory. A front end that did so
//! would skip the permissions of its client.
//!
//! It checks the source of the crates; their tests may commit as the owner.

use super::{Violation, is_rust, is_test, lexer};
use crate::workspace::SourceFile;

/// The constructor of commands that no guard checks.
const OWNER: &str = "by_owner";

/// The shard's own duties, and the handles of embedded programs.
const HOMES: [&str; 2] = ["crates/shard/src/", "crates/quire/src/database.rs"];

pub(super) fn check(files: &[SourceFile]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let ours = files.iter().filter(|file| file.path.starts_with("crates/") && is_rust(&file.path));
    for file in ours.filter(|file| !is_test(&file.path) && !HOMES.iter().any(|home| file.path.starts_with(home))) {
        let code = lexer::code(&file.text);
        let source = code.split("#[cfg(test)]").next().unwrap_or_default();
        for line in lexer::lines_with(source, OWNER) {
            let message = format!("`{OWNER}` skips the permissions of the client: commit through a guarded `Database`");
            violations.push(Violation::new("owner", format!("{}:{line}", file.path), message));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn check_of(path: &str, text: &str) -> Vec<String> {
        check(&[file(path, text)]).into_iter().map(|violation| violation.place).collect()
    }

    #[test]
    fn a_front_end_that_commits_as_the_owner_is_named() {
        let text = "//! A.\nshard.commit(now, &PermittedCommands::by_owner(commands), replies)\n";
        for path in ["crates/http/src/commit/mod.rs", "crates/kafka/src/broker.rs", "crates/quire/src/handles/topic.rs"]
        {
            assert_eq!(check_of(path, text), [format!("{path}:2")]);
        }
    }

    #[test]
    fn the_database_tests_and_comments_may_name_it() {
        let text = "let permitted = PermittedCommands::by_owner(commands);\n";
        for path in ["crates/shard/src/logged_state.rs", "crates/quire/src/database.rs", "crates/grpc/tests/it/jobs.rs"]
        {
            assert_eq!(check_of(path, text), [""; 0]);
        }
        let text = "// Not by_owner.\n#[cfg(test)]\nmod tests { fn a() { by_owner() } }\n";
        assert_eq!(check_of("crates/grpc/src/app.rs", text), [""; 0]);
    }
}
