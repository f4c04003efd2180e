//! The shell of `quire sql` on a pseudo terminal: statements, commands, completion, history and
//! Ctrl-C.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::process::Signal;

use crate::support::{Server, quire};
use crate::terminal::OnTerminal;

const COMMIT: &str = r#"{"parts": [{"append": {"store": "s", "events": [{"type": "A"}, {"type": "B"}]}}]}"#;

const PROMPT: &str = "quire> ";

/// The shell turns this on when it reads a line, and off when it has one.
const PASTE_OFF: &str = "\x1b[?2004l";

/// It never ends, and returns no row.
const ENDLESS: &str = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c;";

/// A shell at its first prompt.
#[track_caller]
fn shell(place: [&str; 2], state: &Path) -> OnTerminal {
    let mut shell = OnTerminal::start(
        quire().arg("sql").args(place).env("XDG_STATE_HOME", state).env("TERM", "xterm").env_remove("QUIRE_HTTP"),
    );
    shell.until(PROMPT);
    shell
}

/// Enters a line. Waits for a text that it does not contain, and for the next prompt.
#[track_caller]
fn enter(shell: &mut OnTerminal, line: &str, expected: &str) {
    shell.type_keys(line);
    shell.type_keys("\r");
    shell.until(PASTE_OFF);
    shell.until(expected);
    shell.until(PROMPT);
}

#[track_caller]
fn quit(mut shell: OnTerminal) {
    shell.type_keys(".quit\r");
    assert_eq!(shell.ended(), Some(0));
    assert!(shell.is_canonical());
}

#[test]
fn the_shell_answers_statements_and_commands() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let server = Server::start(&data);
    assert_eq!(server.ask("POST", "/v1/commit", COMMIT).0, 200);
    let (data, url) = (data.to_str().expect("text"), format!("http://{}", server.http));
    for place in [["--http", &*url], ["--data", data]] {
        let mut shell = shell(place, &folder.path().join("state"));
        enter(&mut shell, "SELECT 17 AS n;", "n\r\n17\r\n1 row, 0 scanned, as of position ");
        shell.type_keys("SELECT position, type\rFROM events -- not yet;\r");
        enter(&mut shell, "WHERE store = 's';", "position  type\r\n1         A\r\n2         B\r\n2 rows, 2 scanned, ");
        enter(&mut shell, "SELECT FROM;", "\r\ninvalid SQL at byte 7");
        enter(&mut shell, ".tables", "\r\nquire_columns ");
        enter(&mut shell, ".schema jobs", "\r\nlast_error ");
        enter(&mut shell, ".schema nothing", "unknown table nothing: ");
        enter(&mut shell, ".exit", "unknown command .exit: ");
        enter(&mut shell, ".help", "Show the columns of a table");
        enter(&mut shell, ".mode json", "");
        enter(&mut shell, "SELECT 1 AS one; SELECT 2 AS two;", "{\"one\":1}\r\n1 row, 0 scanned");
        enter(&mut shell, "SELECT 1 AS one; SELECT 2 AS two;", "{\"two\":2}\r\n1 row, 0 scanned");
        enter(&mut shell, ".mode csv", "");
        enter(&mut shell, "SELECT 1 AS one, 'a;' AS two;", "one,two\r\n1,a;\r\n");
        quit(shell);
    }
}

#[test]
fn tab_completes_tables_columns_keywords_and_commands() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(Server::start(folder.path()));
    let data = folder.path().to_str().expect("text");
    let mut shell = shell(["--data", data], &folder.path().join("state"));
    enter(&mut shell, "SEL\t count(*) AS found FROM queu\t WHERE paus\t = 7;", "found\r\n0\r\n");
    enter(&mut shell, "SELECT count(*) AS found FROM queues q WHERE q.drai\t = 7;", "found\r\n0\r\n");
    enter(&mut shell, ".sch\t queu\t", "\r\ndraining ");
    quit(shell);
}

#[test]
fn ctrl_c_ends_the_running_statement_and_not_the_shell() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let server = Server::start(&data);
    let (data, url) = (data.to_str().expect("text"), format!("http://{}", server.http));
    for place in [["--http", &*url], ["--data", data]] {
        let mut shell = shell(place, &folder.path().join("state"));
        shell.type_keys("SELECT 4 AS \x03");
        shell.until(PROMPT);
        enter(&mut shell, "SELECT 5 AS five;", "five\r\n5\r\n");
        // More statements than a client may run at a time.
        for _ in 0..3 {
            shell.type_keys(ENDLESS);
            shell.type_keys("; SELECT 8;\r");
            shell.until(PASTE_OFF);
            // The terminal sends this signal for Ctrl-C to the session that it controls.
            shell.signal(Signal::INT);
            shell.until("interrupted\r\n");
            let shown = shell.until(PROMPT);
            assert!(!shown.contains("scanned"), "{shown:?}");
        }
        enter(&mut shell, "SELECT 6 AS six;", "six\r\n6\r\n");
        shell.type_keys("\x04");
        assert_eq!(shell.ended(), Some(0));
    }
}

#[test]
fn the_history_is_in_a_file_of_its_user() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    drop(Server::start(&data));
    let (data, state) = (data.to_str().expect("text"), folder.path().join("state"));
    let mut first = shell(["--data", data], &state);
    enter(&mut first, "SELECT 20 + 1 AS n;", "n\r\n21\r\n");
    enter(&mut first, " SELECT 'hidden' AS n;", "n\r\nhidden\r\n");
    quit(first);
    let file = state.join("quire/sql_history");
    assert_eq!(fs::read_to_string(&file).expect("text"), "\"SELECT 20 + 1 AS n;\"\n\".quit\"\n");
    assert_eq!(fs::metadata(&file).expect("it exists").permissions().mode() & 0o777, 0o600);
    let mut second = shell(["--data", data], &state);
    enter(&mut second, "\x1b[A\x1b[A", "n\r\n21\r\n");
    quit(second);
    // A shell without a history works.
    let mut third = shell(["--data", data], Path::new("/dev/null"));
    enter(&mut third, "SELECT 22 AS n;", "n\r\n22\r\n");
    quit(third);
}
