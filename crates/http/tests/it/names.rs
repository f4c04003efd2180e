//! Names that all models share, their limits, parameters without a meaning, and what an answer says
//! of the machine.

use serde_json::{Value, json};

use crate::served::{Served, whole};

/// An append of an event to a store.
fn append(store: &str) -> Value {
    json!({"append": {"store": store, "events": [{"type": "Happened", "data": {}}]}})
}

fn commit(part: &Value) -> String {
    json!({ "parts": [part] }).to_string()
}

#[test]
fn a_message_to_the_topic_name_of_a_store_is_refused_and_so_is_every_second_owner() {
    let served = Served::new();
    served.write("/v1/commit", commit(&append("pay/orders")));
    served.write("/v1/commit", commit(&json!({"enqueue": {"queue": "mail/out", "payload": {}}})));
    let forged = [
        json!({"produce": {"topic": "pay.orders", "value": "forged"}}),
        json!({"create_topic": {"name": "pay.orders", "partitions": 1}}),
        append("pay.orders"),
    ];
    for part in forged {
        let refused = served.fails("POST", "/v1/commit", &commit(&part), 409, "name_taken");
        assert_eq!(
            (&refused["topic"], &refused["kind"], &refused["name"], &refused["part"]),
            (&json!("pay.orders"), &json!("event store"), &json!("pay/orders"), &json!(0))
        );
    }
    for part in [
        json!({"produce": {"topic": "jobs.mail.out", "value": "forged"}}),
        json!({"enqueue": {"queue": "mail.out", "payload": {}}}),
        append("jobs/mail/out"),
    ] {
        let refused = served.fails("POST", "/v1/commit", &commit(&part), 409, "name_taken");
        assert_eq!((&refused["kind"], &refused["name"]), (&json!("queue"), &json!("mail/out")));
    }
    served.fails("POST", "/v1/events/pay.orders/append", r#"{"events":[{"type":"A"}]}"#, 409, "name_taken");
    served.fails("POST", "/v1/queues/mail.out/settings", r#"{"paused":true}"#, 409, "name_taken");
    assert_eq!(served.read("/v1/topics"), whole(json!([])));
}

#[test]
fn an_exceeded_limit_on_names_is_reported_with_its_setting_and_count() {
    let served = Served::with(|builder| builder.queues_max(2).partitions_max(3));
    let enqueue = |queue: &str| commit(&json!({"enqueue": {"queue": queue, "payload": {}}}));
    served.write("/v1/commit", enqueue("a"));
    served.write("/v1/commit", enqueue("b"));
    let refused = served.fails("POST", "/v1/commit", &enqueue("c"), 409, "limit_exceeded");
    assert_eq!(
        (&refused["limit"], &refused["count"], &refused["more"], &refused["most"]),
        (&json!("queues_max"), &json!(2), &json!(1), &json!(2))
    );
    served.write("/v1/commit", enqueue("a"));
    let topic = commit(&json!({"create_topic": {"name": "t", "partitions": 4}}));
    let refused = served.fails("POST", "/v1/commit", &topic, 409, "limit_exceeded");
    assert_eq!((&refused["limit"], &refused["more"]), (&json!("partitions_max"), &json!(4)));
    let metrics = served.get("/metrics").text;
    for line in [
        r#"quire_limit_used{limit="queues_max"} 2"#,
        r#"quire_limit_max{limit="queues_max"} 2"#,
        r#"quire_limit_used{limit="partitions_max"} 0"#,
        r#"quire_limit_max{limit="partitions_max"} 3"#,
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}: {metrics}");
    }
    let limits = served.read("/v1/stats")["limits"].clone();
    let queues = limits.as_array().expect("a list").iter().find(|limit| limit["limit"] == "queues_max");
    assert_eq!(queues, Some(&json!({"limit": "queues_max", "count": 2, "most": 2})));
}

#[test]
fn metrics_have_a_bounded_number_of_series_and_count_the_omitted_objects() {
    let served = Served::new();
    let parts: Vec<Value> = (0..1_003)
        .flat_map(|number| {
            let (topic, group) = (format!("t{number:04}"), format!("g{number:04}"));
            [
                json!({"produce": {"topic": topic, "value": "m"}}),
                json!({"commit_offset": {"group": group, "topic": topic, "partition": 0, "offset": 0}}),
                json!({"enqueue": {"queue": format!("q{number:04}"), "payload": {}}}),
                append(&format!("s{number:04}")),
                json!({"put_block": {"graph": format!("g{number:04}"), "block": "a", "kind": "thing"}}),
            ]
        })
        .collect();
    served.write("/v1/commit", json!({ "parts": parts }));
    let metrics = served.get("/metrics").text;
    let lines = |start: &str| metrics.lines().filter(|line| line.starts_with(start)).collect::<Vec<_>>();
    for (family, object) in [
        ("quire_topic_messages{", "topic"),
        ("quire_group_lag{", "group"),
        ("quire_group_members{", "group"),
        ("quire_store_events_total{", "store"),
        ("quire_graph_blocks{", "graph"),
    ] {
        let lines = lines(family);
        assert_eq!(lines.len(), 1_000, "{family}");
        assert!(lines[0].contains("0000\"") && lines[999].contains("0999\""), "the first by name");
        let omitted = format!("quire_metrics_omitted{{object=\"{object}\"}} 3");
        assert!(metrics.lines().any(|line| line == omitted), "{omitted}");
    }
    let queues: std::collections::BTreeSet<_> =
        lines("quire_queue_jobs{").iter().map(|line| line.split('"').nth(1).expect("a queue").to_owned()).collect();
    assert_eq!(queues.len(), 1_000);
}

#[test]
fn a_topic_of_many_partitions_and_a_group_of_many_offsets_cost_a_scrape_nothing() {
    let served = Served::new();
    let mut parts = vec![json!({"create_topic": {"name": "wide", "partitions": 10_001}})];
    parts.push(json!({"create_topic": {"name": "small", "partitions": 1}}));
    served.write("/v1/commit", json!({ "parts": parts }));
    let metrics = served.get("/metrics").text;
    assert!(metrics.contains("quire_topic_messages{topic=\"small\"} 0"), "{metrics}");
    assert!(!metrics.contains("quire_topic_messages{topic=\"wide\"}"), "{metrics}");
    assert!(metrics.lines().any(|line| line == r#"quire_metrics_omitted{object="topic"} 1"#), "{metrics}");
}

#[test]
fn no_answer_holds_a_path_of_the_machine() {
    let served = Served::with(|builder| builder.background(quire::Background::Caller).segment_bytes(64 << 10));
    let text = "x".repeat(10_000);
    let event = json!({"append": {"store": "s", "events": [{"type": "T", "data_text": text}]}});
    for _ in 0..10 {
        served.write("/v1/commit", commit(&event));
    }
    served.damage(&text);
    let directory = served.path().parent().expect("a temporary directory").to_str().expect("text").to_owned();
    let read = served.get("/v1/events/s");
    assert_eq!(read.status, 500, "{read:?}");
    assert!(read.text.contains("shard-0000/00000000000000000001.log"), "{read:?}");
    let health = served.get("/healthz");
    assert!(health.text.contains("shard-0000/00000000000000000001.log"), "{health:?}");
    let moved = served.path().with_extension("moved");
    std::fs::rename(served.path(), &moved).expect("moved");
    let lost = served.get("/healthz");
    std::fs::rename(&moved, served.path()).expect("put back");
    assert_eq!(lost.status, 500, "{lost:?}");
    for answer in [read, health, lost] {
        assert!(!answer.text.contains(&directory), "{answer:?}");
    }
}

#[test]
fn a_slash_in_a_name_may_be_escaped_or_not() {
    let served = Served::new();
    let event = json!({"events": [{"type": "A"}]});
    assert_eq!(served.write("/v1/events/air/flights/append", event.clone())["first"], 1);
    assert_eq!(served.write("/v1/events/air%2Fflights/append", event)["first"], 2);
    assert_eq!(served.read("/v1/events/air/flights?limit=1"), served.read("/v1/events/air%2Fflights?limit=1"));
    served.write("/v1/queues/air/delays/jobs", json!({"payload": 1}));
    assert_eq!(served.read("/v1/queues/air/delays")["pending"], 1);
    served.write("/v1/graphs/code/main/blocks/src/main.rs", json!({"kind": "file"}));
    assert_eq!(served.read("/v1/graphs/code%2Fmain/blocks/src%2Fmain.rs")["name"], "src/main.rs");
    // The path of a route keeps its meaning.
    served.write("/v1/queues/a%2Fjobs/jobs", json!({"payload": 1}));
    assert_eq!(served.read("/v1/queues/a/jobs"), whole(json!([])));
    served.fails("GET", "/v1/events/air/flights/", "", 404, "unknown_route");
    served.fails("GET", "/v1/nothing/air/flights", "", 404, "unknown_route");
}

#[test]
fn a_path_that_two_routes_fit_is_refused_until_its_slashes_are_encoded() {
    let served = Served::new();
    let event = r#"{"events":[{"type":"A"}]}"#;
    let refused = served.fails("POST", "/v1/events/s/subscriptions/x/append", event, 404, "unknown_route");
    assert!(refused["detail"].as_str().is_some_and(|detail| detail.contains("%2F")), "{refused}");
    served.write("/v1/events/s%2Fsubscriptions%2Fx/append", event);
}

/// The methods and paths of the table of routes, with names filled in.
fn routes() -> Vec<(&'static str, String)> {
    let table = include_str!("../../src/routes.rs");
    let lines = table.lines().filter_map(|line| line.trim().strip_prefix(".route(\"")?.split_once('"'));
    lines
        .flat_map(|(path, handlers)| {
            let path = path.replace("{partition}", "0").replace("{job}", "1-1").replace(['{', '}'], "");
            let methods = [("GET", "get("), ("POST", "post("), ("DELETE", "delete(")];
            let methods = methods
                .into_iter()
                .filter(|(_, call)| handlers.match_indices(call).any(|(at, _)| handlers[..at].ends_with([' ', '.'])));
            methods.map(|(method, _)| (method, path.clone())).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn an_unknown_parameter_is_refused_on_each_route_and_changes_nothing() {
    let served = Served::new();
    served.write("/v1/commit", commit(&json!({"enqueue": {"queue": "queue", "payload": {}}})));
    let before = served.database.as_ref().expect("open").published();
    let routes = routes();
    assert!(routes.iter().filter(|(method, _)| *method != "GET").count() >= 25, "{routes:?}");
    for (method, path) in routes {
        // Probes and collectors of metrics add parameters of their own.
        if ["/healthz", "/livez", "/readyz", "/metrics"].contains(&&*path) {
            continue;
        }
        let answer = served.ask(method, &format!("{path}?unknown=1"), "{}");
        assert_eq!(answer.status, 400, "{method} {path}: {answer:?}");
        if method != "GET" {
            let detail = &answer.json()["detail"];
            assert_eq!(detail, &json!("unknown parameter \"unknown\""), "{method} {path}");
        }
    }
    assert_eq!(served.database.as_ref().expect("open").published(), before);
}
