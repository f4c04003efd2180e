//! `quire produce`: a message with all options, a tombstone, and one message per line.

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Server, quire, run_on};

fn records(data: &std::path::Path) -> Vec<Value> {
    let consumed = run_on(data, &["consume", "t", "--json"]).succeeded();
    consumed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_message_has_the_key_headers_and_time_of_its_options() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path();
    drop(Server::start(data));
    let create = ["topics", "create", "t", "--partitions", "3", "--protect", "slow", "--cleanup", "compact"];
    run_on(data, &create).succeeded();
    assert!(run_on(data, &["topics", "describe", "t"]).succeeded().contains("kept for slow"));
    let told = run_on(
        data,
        &[
            &["produce", "t", "hello", "--key", "k", "--partition", "2", "--timestamp-ms", "1234"][..],
            &["--header", "a=1", "--header", "b=x=y"],
        ]
        .concat(),
    );
    assert_eq!(told.succeeded(), "t, partition 2, offset 0\n");
    let told = run_on(data, &["produce", "t", "--tombstone", "--key", "k", "--partition", "2"]).succeeded();
    assert_eq!(told, "t, partition 2, offset 1\n");
    let found = records(data);
    let [first, second] = &found[..] else { panic!("{found:?}") };
    let headers = json!([{ "key": "a", "value": "1" }, { "key": "b", "value": "x=y" }]);
    assert_eq!((&first["headers"], &first["timestamp_ms"], &first["key"]), (&headers, &json!(1234), &json!("k")));
    assert_eq!((&second["key"], &second["value_text"], &second["value"]), (&json!("k"), &Value::Null, &Value::Null));
    assert_eq!(run_on(data, &["produce", "t", "x", "--header", "none"]).status, Some(2));
}

#[test]
fn each_input_line_becomes_a_message() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path();
    drop(Server::start(data));
    // More than one commit holds.
    let lines: String = (0..2_500).map(|line| format!("line {line}\n")).collect();
    let mut produce = quire();
    produce.args(["produce", "t", "--data"]).arg(data).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut started = produce.spawn().expect("started");
    let mut input = started.stdin.take().expect("piped");
    let writing = std::thread::spawn(move || input.write_all(lines.as_bytes()).expect("read"));
    let output = started.wait_with_output().expect("ended");
    writing.join().expect("written");
    assert!(output.status.success(), "{output:?}");
    let told = String::from_utf8(output.stdout).expect("text");
    assert_eq!((told.lines().count(), told.lines().last()), (2_500, Some("t, partition 0, offset 2499")));
    let values: Vec<_> = records(data).iter().map(|record| record["value_text"].clone()).collect();
    assert!(values.iter().enumerate().all(|(number, value)| *value == format!("line {number}")), "{:?}", &values[..3]);
}

#[test]
fn a_line_of_binary_bytes_is_produced_unchanged() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path();
    drop(Server::start(data));
    let mut produce = quire();
    produce.args(["produce", "t", "--data"]).arg(data).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut started = produce.spawn().expect("started");
    started.stdin.take().expect("piped").write_all(b"before\n\xff\x00\xfe\nbehind").expect("read");
    assert!(started.wait_with_output().expect("ended").status.success());
    let values: Vec<_> =
        records(data).iter().map(|record| (record["value_text"].clone(), record["value_base64"].clone())).collect();
    assert_eq!(values, [("before".into(), Value::Null), (Value::Null, "/wD+".into()), ("behind".into(), Value::Null)]);
}
