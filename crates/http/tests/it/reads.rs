//! Reads over HTTP: filters, pages, limits, and names that are not there.

use serde_json::json;

use crate::served::{Served, whole};

/// Ten events of two types, ten messages, ten jobs, and a chain of ten blocks.
fn filled() -> Served {
    let served = Served::new();
    let mut parts = Vec::new();
    for n in 0..10 {
        let event_type = if n % 2 == 0 { "Even" } else { "Odd" };
        parts.push(
            json!({"append": {"store": "s", "events": [{"type": event_type, "tags": [format!("n:{n}"), "all"]}]}}),
        );
        parts.push(json!({"produce": {"topic": "t", "value": n}}));
        parts.push(json!({"enqueue": {"queue": "q", "payload": n}}));
        parts.push(json!({"put_block": {"graph": "g", "block": format!("b{n}"), "kind": "link"}}));
    }
    for n in 1..10 {
        parts.push(json!({"put_edge": {"graph": "g", "source": format!("b{}", n - 1), "type": "next", "target": format!("b{n}")}}));
    }
    served.write("/v1/commit", json!({"parts": parts}));
    served
}

fn positions(page: &serde_json::Value) -> Vec<u64> {
    page["data"].as_array().expect("events").iter().filter_map(|event| event["position"].as_u64()).collect()
}

#[test]
fn events_are_filtered_paged_and_read_backwards() {
    let served = filled();
    assert_eq!(positions(&served.read("/v1/events/s?type=Even")), [1, 3, 5, 7, 9]);
    assert_eq!(positions(&served.read("/v1/events/s?type=Even&type=Odd&tag=all&tag=n:3")), [4]);
    let page = served.read("/v1/events/s?after=2&limit=3");
    assert_eq!((positions(&page), &page["has_more"], &page["head"]), (vec![3, 4, 5], &json!(true), &json!(10)));
    let page = served.read("/v1/events/s?after=7&limit=3");
    assert_eq!((positions(&page), &page["has_more"]), (vec![8, 9, 10], &json!(false)));
    assert_eq!(positions(&served.read("/v1/events/s?backwards=true&up_to=9&limit=2")), [9, 8]);

    let body = json!({"query": {"items": [{"types": ["Even"], "only_last_event": true}, {"tags": ["n:1"]}]}});
    assert_eq!(positions(&served.write("/v1/events/s/read", body)), [2, 9]);
    assert_eq!(positions(&served.write("/v1/events/s/read", json!({"limit": 1, "backwards": true}))), [10]);
    assert_eq!(served.read("/v1/events/s/head"), json!({"store": "s", "head": 10}));
    assert_eq!(served.read("/v1/events"), whole(json!([{"store": "s", "head": 10}])));
    assert_eq!(served.read("/v1/events/nothing%2Fthere")["data"], json!([]));
}

#[test]
fn records_are_read_from_an_offset_on() {
    let served = filled();
    let page = served.read("/v1/topics/t/partitions/0/records?offset=3&limit=2");
    assert_eq!((&page["data"][0]["value"], &page["data"][1]["offset"]), (&json!(3), &json!(4)));
    assert_eq!(page["next_offset"], 5);
    assert_eq!(
        served.read("/v1/topics/t/partitions/0/records?offset=10"),
        json!({"data": [], "next_cursor": null, "has_more": false, "next_offset": 10})
    );
    let one = served.read("/v1/topics/t/partitions/0/records?bytes_max=1");
    assert_eq!(one["data"].as_array().map(Vec::len), Some(1), "the first batch comes whatever its size");
    assert_eq!(served.read("/v1/topics"), whole(json!([{"topic": "t", "partitions": 1}])));
    let topic = served.read("/v1/topics/t");
    let partition = &topic["partitions"][0];
    assert_eq!((&partition["start"], &partition["next"], &topic["written"]), (&json!(0), &json!(10), &json!(10)));
    assert!(partition["bytes"].as_u64() > Some(600), "{partition}");
    assert_eq!(topic["settings"]["compression"], "none");
    // More records were written, so the request does not wait.
    assert_eq!(served.read("/v1/topics/t?written=9&wait_ms=60000"), topic);
    assert_eq!(served.read("/v1/topics/t?written=10&wait_ms=1"), topic);
    let problem = served.fails("GET", "/v1/topics/t/partitions/0/records?offset=99", "", 404, "offset_out_of_range");
    assert_eq!(problem["next"], 10);
}

#[test]
fn a_waiting_fetch_is_answered_by_the_commit() {
    let served = filled();
    let written = std::thread::scope(|scope| {
        let waits = scope.spawn(|| served.read("/v1/topics/t?written=10&wait_ms=60000")["written"].clone());
        served.write("/v1/commit", json!({"parts": [{"produce": {"topic": "t", "value": 10}}]}));
        waits.join().expect("no panic")
    });
    assert_eq!(written, 11);
}

#[test]
fn groups_are_read_and_set_in_topics_and_in_event_stores() {
    let served = filled();
    let offset = json!({"commit_offset": {"group": "g", "topic": "t", "partition": 0, "offset": 4}});
    served.write(
        "/v1/commit",
        json!({"parts": [offset, {"protect_unread": {"group": "g", "topic": "t", "protects": true}}]}),
    );
    let set = served.write("/v1/groups/g/stores/s", json!({"offset": 3}));
    assert_eq!(set, json!({"group": "g", "store": "s", "offset": 3}));
    let group = served.read("/v1/groups/g");
    let at = |index: usize, of: &str| {
        let offset = &group["offsets"][index];
        (offset[of].clone(), offset["offset"].clone(), offset["next"].clone(), offset["lag"].clone())
    };
    assert_eq!(at(0, "topic"), (json!("t"), json!(4), json!(10), json!(6)));
    assert_eq!(at(1, "store"), (json!("s"), json!(3), json!(11), json!(8)));
    assert_eq!(group["offsets"][0]["start"], 0);
    assert_eq!((&group["protected_in"], &group["members"]), (&json!(["t"]), &json!([])));
    assert_eq!(served.read("/v1/topics/t")["protected_for"], json!(["g"]));
    let listed = whole(json!([{"group": "g", "partitions": 2, "generation": 0, "members": 0}]));
    assert_eq!(served.read("/v1/groups"), listed);
    assert_eq!(served.read("/v1/stats")["groups"], json!([{"group": "g", "members": 0, "lag": 14}]));
    assert!(served.get("/metrics").text.contains("quire_group_lag{group=\"g\"} 14"));
    served.write("/v1/commit", json!({"parts": [{"enqueue": {"queue": "fresh", "payload": 1}}]}));
    for (to, offset) in [(json!({"to": "end"}), 2), (json!({"to": "start"}), 0), (json!({"offset": 1}), 1)] {
        let set = served.write("/v1/groups/g/queues/fresh", to);
        assert_eq!(set, json!({"group": "g", "queue": "fresh", "offset": offset}));
        let group = served.read("/v1/groups/g");
        let queue =
            group["offsets"].as_array().and_then(|all| all.iter().find(|it| it["queue"] == "fresh")).expect("there");
        assert_eq!((&queue["offset"], &queue["next"]), (&json!(offset), &json!(2)));
    }
    served.fails("POST", "/v1/groups/g/queues/gone", r#"{"offset": 3}"#, 404, "not_found");
    served.fails("POST", "/v1/groups/g/queues/fresh", "{}", 400, "invalid");
    served.fails("POST", "/v1/groups/g/stores/gone", r#"{"offset": 3}"#, 404, "not_found");
    served.fails("GET", "/v1/groups/gone", "", 404, "not_found");
}

#[test]
fn jobs_are_listed_by_state_a_page_at_a_time() {
    let served = filled();
    let first = served.read("/v1/queues/q/jobs?limit=4");
    assert_eq!(first["data"].as_array().map(Vec::len), Some(4));
    let next = first["next_cursor"].as_str().expect("more");
    let second = served.read(&format!("/v1/queues/q/jobs?state=pending&limit=10&cursor={next}"));
    assert_eq!((second["data"].as_array().map(Vec::len), &second["next_cursor"]), (Some(6), &json!(null)));
    assert_eq!(second["data"][0]["payload"], 4);
    assert_eq!(served.read("/v1/queues/q")["pending"], 10);
    assert_eq!(served.read("/v1/queues")["data"][0]["queue"], "q");
    assert_eq!(served.read("/v1/queues/q/jobs?state=dead")["data"], json!([]));
}

fn names_of(list: &serde_json::Value) -> Vec<serde_json::Value> {
    list.as_array().expect("a list").iter().map(|it| it["name"].clone()).collect()
}

#[test]
fn a_graph_is_walked_within_bounds() {
    let served = filled();
    let walk = served.read("/v1/graphs/g/walk?start=b0&depth=3");
    let names: Vec<_> = walk["visits"].as_array().expect("visits").iter().map(|visit| &visit["name"]).collect();
    assert_eq!(names, ["b0", "b1", "b2", "b3"]);
    assert_eq!(walk["bound"], "depth");
    assert_eq!(served.read("/v1/graphs/g/walk?start=b0&depth=100&limit=2")["bound"], "limit");
    assert_eq!(served.read("/v1/graphs/g/walk?start=b0&depth=100")["bound"], json!(null));
    let both = served.read("/v1/graphs/g/blocks/b5/neighbours?direction=both&limit=1");
    assert_eq!(both["data"][0]["name"], "b6");
    let next = both["next_cursor"].as_str().expect("there is one more");
    let rest = served.read(&format!("/v1/graphs/g/blocks/b5/neighbours?direction=both&cursor={next}"));
    assert_eq!((names_of(&rest["data"]), &rest["next_cursor"]), (vec![json!("b4")], &json!(null)));
    let id = both["data"][0]["id"].as_str().expect("an id");
    assert_eq!(served.read(&format!("/v1/graphs/g/blocks/{id}?by=id"))["name"], "b6");
    assert_eq!(served.read("/v1/graphs"), whole(json!([{"graph": "g", "blocks": 10, "edges": 9}])));
}

#[test]
fn a_missing_object_is_404() {
    let served = filled();
    for path in [
        "/v1/topics/gone",
        "/v1/topics/t/partitions/7/records",
        "/v1/topics/gone/groups/g",
        "/v1/queues/gone",
        "/v1/jobs/999-0",
        "/v1/graphs/gone/walk?start=b0",
        "/v1/graphs/g/blocks/gone",
    ] {
        served.fails("GET", path, "", 404, "not_found");
    }
    served.fails("GET", "/v1/nothing", "", 404, "unknown_route");
    let answer = served.ask("DELETE", "/v1/queues", "");
    assert_eq!((answer.status, &answer.json()["code"]), (405, &json!("method_not_allowed")));
    assert!(answer.head.contains("allow: get"), "{answer:?}");
}

#[test]
fn a_parameter_out_of_bounds_or_unknown_is_refused_by_name() {
    let served = filled();
    let told = |path: &str, told: &str| {
        let problem = served.fails("GET", path, "", 400, "invalid");
        let message = problem["detail"].as_str().expect("text");
        assert!(message.contains(told), "{path}: {message}");
    };
    told("/v1/events/s?limit=10001", "limit must be 1 to 10000, got 10001");
    told("/v1/events/s?limit=0", "limit must be 1 to 10000");
    told("/v1/events/s?limit=many", "invalid limit \"many\"");
    told("/v1/events/s?tags=all", "unknown parameter \"tags\"");
    told("/v1/events/s?after=1&after=2", "after occurs 2 times");
    told("/v1/queues/q/jobs?state=lost", "scheduled, pending, active");
    told("/v1/graphs/g/walk", "start");
    told("/v1/graphs/g/walk?start=b0&depth=50000000", "depth must be 0 to 10000000");
    told("/v1/topics/t/partitions/x/records", "x");
    told("/v1/topics/t?wait_ms=60001", "wait_ms must be 0 to 60000");
    told("/v1/jobs/7", "position-index");
    told("/v1/events/%FF", "UTF-8");
}

#[test]
fn a_read_of_a_partition_with_a_damaged_last_record_returns_the_readable_end() {
    let served = Served::with(|builder| builder.segment_bytes(64 << 10).background(quire::Background::Caller));
    let produce = |topic: &str, number: usize| {
        let value = format!("record {number:04} {}", "x".repeat(3000));
        served.write("/v1/commit", json!({"parts": [{"produce": {"topic": topic, "value_text": value}}]}));
    };
    (0..3).for_each(|number| produce("cut", number));
    (3..60).for_each(|number| produce("whole", number));
    served.damage("record 0002");
    let topic = served.read("/v1/topics/cut");
    let partition = &topic["partitions"][0];
    assert_eq!((&partition["start"], &partition["next"]), (&json!(0), &json!(2)), "{topic}");
    let why = partition["unreadable"].as_str().expect("it says why");
    assert!(why.contains("00000000000000000001.log"), "{why}");
    assert_eq!(served.read("/v1/topics/whole")["partitions"][0].get("unreadable"), None);
    let page = served.read("/v1/topics/cut/partitions/0/records?offset=0");
    assert_eq!(page["data"].as_array().expect("records").len(), 2, "{page}");
    served.fails("GET", "/v1/topics/cut/partitions/0/records?offset=2", "", 500, "damaged");
}
