//! `quire sql`: the forms of a result, parameters, statements from files, and failures.

use std::io::Write;
use std::process::Stdio;

use crate::support::{Server, quire, run, run_on};

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

#[test]
fn a_text_index_is_created_searched_and_deleted_in_a_directory_and_over_http() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let server = Server::start(&data);
    let append = |text: &str, tag: &str| {
        let more = ["--type", "Placed", "--tag", tag, "--http", &server.http];
        run(&[&["events", "append", "air/orders", text][..], &more].concat()).succeeded();
    };
    append(r#"{"note":"fragile glass"}"#, "person:ann");
    append(r#"{"note":"leave at the door"}"#, "person:ben");
    let at = |arguments: &[&str]| run(&[arguments, &["--http", &server.http]].concat());
    let created = at(&["index", "create", "air/orders", "--text", "$.note"]).succeeded();
    assert!(created.contains("$.note of air/orders: 2 events with text, up to position 2 of 2, "), "{created}");
    let search = ["sql", "--csv", "SELECT position FROM search('air/orders', 'glass')"];
    assert_eq!(at(&search).succeeded(), "position\n1\n");
    append(r#"{"note":"more glass"}"#, "person:ann");
    assert_eq!(at(&search).succeeded(), "position\n1\n3\n");
    let twice = at(&["index", "create", "air/orders", "--text", "$.note"]);
    assert!(twice.status == Some(1) && twice.stderr.contains("already exists"), "{twice:?}");
    at(&["events", "forget", "air/orders", "person:ann"]).succeeded();
    assert_eq!(at(&search).succeeded(), "position\n");
    drop(server);

    let on = |arguments: &[&str]| run_on(&data, arguments);
    let is_held = || {
        let files = std::fs::read_dir(data.join("search")).expect("a directory");
        let mut bytes = files.map(|file| std::fs::read(file.expect("a file").path()).expect("it"));
        bytes.any(|bytes| bytes.windows(4).any(|part| part == b"door"))
    };
    let listed = on(&["index", "list", "--json"]).succeeded();
    assert!(listed.contains(r#""covered":3,"documents":1,"head":3"#), "{listed}");
    assert!(is_held());
    on(&["events", "forget", "air/orders", "person:ben"]).succeeded();
    assert!(!is_held());
    assert_eq!(on(&["index", "delete", "air/orders"]).succeeded(), "deleted air/orders\n");
    let unknown = on(&search);
    assert!(unknown.stderr.contains("unknown text index \"air/orders\""), "{unknown:?}");
    assert_eq!(on(&["index", "list"]).succeeded(), "");
}
