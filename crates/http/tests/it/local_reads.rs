//! The header `Quire-Read` at a database alone.

use serde_json::json;

use crate::served::Served;
use crate::sessions::send;

#[test]
fn a_read_of_this_node_begins_at_its_position_and_names_it() {
    let server = Served::new();
    server.write("/v1/commit", json!({"parts": [{"enqueue": {"queue": "q"}}]}));
    let position = server.read("/v1/stats")["position"].as_u64().expect("a position");
    for value in ["local".to_owned(), "at=0".to_owned(), format!("at={position}")] {
        let answer = send(&server, "GET", "/v1/queues/q", "", &format!("Quire-Read: {value}\r\n"));
        assert_eq!((answer.status, &answer.json()["pending"]), (200, &json!(1)), "{value}: {answer:?}");
        assert!(answer.head.contains(&format!("quire-position: {position}")), "{answer:?}");
    }
    let sql = r#"{"sql": "SELECT name FROM queues"}"#;
    let answer = send(&server, "POST", "/v1/sql", sql, "Quire-Read: local\r\n");
    assert_eq!((answer.status, &answer.json()["rows"]), (200, &json!([["q"]])), "{answer:?}");
    let ahead = send(&server, "GET", "/v1/queues/q", "", &format!("Quire-Read: at={}\r\n", position + 1));
    assert_eq!((ahead.status, &ahead.json()["code"]), (409, &json!("ahead_of_log")), "{ahead:?}");
    assert_eq!(ahead.json()["at"], position + 1);
    assert!(!send(&server, "GET", "/v1/queues/q", "", "").head.contains("quire-position"));
}

#[test]
fn a_header_that_is_invalid_and_a_request_that_takes_none_are_refused() {
    let server = Served::new();
    for headers in [
        "Quire-Read: leader\r\n",
        "Quire-Read: at=\r\n",
        "Quire-Read: at=-1\r\n",
        "Quire-Read:\r\n",
        "Quire-Read: local\r\nQuire-Read: local\r\n",
    ] {
        let refused = send(&server, "GET", "/v1/queues", "", headers);
        assert_eq!((refused.status, &refused.json()["code"]), (400, &json!("invalid")), "{headers}: {refused:?}");
    }
    for (method, path, body) in [
        ("POST", "/v1/queues/q/jobs", "{}"),
        ("DELETE", "/v1/queues/q", ""),
        ("GET", "/v1/jobs/subscribe", ""),
        ("GET", "/v1/backup", ""),
    ] {
        let refused = send(&server, method, path, body, "Quire-Read: local\r\n");
        assert_eq!((refused.status, &refused.json()["code"]), (400, &json!("invalid")), "{path}: {refused:?}");
    }
    assert_eq!(server.read("/v1/stats")["commits"], 0);
    assert_eq!(send(&server, "GET", "/livez", "", "Quire-Read: local\r\n").status, 200, "a node answers for itself");
}
