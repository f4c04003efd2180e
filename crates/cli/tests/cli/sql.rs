//! `quire sql`: the forms of a result, parameters, statements from files, and failures.

use std::io::Write;
use std::process::Stdio;

use crate::support::{Server, quire, run_on};

const COMMIT: &str = r#"{"parts": [{"append": {"store": "s", "events": [
    {"type": "A", "tags": ["x:1"], "data_text": "one, \"two\""}, {"type": "B", "data_base64": "/wA="}]}}]}"#;

#[test]
fn a_result_is_a_table_csv_or_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    assert_eq!(server.ask("POST", "/v1/commit", COMMIT).0, 200);
    drop(server);
    let statement = "SELECT position, type, data FROM events WHERE store = ?1 AND position <= ?2";
    let of = |further: &[&str]| {
        let all = [&["sql", statement, "--param", "s", "--param", "2"][..], further].concat();
        run_on(folder.path(), &all).succeeded()
    };
    let blob = r#"{"base64":"/wA="}"#;
    assert_eq!(of(&[]), format!("position  type  data\n1         A     one, \"two\"\n2         B     {blob}\n"));
    assert_eq!(of(&["--csv"]), "position,type,data\n1,A,\"one, \"\"two\"\"\"\n2,B,\"{\"\"base64\"\":\"\"/wA=\"\"}\"\n");
    assert_eq!(
        of(&["--json"]),
        format!(
            "{}\n{{\"position\":2,\"type\":\"B\",\"data\":{blob}}}\n",
            r#"{"position":1,"type":"A","data":"one, \"two\""}"#
        )
    );
    let summary = run_on(folder.path(), &["sql", "SELECT count(*) FROM events"]);
    assert!(summary.stderr.contains("1 row, 2 scanned, as of position "), "{summary:?}");
}

#[test]
fn a_statement_comes_from_a_file_or_standard_input() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    drop(Server::start(&data));
    let file = folder.path().join("statement.sql");
    std::fs::write(&file, "SELECT 17 AS n").expect("written");
    let file = file.to_str().expect("text");
    assert_eq!(run_on(&data, &["sql", "--file", file]).succeeded(), "n\n17\n");
    let mut sql = quire();
    sql.args(["sql", "--file", "-", "--data"]).arg(&data).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut started = sql.spawn().expect("started");
    started.stdin.take().expect("piped").write_all(b"SELECT 18 AS n").expect("read");
    assert_eq!(started.wait_with_output().expect("ended").stdout, b"n\n18\n");
}

#[test]
fn a_failure_is_reported_with_its_reason_also_after_the_first_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(Server::start(folder.path()));
    for (statement, message) in [
        ("SELECT FROM", "invalid SQL at byte 7"),
        ("DELETE FROM events", "may not be modified"),
        ("SELECT ?1", "parameter ?1 has no value"),
        ("SELECT abs(column1) FROM (VALUES (1), (-9223372036854775808))", "integer overflow"),
    ] {
        run_on(folder.path(), &["sql", statement]).failed_with(message);
    }
    assert_eq!(run_on(folder.path(), &["sql"]).status, Some(2));
}
