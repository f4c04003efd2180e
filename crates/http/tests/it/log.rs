//! The commits of the log.

use std::sync::mpsc;
use std::thread;

use quire::events::NewEvent;
use quire::system::{AccessRule, RulePattern, RuleSubject};
use quire::{Commit, Message, NewBlock, NewEdge, NewJob, Operation, ResourceKind};
use serde_json::{Value, json};

use crate::served::Served;

/// One commit of all four models, and then `further` commits of one event each. Returns the
/// position of the first one.
fn filled(server: &Served, further: u64) -> u64 {
    let database = server.database.as_ref().expect("it is open");
    let order = Commit::new()
        .append("shop/orders", [NewEvent::new("OrderPlaced").tag("order:17").data("{}")])
        .enqueue("shop/charges", NewJob::new("17"))
        .produce("orders", Message::new("17"))
        .put_block("shop/items", NewBlock::new("ada", "customer"))
        .put_block("shop/items", NewBlock::new("lamp", "item"))
        .put_edge("shop/items", NewEdge::new("ada", "bought", "lamp"));
    let position = database.commit(&order).expect("decided").committed().expect("accepted").at.position;
    for _ in 0..further {
        database.events("other").append([NewEvent::new("Noted")]).expect("appended");
    }
    position.get()
}

fn entry<'c>(commit: &'c Value, kind: &str) -> &'c Value {
    let entries = commit["entries"].as_array().expect("entries");
    entries.iter().find(|entry| entry["kind"] == kind).unwrap_or_else(|| panic!("no {kind}: {commit}"))
}

fn positions(page: &Value) -> Vec<u64> {
    page["data"].as_array().expect("a list").iter().map(|commit| commit["position"].as_u64().expect("it")).collect()
}

#[test]
fn a_commit_lists_the_entries_of_all_models_with_their_objects() {
    let server = Served::new();
    let position = filled(&server, 0);
    let commit = server.read(&format!("/v1/commits/{position}"));
    assert_eq!(commit["position"], position);
    let event = entry(&commit, "event_appended");
    assert_eq!(event["store"], "shop/orders");
    assert_eq!(event["event"], json!({"position": 1, "type": "OrderPlaced", "tags": ["order:17"]}));
    let job = entry(&commit, "enqueued");
    assert_eq!((&job["queue"], &job["job_count"]), (&json!("shop/charges"), &json!(1)));
    let id = job["jobs"][0].as_str().expect("an id");
    assert_eq!(server.read(&format!("/v1/jobs/{id}"))["queue"], "shop/charges");
    let batch = entry(&commit, "batch_produced");
    let of = (&batch["topic"], &batch["partition"], &batch["offset"], &batch["records"]);
    assert_eq!(of, (&json!("orders"), &json!(0), &json!(0), &json!(1)));
    let edge = entry(&commit, "edge_put");
    assert_eq!((&edge["graph"], &edge["edge"]["type"]), (&json!("shop/items"), &json!("bought")));
    let block = server.read("/v1/graphs/shop%2Fitems/blocks/ada");
    assert_eq!(edge["edge"]["source"], block["id"]);
    assert_eq!(entry(&commit, "block_put")["name"], "ada");
    assert_eq!(commit["next_entry"], Value::Null);
}

#[test]
fn pages_go_in_both_directions_and_repeat_no_commit() {
    let server = Served::new();
    let first = filled(&server, 5);
    let head = server.read("/v1/commits?limit=1")["head"].as_u64().expect("a position");
    let expected: Vec<u64> = (first..=head).collect();
    for (query, is_reversed) in [("after=0", false), ("before=1000000", true)] {
        let (mut found, mut path) = (Vec::new(), format!("/v1/commits?limit=2&{query}"));
        loop {
            let page = server.read(&path);
            found.extend(positions(&page));
            let Some(cursor) = page["next_cursor"].as_str() else { break };
            path = format!("/v1/commits?limit=2&cursor={cursor}");
        }
        if is_reversed {
            found.reverse();
        }
        assert_eq!(found, expected, "{query}");
    }
    assert_eq!(positions(&server.read("/v1/commits?limit=1")), [head]);
}

#[test]
fn entries_of_a_large_commit_are_read_in_parts() {
    let server = Served::new();
    let database = server.database.as_ref().expect("it is open");
    let events = (0..100).map(|_| NewEvent::new("Noted"));
    let commit = Commit::new().append("s", events);
    let position = database.commit(&commit).expect("decided").committed().expect("accepted").at.position;
    let listed = server.read("/v1/commits?limit=1");
    assert_eq!(listed["data"][0]["entries"].as_array().map(Vec::len), Some(32));
    let (mut count, mut next) = (0, 0);
    loop {
        let part = server.read(&format!("/v1/commits/{position}?entry={next}&limit=30"));
        count += part["entries"].as_array().expect("entries").len();
        match part["next_entry"].as_u64() {
            Some(entry) => next = entry,
            None => break,
        }
    }
    // The creation of the store, and the events.
    assert_eq!(count, 101);
}

#[test]
fn a_client_that_waits_gets_the_next_commit() {
    let server = Served::new();
    filled(&server, 0);
    let head = server.read("/v1/commits?limit=1")["head"].as_u64().expect("a position");
    thread::scope(|scope| {
        let (begun, begins) = mpsc::channel();
        let (server, waiting) = (&server, format!("/v1/commits?after={head}&wait_ms=60000"));
        let waiter = scope.spawn(move || {
            begun.send(()).expect("the test waits");
            server.read(&waiting)
        });
        begins.recv().expect("it began");
        server.database.as_ref().expect("it is open").queue("q").enqueue(NewJob::new("1")).expect("enqueued");
        let page = waiter.join().expect("an answer");
        assert_eq!(positions(&page)[0], head + 1);
    });
}

#[test]
fn a_commit_does_not_show_what_was_deleted_since() {
    let server = Served::new();
    let database = server.database.as_ref().expect("it is open");
    let first = filled(&server, 0);
    let events = database.events("shop/orders");
    events.append([NewEvent::new("OrderPaid").tag("order:18")]).expect("appended");
    assert_eq!(entry(&server.read(&format!("/v1/commits/{first}")), "event_appended")["event"]["tags"][0], "order:17");
    events.forget("order:17").expect("forgotten");
    let graph = database.graph("shop/items");
    graph.delete_block("ada").expect("deleted");
    graph.put_block(NewBlock::new("grace", "customer")).expect("put");
    graph.trim_history(database.published()).expect("trimmed");

    let text = server.read(&format!("/v1/commits/{first}")).to_string();
    assert!(!text.contains("order:17") && !text.contains("OrderPlaced"), "{text}");
    assert!(!text.contains("\"name\":\"ada\"") && text.contains("\"name\":\"lamp\""), "{text}");
    let page = server.read("/v1/commits").to_string();
    assert!(page.contains("order:18") && !page.contains("OrderPlaced"), "{page}");
    events.trim(quire::events::EventPosition::new(2)).expect("trimmed");
    assert!(!server.read("/v1/commits").to_string().contains("order:18"));
}

fn problem(server: &Served, path: &str) -> (u16, Value) {
    let answer = server.get(path);
    (answer.status, answer.json()["code"].clone())
}

#[test]
fn invalid_reads_of_the_log_are_refused() {
    let server = Served::new();
    filled(&server, 0);
    assert_eq!(problem(&server, "/v1/commits/1000000"), (404, json!("not_found")));
    for query in
        ["after=1000000", "after=0&before=5", "cursor=after-0&after=0", "cursor=x-1", "wait_ms=1", "before=1&wait_ms=1"]
    {
        assert_eq!(problem(&server, &format!("/v1/commits?{query}")), (400, json!("invalid")), "{query}");
    }
    assert_eq!(positions(&server.read("/v1/commits?before=0")), [0_u64; 0]);
    let most = u64::MAX;
    assert_eq!(problem(&server, &format!("/v1/commits?after={most}")), (400, json!("invalid")));
    assert_eq!(problem(&server, &format!("/v1/commits/{most}")), (404, json!("not_found")));
}

#[test]
fn a_client_sees_only_the_entries_that_it_may_read() {
    let server = Served::with_access(|access| {
        access.create_user("client", &[]).expect("created");
        let queue = RulePattern::Literal("shop/charges".to_owned());
        let rule = AccessRule::allow(Operation::Read, ResourceKind::Queue, queue);
        access.add_rule(&RuleSubject::Principal("client".to_owned()), &rule).expect("added");
    });
    let position = filled(&server, 3);

    let page = server.read("/v1/commits");
    assert_eq!(positions(&page), [position], "{page}");
    let entries = page["data"][0]["entries"].as_array().expect("entries");
    assert!(entries.iter().all(|entry| entry["queue"] == "shop/charges"), "{page}");
    assert_eq!(entries.len(), 2, "{page}");
    // The other commits look like commits that do not exist.
    assert_eq!(problem(&server, &format!("/v1/commits/{}", position + 1)), (404, json!("not_found")));
}
