//! Life-cycle events over HTTP, and queues that are full.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::served::Served;

/// Reads `count` events; each as its id, its name and its data. Runs `meanwhile` after all past
/// events.
fn subscribe(
    served: &Served,
    parameters: &str,
    header: &str,
    count: usize,
    mut meanwhile: impl FnMut(),
) -> Vec<(String, String, Value)> {
    let mut stream = TcpStream::connect(served.address).expect("it listens");
    let request = served.head("GET", &format!("/v1/jobs/subscribe{parameters}"), 0, header);
    stream.write_all(request.as_bytes()).expect("sent");
    let mut found = Vec::new();
    let (mut id, mut event) = (String::new(), String::new());
    for line in BufReader::new(stream).lines() {
        let line = line.expect("a line");
        match line.split_once(": ") {
            Some(("id", given)) => id = given.to_owned(),
            Some(("event", given)) => event = given.to_owned(),
            Some(("data", _)) if event == "caught_up" => meanwhile(),
            Some(("data", data)) => {
                found.push((id.clone(), event.clone(), serde_json::from_str(data).expect("JSON")));
            }
            _ => {}
        }
        if found.len() == count {
            break;
        }
    }
    found
}

fn enqueue(served: &Served, job: Value) -> String {
    let answer = served.write("/v1/commit", json!({"parts": [{"enqueue": job}]}));
    answer["replies"][0]["enqueued"]["job"].as_str().expect("an id").to_owned()
}

#[test]
fn job_events_are_sent_filtered_and_resume_at_their_position() {
    let served = Served::new();
    enqueue(&served, json!({"queue": "mail", "kind": "welcome", "payload": {"to": 1}, "tags": ["vip"]}));
    let live = || {
        let jobs = served.write("/v1/queues/mail/fetch", json!({"worker": "w1"}));
        let job = &jobs["jobs"][0];
        let path = format!("/v1/jobs/{}/ack", job["job"].as_str().expect("an id"));
        served.write(&path, json!({"token": job["token"], "result": "sent"}));
    };
    let told = subscribe(&served, "?queue=mail&after=start", "", 4, live);
    let names: Vec<_> = told.iter().map(|(_, name, _)| name.as_str()).collect();
    assert_eq!(names, ["queue_created", "enqueued", "leased", "completed"]);
    let (enqueued, leased, completed) = (&told[1].2, &told[2].2, &told[3].2);
    assert_eq!((&enqueued["payload"], &enqueued["state"]), (&json!({"to": 1}), &json!("pending")));
    assert_eq!((&leased["worker"], &leased["attempt"], &leased["kind"]), (&json!("w1"), &json!(1), &json!("welcome")));
    assert_eq!((&completed["result"], &completed["number"]), (&json!("sent"), &json!(3)));
    assert_eq!(completed["after"], told[3].0);

    let header = format!("Last-Event-ID: {}\r\n", told[1].0);
    let again = subscribe(&served, "?queue=mail&after=start", &header, 2, || ());
    assert_eq!(again, told[2..], "the header goes first");
    let other = || drop(enqueue(&served, json!({"queue": "other", "kind": "sms"})));
    let comes = subscribe(&served, "?event=enqueued", "", 1, other);
    assert_eq!((&comes[0].2["queue"], &comes[0].2["kind"]), (&json!("other"), &json!("sms")));
    let tagged = subscribe(&served, "?tag=vip&event=completed&after=start", "", 1, || ());
    assert_eq!(tagged[0], told[3]);
    for wrong in ["?event=finished", "?job=1", "?after=7", "?queue=no%20queue", "?kin=welcome"] {
        served.fails("GET", &format!("/v1/jobs/subscribe{wrong}"), "", 400, "invalid");
    }
}

#[test]
fn a_full_queue_answers_that_it_is_overloaded_and_when_to_come_back() {
    let served = Served::new();
    served.write("/v1/queues/q/settings", json!({"jobs_max": 1}));
    assert_eq!(served.read("/v1/queues/q")["settings"], json!({"jobs_max": 1}));
    enqueue(&served, json!({"queue": "q"}));
    let body = json!({"parts": [{"enqueue": {"queue": "q"}}]}).to_string();
    let problem = served.fails("POST", "/v1/commit", &body, 429, "overloaded");
    assert_eq!(
        (&problem["retry_after_ms"], &problem["jobs_max"], &problem["queue"]),
        (&json!(100), &json!(1), &json!("q"))
    );
    assert!(served.post("/v1/commit", &body).head.contains("retry-after: 1"));
    let each = served.write("/v1/commit", json!({"parts": [{"each": [{"enqueue": {"queue": "q"}}]}]}));
    assert_eq!(each["replies"][0]["each"][0]["refused"]["code"], "overloaded");
    served.write("/v1/queues/q/settings", json!({"jobs_max": null}));
    served.write("/v1/commit", &body);
}

#[test]
fn a_queue_and_a_job_show_the_retention_of_finished_jobs() {
    let served = Served::new();
    served.write("/v1/queues/q/settings", json!({"retention_ms": 86_400_000}));
    assert_eq!(served.read("/v1/queues/q")["settings"], json!({"retention_ms": 86_400_000}));
    let job = enqueue(&served, json!({"queue": "q", "retention_ms": 1_000}));
    assert_eq!(served.read(&format!("/v1/jobs/{job}"))["retention_ms"], 1_000);
    let body = json!({"retention_ms": 0}).to_string();
    served.fails("POST", "/v1/queues/q/settings", &body, 400, "out_of_range");
    served.write("/v1/queues/q/settings", json!({"retention_ms": null}));
    assert_eq!(served.read("/v1/queues/q")["settings"], json!(null));
}

#[test]
fn a_job_that_is_held_or_cancelled_without_a_reason_is_shown_without_one() {
    let served = Served::new();
    for (change, has_reason) in [("hold", false), ("hold", true), ("cancel", false), ("cancel", true)] {
        let job = enqueue(&served, json!({"queue": "q"}));
        let why = if has_reason { json!({"reason": "why"}) } else { json!({}) };
        served.write(&format!("/v1/jobs/{job}/change"), json!({ change: why }));
        let expected = has_reason.then(|| json!("why"));
        assert_eq!(served.read(&format!("/v1/jobs/{job}")).get("reason"), expected.as_ref(), "{change} {has_reason}");
    }
}

#[test]
fn empty_and_ambiguous_requests_are_refused() {
    let served = Served::new();
    let job = enqueue(&served, json!({"queue": "q"}));
    let change = format!("/v1/jobs/{job}/change");
    served.fails("POST", "/v1/queues/new/settings", "{}", 400, "invalid");
    served.fails("POST", &change, "{}", 400, "invalid");
    served.fails("POST", &change, r#"{"release": {}, "delete": {}}"#, 400, "invalid");
    served.fails("POST", "/v1/queues/q/settings", r#"{"rate": {}}"#, 400, "invalid");
    let enqueue = |job: &str| format!(r#"{{"parts": [{{"enqueue": {job}}}]}}"#);
    for wrong in [
        r#"{"queue": "q", "unique": {"key": "k", "hold": "until_started", "hold_ms": 5}}"#,
        r#"{"queue": "q", "run_at_ms": 4611686018427387904}"#,
        r#"{"queue": "q", "delay_ms": 4611686018427387904}"#,
        r#"{"queue": "q", "expires_in_ms": 18446744073709551615}"#,
    ] {
        served.fails("POST", "/v1/commit", &enqueue(wrong), 400, "invalid");
    }
}

#[test]
fn an_option_without_effect_or_beyond_its_maximum_is_refused() {
    let served = Served::new();
    let enqueue = |job: &str| format!(r#"{{"parts": [{{"enqueue": {{"queue": "q", {job}}}}}]}}"#);
    for (job, code) in [
        (r#""backoff_list_ms": []"#, "out_of_range"),
        (r#""backoff_list_ms": [1], "backoff": "fixed""#, "invalid"),
        (r#""backoff": "fixed", "backoff_base_ms": 50, "backoff_max_ms": 20"#, "invalid"),
        (r#""backoff": "none", "backoff_base_ms": 400"#, "invalid"),
        (r#""backoff": "none", "backoff_max_ms": 400"#, "invalid"),
        (r#""backoff": "none", "jitter_percent": 10"#, "invalid"),
        (r#""run_at_ms": 253402300800000"#, "out_of_range"),
        (r#""expires_at_ms": 253402300800000"#, "out_of_range"),
        (r#""backoff": "fixed", "backoff_base_ms": 31622400001"#, "out_of_range"),
        (r#""backoff_base_ms": 31622400001"#, "out_of_range"),
        (r#""priority": 256"#, "invalid"),
        (r#""priority": -1"#, "invalid"),
        (r#""priority": "urgent""#, "invalid"),
    ] {
        served.fails("POST", "/v1/commit", &enqueue(job), 400, code);
    }
    for job in [r#""backoff": "fixed", "backoff_base_ms": 31622400000"#, r#""backoff": "none""#] {
        assert_eq!(served.post("/v1/commit", enqueue(job)).status, 200, "{job}");
    }
    for (job, given) in [
        (r#""timeout_ms": 18446744073709551615"#, "18446744073709551615 ms"),
        (r#""backoff_base_ms": 4611686018427387904"#, "4611686018427387904 ms"),
    ] {
        let problem = served.fails("POST", "/v1/commit", &enqueue(job), 400, "invalid");
        let message = problem["detail"].as_str().expect("a message");
        assert!(message.contains(given), "what was given, not what is left of it: {message}");
    }
}

#[test]
fn a_priority_has_a_name() {
    let served = Served::new();
    let priority = |job: &str| served.read(&format!("/v1/jobs/{job}"))["priority"].clone();
    for (name, number) in [("critical", 255), ("high", 192), ("normal", 128), ("low", 64)] {
        let job = enqueue(&served, json!({"queue": "q", "priority": name}));
        assert_eq!(priority(&job), number);
        served.write(&format!("/v1/jobs/{job}/change"), json!({"priority": 1}));
        served.write(&format!("/v1/jobs/{job}/change"), json!({"priority": name}));
        assert_eq!(priority(&job), number);
    }
}

#[test]
fn a_cursor_that_is_invalid_or_ahead_of_the_log_is_refused_with_the_expected_form() {
    let served = Served::new();
    enqueue(&served, json!({"queue": "q"}));
    let told = |path: &str| {
        let problem = served.fails("GET", path, "", 400, "invalid");
        problem["detail"].as_str().expect("a message").to_owned()
    };
    for path in ["/v1/jobs/subscribe?after=1-1", "/v1/jobs?cursor=1-1"] {
        let message = told(path);
        assert!(message.contains("position-index-item"), "{message}");
    }
    let message = told("/v1/jobs/subscribe?after=99-0-0");
    assert!(message.contains("ends at 2-0-0"), "{message}");
}

#[test]
fn jobs_are_found_and_changed_in_bulk_by_their_ids_and_by_when_they_were_finished() {
    let served = Served::new();
    let ids: Vec<String> = (0..3).map(|_| enqueue(&served, json!({"queue": "q"}))).collect();
    served.write(&format!("/v1/jobs/{}/change", ids[0]), json!({"cancel": {}}));
    let found = |parameters: &str| -> Vec<String> {
        let page = served.read(&format!("/v1/jobs?{parameters}"));
        page["data"]
            .as_array()
            .expect("jobs")
            .iter()
            .map(|job| job["job"].as_str().expect("an id").to_owned())
            .collect()
    };
    assert_eq!(found(&format!("job={}&job={}&job=77-0", ids[2], ids[0])), [&*ids[0], &ids[2]]);
    let finished = served.read(&format!("/v1/jobs/{}", ids[0]))["finished_at_ms"].as_u64().expect("a time");
    assert_eq!(found(&format!("finished_from_ms={finished}")), [&*ids[0]]);
    assert_eq!(found(&format!("finished_before_ms={finished}")), [""; 0]);
    let filter = json!({"jobs": [ids[1], ids[0]], "finished_before_ms": finished + 60_000});
    let changed = |filter: serde_json::Value| {
        let begun = served.write("/v1/bulks", json!({"filter": filter, "change": {"delete": {}}}));
        let bulk = begun["replies"][0]["bulk_begun"]["bulk"].as_str().expect("its id").to_owned();
        loop {
            let progress = served.read(&format!("/v1/bulks/{bulk}"));
            if progress["done"] == true {
                return (progress["looked_at"].clone(), progress["changed"].clone());
            }
            served.write("/v1/commit", json!({"parts": [{"tick": {}}]}));
        }
    };
    assert_eq!(changed(filter), (json!(2), json!(1)));
    assert_eq!(changed(json!({"jobs": [ids[1]]})), (json!(1), json!(1)));
    assert_eq!(changed(json!({"jobs": []})), (json!(0), json!(0)));
    assert_eq!(found(""), [&*ids[2]]);
}
