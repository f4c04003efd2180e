//! Rule `listener`: only the crate `access` listens, so that every connection has its limits and
//! deadlines.
//!
//! It checks the source of the crates; their tests may listen.

use super::{Violation, is_rust, is_test, lexer};
use crate::workspace::SourceFile;

const HOME: &str = "crates/access/src/";

const LISTENERS: [&str; 3] = ["TcpListener", "UnixListener", "TcpSocket"];

/// The files that may listen too, with the reason.
const EXCEPT: [(&str, &str); 2] = [
    ("crates/chaos/src/round.rs", "it looks for a free port"),
    ("crates/bench/src/calibration.rs", "it measures the machine, with a connection to itself"),
];

pub(super) fn check(files: &[SourceFile]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, _) in EXCEPT {
        if !files.iter().any(|file| file.path == path && names_listener(file).next().is_some()) {
            violations.push(Violation::new("listener", path, "it does not listen: remove it from the exceptions"));
        }
    }
    let ours = files.iter().filter(|file| file.path.starts_with("crates/") && is_rust(&file.path));
    for file in ours.filter(|file| !file.path.starts_with(HOME) && !is_test(&file.path)) {
        if EXCEPT.iter().any(|(path, _)| file.path == *path) {
            continue;
        }
        for (line, name) in names_listener(file) {
            let message = format!("`{name}`: listen with `quire_access::Listener`, which has limits and deadlines");
            violations.push(Violation::new("listener", format!("{}:{line}", file.path), message));
        }
    }
    violations
}

/// The lines before the tests of a file that name a listener.
fn names_listener(file: &SourceFile) -> impl Iterator<Item = (usize, &'static str)> {
    let code = lexer::code(&file.text);
    let source = code.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
    LISTENERS.into_iter().flat_map(move |name| {
        let lines: Vec<_> = lexer::lines_with(&source, name).collect();
        lines.into_iter().map(move |line| (line, name))
    })
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn check_with(path: &str, text: &str) -> Vec<String> {
        let mut files: Vec<_> = EXCEPT.iter().map(|(path, _)| file(path, "use std::net::TcpListener;\n")).collect();
        files.push(file(path, text));
        check(&files).into_iter().map(|violation| violation.place).collect()
    }

    #[test]
    fn a_listener_outside_of_its_crate_is_named() {
        let text = "//! A.\nlet socket = tokio::net::TcpListener::bind(address);\n";
        assert_eq!(check_with("crates/http/src/server.rs", text), ["crates/http/src/server.rs:2"]);
        let text = "//! A.\nuse std::os::unix::net::UnixListener;\n";
        assert_eq!(check_with("crates/cli/src/serve.rs", text), ["crates/cli/src/serve.rs:2"]);
    }

    #[test]
    fn its_crate_tests_and_comments_may_name_it() {
        let text = "use tokio::net::TcpListener;\n";
        for path in ["crates/access/src/listener.rs", "crates/http/tests/it/server.rs", "tests/kafka/a.rs"] {
            assert_eq!(check_with(path, text), [""; 0]);
        }
        let text = "// Not a TcpListener.\n#[cfg(test)]\nmod tests { use std::net::TcpListener; }\n";
        assert_eq!(check_with("crates/cli/src/verbs/client.rs", text), [""; 0]);
    }

    #[test]
    fn an_unneeded_exception_is_named() {
        assert_eq!(check(&[]).len(), EXCEPT.len());
    }
}
