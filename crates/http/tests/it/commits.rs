//! Commits over HTTP: their effects, and the errors of refused or invalid ones.

use std::io::Write;

use flate2::write::GzEncoder;
use quire_http::Settings;
use serde_json::{Value, json};

use crate::served::{Answer, Served};

fn departure() -> Value {
    let unseen = json!({"items": [{"types": ["Departed"], "tags": ["flight:UA1545"]}]});
    json!({"parts": [
        {"append": {
            "store": "air/flights",
            "events": [{"type": "Departed", "tags": ["flight:UA1545", "plane:N14228"], "data": {"delay": 42}}],
            "conditions": [{"fail_if_events_match": unseen, "after": 0}],
        }},
        {"produce": {"topic": "departures", "key": "EWR", "value_text": "UA1545 to IAH",
            "headers": [{"key": "carrier", "value": "UA"}, {"key": "empty", "value": ""}, {"key": "none"}, {"key": "null", "value": null}],
            "timestamp_ms": 1_357_034_400_000_u64}},
        {"enqueue": {"queue": "air/delays", "kind": "notify", "payload": {"flight": "UA1545"}, "priority": 192}},
        {"put_block": {"graph": "air/routes", "block": "EWR", "kind": "airport", "content_text": "Newark"}},
        {"put_block": {"graph": "air/routes", "block": "IAH", "kind": "airport", "tags": ["texas"]}},
        {"put_edge": {"graph": "air/routes", "source": "EWR", "type": "flies_to", "target": "IAH"}},
    ]})
}

#[test]
fn one_commit_over_four_models_is_answered_part_by_part_and_read_back() {
    let served = Served::new();
    let done = served.write("/v1/commit", departure());
    assert_eq!(done["position"], 1);
    let replies = done["replies"].as_array().expect("replies");
    assert_eq!(replies[0], json!({"appended": {"first": 1, "last": 1, "duplicate": false}}));
    assert_eq!(replies[1], json!({"produced": {"partition": 0, "offset": 0}}));
    assert_eq!(replies[2]["enqueued"]["state"], "pending");
    assert_eq!(replies[3]["block_put"]["created"], true);
    assert_eq!(replies[5], json!({"edge_put": {"created": true}}));

    let events = served.read("/v1/events/air%2Fflights?type=Departed&tag=plane:N14228");
    assert_eq!(events["head"], 1);
    assert_eq!(events["has_more"], false);
    assert_eq!(events["data"][0]["data"], json!({"delay": 42}));
    assert_eq!(events["data"][0]["tags"], json!(["flight:UA1545", "plane:N14228"]));

    let records = served.read("/v1/topics/departures/partitions/0/records?offset=0");
    assert_eq!(records["next_offset"], 1);
    let expect = json!({"offset": 0, "timestamp_ms": 1_357_034_400_000_u64, "key": "EWR", "value_text": "UA1545 to IAH",
        "headers": [{"key": "carrier", "value": "UA"}, {"key": "empty", "value": ""}, {"key": "none", "value": null}, {"key": "null", "value": null}]});
    assert_eq!(records["data"][0], expect);

    let job = replies[2]["enqueued"]["job"].as_str().expect("an id");
    let job = served.read(&format!("/v1/jobs/{job}"));
    assert_eq!(
        (&job["state"], &job["payload"], &job["priority"]),
        (&json!("pending"), &json!({"flight": "UA1545"}), &json!(192))
    );
    assert_eq!(job["history"][0]["what"], "enqueued");

    let block = served.read("/v1/graphs/air%2Froutes/blocks/EWR");
    assert_eq!((&block["name"], &block["content_text"]), (&json!("EWR"), &json!("Newark")));
    let neighbours = served.read("/v1/graphs/air%2Froutes/blocks/EWR/neighbours?type=flies_to");
    assert_eq!(neighbours["data"][0]["name"], "IAH");
}

#[test]
fn a_failed_condition_is_409_and_names_part_condition_and_conflicting_position() {
    let served = Served::new();
    served.write("/v1/commit", departure());
    let refused = served.fails("POST", "/v1/commit", &departure().to_string(), 409, "condition_failed");
    assert_eq!((&refused["part"], &refused["condition"], &refused["position"]), (&json!(0), &json!(0), &json!(1)));
    assert_eq!(served.read("/v1/topics/departures")["partitions"][0]["next"], 1, "nothing of it happened");

    let last_is = json!({"parts": [{"append": {"store": "air/flights", "conditions": [
        {"last_is": {"items": [{"tags": ["plane:N14228"]}], "position": 7}},
    ]}}]});
    let refused = served.fails("POST", "/v1/commit", &last_is.to_string(), 409, "condition_failed");
    assert_eq!(refused["position"], 1);
}

/// A commit of one part that is refused; the facts.
#[track_caller]
fn refused(served: &Served, part: Value, status: u16, code: &str) -> Value {
    served.fails("POST", "/v1/commit", &json!({"parts": [part]}).to_string(), status, code)
}

#[test]
fn refusals_carry_their_facts() {
    let served = Served::new();
    served.write("/v1/commit", departure());

    let facts = refused(
        &served,
        json!({"put_block": {"graph": "air/routes", "block": "EWR", "kind": "airport", "expect_version": 5}}),
        409,
        "version_mismatch",
    );
    assert_eq!((&facts["name"], &facts["expected"], &facts["found"]), (&json!("EWR"), &json!(5), &json!(1)));
    assert!(
        facts["detail"].as_str().is_some_and(|message| message.starts_with("version 5 of block \"EWR\" (")),
        "{facts}"
    );
    let facts = refused(
        &served,
        json!({"put_edge": {"graph": "air/routes", "source": "EWR", "type": "flies_to", "target": "XXX"}}),
        409,
        "missing_block",
    );
    assert_eq!((&facts["name"], &facts["end"]), (&json!("XXX"), &json!("target")));
    let facts = refused(&served, json!({"create_topic": {"name": "departures", "partitions": 3}}), 409, "topic_exists");
    assert_eq!(facts["partitions"], 1);
    let facts = refused(
        &served,
        json!({"commit_offset": {"group": "g", "topic": "gone", "partition": 0, "offset": 1}}),
        409,
        "unknown_topic",
    );
    assert_eq!(facts["topic"], "gone");
    let facts = refused(&served, json!({"ack": {"job": "999-0", "token": "1000-0"}}), 409, "unknown_job");
    assert_eq!(facts["job"], "999-0");
    let facts = refused(&served, json!({"fetch": {"queues": ["air/delays"], "count": 0}}), 400, "out_of_range");
    assert_eq!((&facts["least"], &facts["most"]), (&json!(1), &json!(1024)));
    let facts = refused(
        &served,
        json!({"append": {"store": "air/flights", "events": [{"type": "A"}], "conditions": [{"fail_if_events_match": {"items": [{}]}, "after": 9}]}}),
        409,
        "after_ahead",
    );
    assert_eq!(facts["head"], 1);
    refused(&served, json!({"append": {"store": "no store!", "events": [{"type": "A"}]}}), 400, "invalid_name");
    refused(&served, json!({"append": {"store": "s"}}), 400, "nothing_asked");
}

#[test]
fn every_other_command_is_a_part_too() {
    let served = Served::new();
    served.write("/v1/commit", departure());
    let parts = json!({"parts": [
        {"create_topic": {"name": "gates", "partitions": 2}},
        {"commit_offset": {"group": "boards", "topic": "departures", "partition": 0, "offset": 1, "metadata": "note"}},
        {"fetch": {"queues": ["air/delays"], "worker": "w1", "lease_ms": 60_000}},
        {"delete_edge": {"graph": "air/routes", "source": "EWR", "type": "flies_to", "target": "IAH"}},
        {"delete_block": {"graph": "air/routes", "block": "IAH"}},
        {"tick": {}},
    ]});
    let done = served.write("/v1/commit", parts);
    let replies = done["replies"].as_array().expect("replies");
    assert_eq!(replies[0], json!({"topic_created": {"partitions": 2}}));
    let job = &replies[2]["fetched"]["jobs"][0];
    assert_eq!((&job["payload"], &job["attempt"]), (&json!({"flight": "UA1545"}), &json!(1)));
    assert_eq!(replies[3], json!({"edge_deleted": {"existed": true}}));
    assert_eq!(replies[4]["block_deleted"]["version"], 1);

    let offsets = served.read("/v1/topics/departures/groups/boards");
    assert_eq!((&offsets["offsets"][0]["offset"], &offsets["offsets"][0]["metadata"]), (&json!(1), &json!("note")));

    let beat = json!({"parts": [{"heartbeat": {"job": job["job"], "token": job["token"], "lease_ms": 90_000}}]});
    assert!(served.write("/v1/commit", beat)["replies"][0]["extended"]["deadline_ms"].is_u64());
    let fail = json!({"parts": [{"fail": {"job": job["job"], "token": job["token"], "error": "no phone", "retry_delay_ms": 0}}]});
    assert!(served.write("/v1/commit", fail)["replies"][0]["failed"]["retry_at_ms"].is_u64());
    let many = json!({"parts": [{"each": [{"ack": {"job": job["job"], "token": job["token"]}}]}]});
    let late = served.write("/v1/commit", many);
    assert_eq!(late["replies"][0]["each"][0]["refused"]["code"], "stale_lease");
}

#[test]
fn an_invalid_value_in_a_body_is_reported_with_its_field_and_not_as_malformed() {
    let served = Served::new();
    for (part, field) in [
        (
            json!({"append": {"store": "s", "events": [{"type": "A"}, {"type": "B", "data_base64": "?"}]}}),
            "parts[0].append.events[1].data_base64",
        ),
        (
            json!({"append": {"store": "s", "events": [{"type": "A", "tags": [{"base64": "?"}]}]}}),
            "parts[0].append.events[0].tags[0].base64",
        ),
        (
            json!({"put_block": {"graph": "g", "block": "a", "kind": "k", "content_base64": "=="}}),
            "parts[0].put_block.content_base64",
        ),
        (json!({"enqueue": {"queue": "q", "max_attempts": "x"}}), "parts[0].enqueue.max_attempts"),
        (json!(7), "parts[0]"),
        (json!({"enqueue": {"queue": "q", "backoff": 7}}), "parts[0].enqueue.backoff"),
    ] {
        let problem = served.fails("POST", "/v1/commit", &json!({"parts": [part]}).to_string(), 400, "invalid");
        assert_eq!(problem["field"], field, "{problem}");
        assert!(problem["detail"].as_str().expect("text").starts_with(&format!("{field}: ")), "{problem}");
    }
    let file = "{\"block\":{\"name\":\"a\",\"kind\":\"k\"}}\n{\"block\":{\"name\":\"b\",\"kind\":\"k\",\"metadata_base64\":\"?\"}}\n";
    let problem = served.fails("POST", "/v1/graphs/g/import", file, 400, "invalid");
    assert!(problem["detail"].as_str().expect("text").contains("metadata_base64: base64: "), "{problem}");
    assert_eq!(problem["line"], 2);
}

#[test]
fn a_body_that_is_encoded_is_refused_instead_of_being_taken_for_what_it_encodes() {
    let served = Served::new();
    let body = r#"{"block":{"name":"a","kind":"k"}}"#;
    let send = |encoding: &str| {
        let headers = format!("Connection: close\r\n{encoding}");
        let head = served.head("POST", "/v1/graphs/g/import", body.len(), &headers);
        served.send(format!("{head}{body}").as_bytes())
    };
    for encoding in ["br", "identity, deflate", "gzip, gzip", "gzip\r\nContent-Encoding: zstd"] {
        let answer = send(&format!("Content-Encoding: {encoding}\r\n"));
        assert_eq!((answer.status, &answer.json()["code"]), (415, &json!("unsupported_encoding")), "{encoding}");
        assert!(answer.head.contains("accept-encoding: gzip, zstd, identity"), "{answer:?}");
    }
    for encoding in ["gzip", "zstd"] {
        let answer = send(&format!("Content-Encoding: {encoding}\r\n"));
        assert_eq!((answer.status, &answer.json()["code"]), (400, &json!("invalid")), "{encoding}");
    }
    for encoding in ["", "Content-Encoding: Identity\r\n", "Content-Encoding:\r\n"] {
        assert_eq!(send(encoding).status, 200, "{encoding}");
    }
}

/// Encodes a body in gzip, and in zstd.
fn encoded(body: &[u8]) -> [(&'static str, Vec<u8>); 2] {
    let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(body).expect("encoded");
    [("gzip", gzip.finish().expect("encoded")), ("zstd", zstd::encode_all(body, 1).expect("encoded"))]
}

/// Posts a body in an encoding.
fn post_encoded(served: &Served, path: &str, encoding: &str, body: &[u8]) -> Answer {
    let headers = format!("Connection: close\r\nContent-Encoding: {encoding}\r\n");
    served.send(&[served.head("POST", path, body.len(), &headers).as_bytes(), body].concat())
}

#[test]
fn a_body_in_gzip_or_zstd_is_unpacked_within_its_limit_and_the_memory() {
    let served = Served::new();
    let file = br#"{"block":{"name":"a","kind":"k"}}"#;
    for (encoding, body) in encoded(file) {
        assert_eq!(post_encoded(&served, "/v1/graphs/g/import", encoding, &body).status, 200, "{encoding}");
        let cut = post_encoded(&served, "/v1/graphs/g/import", encoding, &body[..body.len() - 5]);
        assert_eq!(cut.status, 400, "{encoding}: {cut:?}");
    }
    let commit = br#"{"parts": [{"enqueue": {"queue": "q", "payload": 1}}]}"#;
    for (encoding, body) in encoded(commit) {
        assert_eq!(post_encoded(&served, "/v1/commit", encoding, &body).status, 200, "{encoding}");
    }
    // A few KiB are 300 MiB of spaces, and no route takes a body of that size.
    for (encoding, bomb) in encoded(&vec![b' '; 300 << 20]) {
        for path in ["/v1/commit", "/v1/graphs/g/import"] {
            let answer = post_encoded(&served, path, encoding, &bomb);
            assert_eq!((answer.status, &answer.json()["code"]), (413, &json!("too_large")), "{encoding} {path}");
        }
    }
    // The whole memory is less than the body.
    let small = Served::with_settings(Settings { memory_bytes_max: 4 << 20, ..Settings::default() }, |builder| builder);
    for (encoding, body) in encoded(&vec![b' '; 6 << 20]) {
        let answer = post_encoded(&small, "/v1/graphs/g/import", encoding, &body);
        assert_eq!((answer.status, &answer.json()["code"]), (413, &json!("too_large")), "{encoding}");
    }
}

#[test]
fn a_body_that_is_not_json_is_refused_with_line_and_column() {
    let served = Served::new();
    let problem = served.fails("POST", "/v1/commit", "{\"parts\": [\n  {\"append\": }\n]}", 400, "malformed_json");
    assert_eq!((&problem["line"], &problem["column"]), (&json!(2), &json!(14)));
    served.fails("POST", "/v1/commit", "", 400, "malformed_json");
}

#[test]
fn an_unknown_field_or_command_is_named() {
    let served = Served::new();
    let misspelt = |part: Value| {
        let body = json!({"parts": [part]}).to_string();
        served.fails("POST", "/v1/commit", &body, 400, "invalid")["detail"].as_str().expect("text").to_owned()
    };
    assert!(misspelt(json!({"enqueue": {"queue": "q", "priorty": 3}})).contains("priorty"));
    assert!(misspelt(json!({"apend": {}})).contains("apend"));
    assert!(
        misspelt(json!({"append": {"store": "s", "events": [{"type": "A", "data_base64": "???"}]}})).contains("base64")
    );
    assert!(misspelt(json!({"ack": {"job": "x", "token": "1-0"}})).contains("position-index"));
    assert!(
        misspelt(json!({"put_edge": {"graph": "g", "source": 7, "type": "t", "target": "b"}})).contains("its name")
    );
    assert!(
        misspelt(json!({"append": {"store": "s", "conditions": [{"after": 7}]}})).contains("a condition must have")
    );
    assert!(misspelt(json!({"enqueue": {"queue": "q", "payload": 1, "payload_text": "1"}})).contains("payload_text"));
    assert_eq!(served.read("/v1/stats")["commits"], 0, "none of it was committed");
}

#[test]
fn a_part_is_an_object_with_exactly_one_command() {
    let served = Served::new();
    for body in [r#"{"parts":[{}]}"#, r#"{"parts":[{"tick":{},"append":{"store":"s"}}]}"#, r#"{"parts":["tick"]}"#] {
        let problem = served.fails("POST", "/v1/commit", body, 400, "invalid");
        let message = problem["detail"].as_str().expect("text");
        assert!(message.contains("a part must have exactly one of append, upstream, "), "{message}");
    }
    served.fails("POST", "/v1/commit", r#"[[{"tick":{}}]]"#, 400, "invalid");
    served.write("/v1/commit", r#"{"parts":[{"tick":{}}]}"#);
}

#[test]
fn a_body_or_commit_that_is_too_large_is_413() {
    let served = Served::with(|builder| builder.commit_bytes_max(10_000));
    let commit =
        |bytes: usize| json!({"parts": [{"enqueue": {"queue": "q", "payload_text": "x".repeat(bytes)}}]}).to_string();
    served.fails("POST", "/v1/commit", &commit(12_000), 413, "too_large");
    served.fails("POST", "/v1/commit", &commit(200_000), 413, "too_large");
    served.write("/v1/commit", commit(5_000));
}

#[test]
fn a_commit_of_many_bytes_is_whole() {
    let served = Served::with(|builder| builder.segment_bytes(8 << 20));
    let text = "x".repeat(3 << 20);
    served.write(
        "/v1/commit",
        json!({"parts": [{"append": {"store": "s", "events": [{"type": "A", "data_text": text}]}}]}),
    );
    assert_eq!(served.read("/v1/events/s")["data"][0]["data_text"], text);
}

#[test]
fn values_come_back_to_the_byte() {
    let served = Served::new();
    let raw = r#"{"parts":[{"append":{"store":"s","events":[{"type":"A","data":{"b":1.10, "a":"\u0041"},"metadata_base64":"/wA="}]}},{"produce":{"topic":"t","key":"k","value":null}},{"enqueue":{"queue":"q","payload":[1, 2]}}]}"#;
    served.write("/v1/commit", raw);
    let database = served.database.as_ref().expect("open");
    let events = database.events("s").read(&quire::events::Query::all(), Default::default()).expect("read").events;
    assert_eq!(events[0].data, br#"{"b":1.10, "a":"\u0041"}"#);
    assert_eq!(events[0].metadata, [0xff, 0]);
    assert!(served.get("/v1/events/s").text.contains(r#""data":{"b":1.10, "a":"\u0041"}"#));
    assert_eq!(served.read("/v1/events/s")["data"][0]["metadata_base64"], "/wA=");
    assert_eq!(served.read("/v1/topics/t/partitions/0/records")["data"][0]["value"], Value::Null);
    assert_eq!(database.queue("q").fetch("w", 1).expect("fetch")[0].payload, b"[1, 2]");
}

#[test]
fn json_nested_deeper_than_64_levels_is_refused_and_shown_as_text() {
    let served = Served::new();
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let event = |depth: usize| {
        let data = nested(depth);
        format!(r#"{{"parts":[{{"append":{{"store":"s","events":[{{"type":"A","data":{data}}}]}}}}]}}"#)
    };
    served.write("/v1/commit", event(64));
    for depth in [65, 126, 10_000] {
        let refused = served.fails("POST", "/v1/commit", &event(depth), 400, "invalid");
        assert!(refused["detail"].as_str().expect("text").contains("64 levels"), "{refused}");
        assert_eq!(refused["part"], 0);
    }
    let text = nested(126);
    served.write(
        "/v1/commit",
        json!({"parts": [{"append": {"store": "s", "events": [{"type": "A", "data_text": text}]}}]}),
    );
    let events = served.read("/v1/events/s");
    assert_eq!(events["data"][0]["data"].to_string(), nested(64));
    assert_eq!(events["data"][1]["data_text"], text);
}

#[test]
fn commits_outlive_the_server() {
    let mut served = Served::new();
    served.write("/v1/commit", departure());
    served.stop();
    drop(served.database.take());
    let database = quire::Database::open(served.path()).expect("the server let go of the database");
    assert_eq!(database.events("air/flights").head().expect("read").get(), 1);
}

#[test]
fn a_topic_is_changed_trimmed_and_deleted() {
    let served = Served::new();
    let part = |part: Value| served.write("/v1/commit", json!({"parts": [part]}))["replies"][0].clone();
    let settings = json!({
        "retention_ms": 60_000, "batch_bytes_max": 100, "compression": "zstd", "cleanup": "delete,compact", "delete_retention_ms": 5
    });
    let create = json!({"create_topic": {"name": "t", "partitions": 1, "settings": settings}});
    assert_eq!(part(create), json!({"topic_created": {"partitions": 1}}));
    assert_eq!(served.read("/v1/topics/t")["settings"]["batch_bytes_max"], 100);
    let produce = json!({"produce": {"topic": "t", "key": "k", "value_base64": "SoVOTr97LwMOqPEJhZDsxTwnEpNuPMpRrBR4j8cTKW0jX2/pIcTBhDGhxrXJ5r8u", "partition": 0}});
    let body = |part: &Value| json!({"parts": [part]}).to_string();
    let refused = served.fails("POST", "/v1/commit", &body(&produce), 409, "batch_too_large");
    assert_eq!(refused["most"], 100, "{refused}");
    let alter = json!({"alter_topic": {"topic": "t", "settings": {"batch_bytes_max": null}}});
    assert_eq!(part(alter), json!({"topic_altered": {"partitions": 1}}));
    assert_eq!(part(produce.clone()), json!({"produced": {"partition": 0, "offset": 0}}));
    assert_eq!(part(produce), json!({"produced": {"partition": 0, "offset": 1}}));
    let more = json!({"alter_topic": {"topic": "t", "partitions": 3}});
    assert_eq!(part(more), json!({"topic_altered": {"partitions": 3}}));
    let both = json!({"alter_topic": {"topic": "t", "partitions": 4, "settings": {}}});
    served.fails("POST", "/v1/commit", &body(&both), 400, "invalid");

    let delete = json!({"delete_records": {"topic": "t", "partition": 0, "before": 1}});
    assert_eq!(part(delete), json!({"records_deleted": {"partition": 0, "start": 1}}));
    let topic = served.read("/v1/topics/t");
    assert_eq!((&topic["partitions"][0]["start"], &topic["partitions"][0]["next"]), (&json!(1), &json!(2)));
    let settings = &topic["settings"];
    assert_eq!((&settings["retention_ms"], &settings["compression"]), (&json!(60_000), &json!("zstd")));
    // Whatever is said, or not, a batch is no larger than a commit.
    let most = served.database.as_ref().expect("it is served").batch_bytes_max();
    assert_eq!(settings["batch_bytes_max"], most);
    assert_eq!((&settings["cleanup"], &settings["delete_retention_ms"]), (&json!("compact,delete"), &json!(5)));
    let keyless = json!({"produce": {"topic": "t", "value": 1, "partition": 0}});
    let refused = served.fails("POST", "/v1/commit", &body(&keyless), 400, "missing_key");
    assert_eq!(refused["record"], 0, "{refused}");
    let unknown = json!({"alter_topic": {"topic": "t", "settings": {"cleanup": "tidy"}}});
    let refused = served.fails("POST", "/v1/commit", &body(&unknown), 400, "invalid");
    assert!(refused["detail"].as_str().is_some_and(|message| message.contains("\"tidy\"")), "{refused}");
    let unknown = json!({"alter_topic": {"topic": "t", "settings": {"compression": "rar"}}});
    let refused = served.fails("POST", "/v1/commit", &body(&unknown), 400, "invalid");
    assert!(refused["detail"].as_str().is_some_and(|message| message.contains("\"rar\"")), "{refused}");
    let commit = json!({"commit_offset": {"group": "g", "topic": "t", "partition": 0, "offset": 1}});
    assert_eq!(part(commit), json!({"offset_committed": {"partition": 0}}));
    let forget = json!({"delete_offset": {"group": "g", "topic": "t", "partition": 0}});
    assert_eq!(part(forget), json!({"offset_deleted": {"partition": 0}}));
    assert_eq!(part(json!({"delete_group": {"group": "g"}})), json!({"group_deleted": {}}));
    assert_eq!(part(json!({"delete_topic": {"topic": "t"}})), json!({"topic_deleted": {}}));
    assert_eq!(served.read("/v1/topics")["data"], json!([]));
}

#[test]
fn a_direct_route_commits_its_part_and_answers_with_the_fields_of_the_reply() {
    let served = Served::new();
    assert_eq!(served.write("/v1/topics", json!({"name": "orders", "partitions": 2})), json!({"partitions": 2}));
    let message = json!({"key": "a", "value": {"n": 1}, "partition": 1});
    assert_eq!(served.write("/v1/topics/orders/records", message), json!({"partition": 1, "offset": 0}));
    let job = json!({"kind": "send", "payload": {"to": 7}, "priority": "high", "tags": ["x"]});
    // The first entry of the commit creates the queue.
    let enqueued = served.write("/v1/queues/mail%2Fout/jobs", job);
    assert_eq!(enqueued, json!({"job": "3-1", "state": "pending"}));
    let put = served.write("/v1/graphs/g/blocks/EWR", json!({"kind": "airport", "content_text": "Newark"}));
    assert_eq!(put, json!({"id": "4c740806f21576c7b5792ec31c9d116a", "version": 1, "created": true}));
    let id = "000102030405060708090a0b0c0d0e0f";
    let by_id = served.write(&format!("/v1/graphs/g/blocks/{id}?by=id"), json!({"kind": "airport"}));
    assert_eq!(by_id["id"], id);

    assert_eq!(served.read("/v1/topics/orders/partitions/1/records")["data"][0]["value"], json!({"n": 1}));
    let found = served.read("/v1/jobs/3-1");
    assert_eq!(
        (&found["queue"], &found["kind"], &found["priority"]),
        (&json!("mail/out"), &json!("send"), &json!(192))
    );
    assert_eq!(served.read("/v1/graphs/g/blocks/EWR")["content_text"], "Newark");
    assert_eq!(served.read("/v1/stats")["commits"], 5, "each is one commit");

    let again = served.fails("POST", "/v1/topics", r#"{"name": "orders", "partitions": 2}"#, 409, "topic_exists");
    assert_eq!((&again["partitions"], again.get("part")), (&json!(2), None));
    served.fails("POST", "/v1/queues/no%20queue/jobs", "{}", 400, "invalid_name");
    served.fails("POST", "/v1/graphs/g/blocks/7?by=id", r#"{"kind": "k"}"#, 400, "invalid");
    for (path, body, field) in [
        ("/v1/queues/mail/jobs", r#"{"queue": "other"}"#, "queue"),
        ("/v1/topics/orders/records", r#"{"topic": "other"}"#, "topic"),
        ("/v1/graphs/g/blocks/EWR", r#"{"kind": "k", "block": "other"}"#, "block"),
    ] {
        let twice = served.fails("POST", path, body, 400, "invalid");
        let detail = twice["detail"].as_str().expect("text");
        assert!(detail.contains(&format!("duplicate field `{field}`")) && twice["field"] == field, "{twice}");
    }
    let unknown = served.fails("POST", "/v1/queues/mail/jobs", r#"{"payloed": 1}"#, 400, "invalid");
    assert_eq!(unknown["field"], "payloed");
    served.fails("POST", "/v1/queues/mail/jobs", "", 400, "malformed_json");
}

#[test]
fn a_dry_run_gets_the_answer_of_the_commit_and_commits_nothing() {
    let served = Served::new();
    let tried = served.write("/v1/commit?dry_run=true", departure());
    assert_eq!((&tried["dry_run"], &tried["position"]), (&json!(true), &json!(1)));
    let models = tried["entries"].as_array().expect("entries").iter().map(|entry| &entry["model"]);
    let models: std::collections::BTreeSet<_> = models.map(|model| model.as_str().expect("text")).collect();
    assert_eq!(models.into_iter().collect::<Vec<_>>(), ["events", "graph", "jobs", "streams"]);
    assert_eq!(served.read("/v1/stats")["position"], 0);
    assert_eq!(served.write("/v1/commit", departure())["replies"], tried["replies"]);

    let body = departure().to_string();
    let mut tried = served.fails("POST", "/v1/commit?dry_run=true", &body, 409, "condition_failed");
    let mut refused = served.fails("POST", "/v1/commit", &body, 409, "condition_failed");
    for problem in [&mut tried, &mut refused] {
        problem["request_id"].take();
    }
    assert_eq!(tried, refused);
    assert_eq!(served.read("/v1/stats")["refusals"], 1, "the dry run is not counted");
    served.write("/v1/commit?dry_run=false", json!({"parts": []}));
    served.fails("POST", "/v1/commit?dry_run=yes", &body, 400, "invalid");
}
