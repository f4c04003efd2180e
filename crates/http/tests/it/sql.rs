//! `POST /v1/sql`: results, lines, errors, and statements whose clients leave.

use std::io::{Read, Write};
use std::net::TcpStream;

use quire::events::NewEvent;
use quire::{Commit, NewJob};
use serde_json::{Value, json};

use crate::served::Served;

fn filled() -> Served {
    let server = Served::new();
    let database = server.database.as_ref().expect("open");
    for number in 0..3 {
        let event = NewEvent::new("Placed").tag(format!("order:{number}")).data(vec![0xff, number]);
        let commit = Commit::new().append("orders", [event]).enqueue("mails", NewJob::new("confirm"));
        database.commit(&commit).expect("decided").committed().expect("accepted");
    }
    server
}

fn ask(server: &Served, path: &str, body: &Value) -> (u16, String) {
    let answer = server.ask("POST", path, &body.to_string());
    (answer.status, answer.text)
}

/// The lines of a body, without the sizes of its chunks.
fn lines_of(text: &str) -> Vec<Value> {
    let lines = text.lines().filter(|line| line.starts_with(['{', '[']));
    lines.map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_result_is_json_with_its_position() {
    let server = filled();
    let published = server.database.as_ref().expect("open").published().get();
    let text = "SELECT position, type, data FROM events WHERE store = ?1 AND position >= :from";
    let body = json!({ "sql": text, "params": ["orders"], "named": { "from": 3 } });
    let (status, text) = ask(&server, "/v1/sql", &body);
    assert_eq!(status, 200, "{text}");
    let expect = json!({
        "columns": ["position", "type", "data"],
        "rows": [[3, "Placed", { "base64": "/wI=" }]],
        "as_of": published,
        "scanned": 1,
    });
    assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), expect);
    let given =
        json!({ "sql": "SELECT ?1, ?2, ?3, ?4, ?5, ?6", "params": [null, true, -1, 1.5, "a", { "base64": "/wI=" }] });
    let (_, text) = ask(&server, "/v1/sql", &given);
    let rows = serde_json::from_str::<Value>(&text).expect("JSON")["rows"].clone();
    assert_eq!(rows, json!([[null, 1, -1, 1.5, "a", { "base64": "/wI=" }]]));
}

#[test]
fn a_result_is_streamed_in_lines() {
    let server = filled();
    let text = "SELECT j.queue, e.position FROM events e JOIN jobs j USING (commit_position) ORDER BY 2";
    let (status, text) = ask(&server, "/v1/sql?format=ndjson", &json!({ "sql": text }));
    assert_eq!(status, 200, "{text}");
    let lines = lines_of(&text);
    assert_eq!(
        lines[..4],
        [json!({ "columns": ["queue", "position"] }), json!(["mails", 1]), json!(["mails", 2]), json!(["mails", 3])]
    );
    assert_eq!((&lines[4]["rows"], lines.len()), (&json!(3), 5));
    let (_, text) = ask(&server, "/v1/sql?format=ndjson", &json!({ "sql": "SELECT 1 WHERE 0" }));
    assert_eq!(lines_of(&text)[0], json!({ "columns": ["1"] }));
    // An error after the first line is the last line.
    let late = "SELECT abs(column1) FROM (VALUES (1), (-9223372036854775808))";
    let (status, text) = ask(&server, "/v1/sql?format=ndjson", &json!({ "sql": late }));
    let last = lines_of(&text).pop().expect("lines");
    assert_eq!((status, &last["error"]["code"]), (200, &json!("invalid")), "{text}");
}

#[test]
fn a_failed_statement_has_a_code_and_the_reason() {
    let server = Served::with(|builder| builder.request_steps_max(50_000));
    server.write("/v1/events/s/append", r#"{"events":[{"type":"A"}]}"#);
    let endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n";
    for format in ["json", "ndjson"] {
        for (body, expect, why) in [
            (json!({ "sql": "SELECT FROM" }), "invalid", "invalid SQL at byte 7"),
            (json!({ "sql": "CREATE TABLE t(a)" }), "invalid", "changes nothing"),
            (json!({ "sql": "SELECT ?1" }), "invalid", "parameter ?1 has no value"),
            (json!({ "sql": "SELECT 1", "as_of": 1u64 << 40 }), "not_found", "nothing is published"),
            (json!({ "sql": "SELECT * FROM jobs", "as_of": 1 }), "invalid", "jobs has no past"),
            (json!({ "sql": endless }), "too_costly", "steps"),
            (json!({ "sql": "SELECT 1", "params": vec![0; 1_001] }), "invalid", "1000"),
        ] {
            let (status, text) = ask(&server, &format!("/v1/sql?format={format}"), &body);
            let problem: Value = serde_json::from_str(&text).expect("JSON");
            assert!(status >= 400, "{body}: {text}");
            assert_eq!(problem["code"], expect, "{body}: {text}");
            assert!(problem["detail"].as_str().expect("a detail").contains(why), "{body}: {text}");
        }
    }
}

#[test]
fn a_statement_ends_with_its_client_and_others_get_its_thread() {
    let server = Served::with(|builder| builder.request_steps_max(u64::MAX / 4));
    // More rows than the buffers of a connection take, without an end within the minute.
    let endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT";
    for _ in 0..3 {
        for (format, select) in [("json", "count(*)"), ("ndjson", "hex(zeroblob(1000)) || x"), ("ndjson", "count(*)")] {
            let body = json!({ "sql": format!("{endless} {select} FROM n") }).to_string();
            let mut client = TcpStream::connect(server.address).expect("connected");
            let head = format!(
                "POST /v1/sql?format={format} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                server.address,
                body.len()
            );
            client.write_all(format!("{head}{body}").as_bytes()).expect("sent");
            if select != "count(*)" {
                client.read_exact(&mut [0; 1_000]).expect("it begins");
            }
            // The client leaves.
        }
    }
    let (status, text) = ask(&server, "/v1/sql", &json!({ "sql": "SELECT 17" }));
    assert_eq!((status, text.contains("17")), (200, true), "{text}");
}
