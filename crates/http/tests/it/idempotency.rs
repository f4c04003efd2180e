//! Requests that are sent again with the header `Idempotency-Key`.

use serde_json::{Value, json};

use crate::served::{Answer, Served};

#[track_caller]
fn keyed(served: &Served, key: &str, method: &str, path: &str, body: &Value) -> Answer {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let headers = format!("Connection: close\r\nIdempotency-Key: {key}\r\n");
    let head = served.head(method, path, body.len(), &headers);
    served.send(&[head.as_bytes(), body.as_bytes()].concat())
}

fn is_replay(answer: &Answer) -> bool {
    answer.head.contains("idempotent-replay: true\r\n")
}

/// Sends a request twice. Returns the answer, which both copies get; the second commits nothing.
#[track_caller]
fn twice(served: &Served, method: &str, path: &str, body: Value) -> Value {
    let published = || served.database.as_ref().expect("open").published();
    let first = first_answer(served, method, path, &body);
    let position = published();
    is_answered_again(served, method, path, &body, &first);
    assert_eq!(published(), position);
    first.json()
}

#[track_caller]
fn first_answer(served: &Served, method: &str, path: &str, body: &Value) -> Answer {
    let first = keyed(served, &format!("{method} {path}"), method, path, body);
    assert!(first.status == 200 && !is_replay(&first), "{first:?}");
    first
}

#[track_caller]
fn is_answered_again(served: &Served, method: &str, path: &str, body: &Value, first: &Answer) {
    let again = keyed(served, &format!("{method} {path}"), method, path, body);
    assert!(again.status == 200 && is_replay(&again), "{again:?}");
    assert_eq!(again.text, first.text);
}

#[test]
fn a_copy_of_a_request_gets_the_first_answer_on_each_route_that_takes_a_key() {
    let served = Served::new();
    let parts = json!({ "parts": [
        { "append": { "store": "orders", "events": [{ "type": "OrderPlaced", "data": { "order": 17 } }] } },
        { "produce": { "topic": "placed", "key": "17", "value": "order 17" } },
        { "enqueue": { "queue": "mails", "payload": "order 17", "delay_ms": 60_000 } },
        { "put_block": { "graph": "shop", "block": "order:17", "kind": "order" } },
        { "each": [{ "enqueue": { "queue": "bills", "payload": "order 17", "delay_ms": 60_000 } }] },
    ] });
    let committed = twice(&served, "POST", "/v1/commit", parts);
    assert_eq!(committed["replies"].as_array().map(Vec::len), Some(5));
    twice(&served, "POST", "/v1/topics", json!({ "name": "shipped", "partitions": 2 }));
    twice(&served, "POST", "/v1/topics/shipped/records", json!({ "key": "17", "value": "order 17" }));
    twice(&served, "POST", "/v1/queues/letters/jobs", json!({ "payload": "order 17", "delay_ms": 60_000 }));
    twice(&served, "POST", "/v1/graphs/shop/blocks/order%3A18", json!({ "kind": "order" }));
    let events = json!({ "events": [{ "type": "OrderShipped" }] });
    assert_eq!(twice(&served, "POST", "/v1/events/orders/append", events)["first"], 2);
    let saved = json!({ "version": 1, "base": 0, "position": 2, "state": "state" });
    twice(&served, "POST", "/v1/events/orders/projections/totals", saved);
    twice(&served, "DELETE", "/v1/events/orders/projections/totals", Value::Null);

    twice(&served, "POST", "/v1/queues/jobs/settings", json!({ "active_max": 5 }));
    for _ in 0..4 {
        served.write("/v1/commit", json!({ "parts": [{ "enqueue": { "queue": "jobs", "payload": "p" } }] }));
    }
    let fetch = json!({ "worker": "worker-1" });
    let one = twice(&served, "POST", "/v1/queues/jobs/fetch", fetch);
    let two = twice(&served, "POST", "/v1/fetch", json!({ "queues": ["jobs"], "worker": "worker-1", "count": 2 }));
    let jobs = [&one["jobs"][0], &two["jobs"][0], &two["jobs"][1]].map(Value::clone);
    let path = |job: &Value, verb: &str| format!("/v1/jobs/{}/{verb}", job["job"].as_str().expect("an id"));
    let token = |job: &Value| json!({ "token": job["token"] });
    twice(&served, "POST", &path(&jobs[0], "heartbeat"), json!({ "token": jobs[0]["token"], "lease_ms": 5_000 }));
    twice(&served, "POST", &path(&jobs[0], "ack"), token(&jobs[0]));
    twice(&served, "POST", &path(&jobs[1], "snooze"), json!({ "token": jobs[1]["token"], "delay_ms": 60_000 }));
    twice(&served, "POST", &path(&jobs[1], "change"), json!({ "reschedule": { "delay_ms": 90_000 } }));
    let fail = json!({ "token": jobs[2]["token"], "error": "no route", "retry_delay_ms": 60_000 });
    twice(&served, "POST", &path(&jobs[2], "fail"), fail);
    // These go on in the background, with commits of their own.
    let bulk = json!({ "filter": { "queue": "jobs" }, "change": { "delete": {} } });
    for (method, path, body) in [
        ("POST", "/v1/bulks", &bulk),
        ("POST", "/v1/queues/mails/clear", &Value::Null),
        ("DELETE", "/v1/queues/mails", &Value::Null),
    ] {
        let first = first_answer(&served, method, path, body);
        is_answered_again(&served, method, path, body, &first);
    }
    assert_eq!(served.read("/v1/bulks")["data"].as_array().map(Vec::len), Some(1));
}

#[test]
fn another_request_with_the_key_is_refused_and_a_refused_request_keeps_no_key() {
    let served = Served::new();
    let enqueue = |payload: &str| json!({ "parts": [{ "enqueue": { "queue": "mails", "payload": payload } }] });
    let first = keyed(&served, "a", "POST", "/v1/commit", &enqueue("1")).json();
    let other = keyed(&served, "a", "POST", "/v1/commit", &enqueue("2"));
    assert_eq!(other.status, 422);
    let other = other.json();
    assert_eq!((&other["code"], &other["position"]), (&json!("idempotency_key_reused"), &first["position"]));

    let ack = json!({ "parts": [{ "ack": { "job": "1-1", "token": "9-0" } }, { "enqueue": { "queue": "mails", "payload": "" } }] });
    assert_eq!(keyed(&served, "b", "POST", "/v1/commit", &ack).status, 409);
    assert_eq!(keyed(&served, "b", "POST", "/v1/commit", &ack).json()["code"], "stale_lease", "decided again");
    assert_eq!(keyed(&served, "b", "POST", "/v1/commit", &enqueue("3")).status, 200);
}

#[test]
fn the_form_of_a_request_does_not_count() {
    let served = Served::new();
    let body = [
        r#"{"parts": [{"enqueue": {"queue": "mails", "payload": "1", "priority": 128}}]}"#,
        r#"{ "parts":[ {"enqueue": {"payload": "1", "queue": "mails"}} ] }"#,
    ];
    let answers = body.map(|body| {
        let head = served.head("POST", "/v1/commit", body.len(), "Connection: close\r\nIdempotency-Key: a\r\n");
        served.send(&[head.as_bytes(), body.as_bytes()].concat())
    });
    assert!(answers[0].status == 200 && is_replay(&answers[1]), "{answers:?}");
    assert_eq!(answers[0].text, answers[1].text);
}

#[test]
fn a_key_is_refused_where_it_has_no_meaning_and_in_a_wrong_form() {
    let served = Served::new();
    let commit = json!({ "parts": [{ "enqueue": { "queue": "mails", "payload": "" } }] });
    for key in [String::new(), "k".repeat(256), "a\r\nIdempotency-Key: b".to_owned()] {
        let answer = keyed(&served, &key, "POST", "/v1/commit", &commit);
        assert_eq!((answer.status, &answer.json()["code"]), (400, &json!("invalid_idempotency_key")), "{key}");
    }
    for (method, path) in [
        ("POST", "/v1/graphs/shop/import"),
        ("POST", "/v1/groups/g/stores/orders"),
        ("POST", "/v1/groups/g/queues/jobs"),
        ("POST", "/v1/events/orders/subscriptions/s"),
        ("DELETE", "/v1/events/orders/subscriptions/s"),
        ("POST", "/v1/events/orders/subscriptions/s/fetch"),
        ("POST", "/v1/compact"),
    ] {
        let answer = keyed(&served, "a", method, path, &json!({}));
        let code = &answer.json()["code"];
        assert_eq!((answer.status, code), (400, &json!("invalid_idempotency_key")), "{method} {path}");
    }
}
