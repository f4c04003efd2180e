//! Event stores over HTTP: appends, projections, and subscriptions.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::served::Served;

const STORE: &str = "/v1/events/school%2Fcourses";

fn append(served: &Served, body: Value) -> Value {
    served.write(&format!("{STORE}/append"), body)
}

#[test]
fn an_append_to_a_store_is_a_commit_of_one_part() {
    let served = Served::new();
    let defined = json!({"events": [{"type": "Defined", "tags": ["course:1"], "data": {"seats": 3}}],
        "conditions": [{"fail_if_events_match": {"items": [{"tags": ["course:1"]}]}}]});
    assert_eq!(append(&served, defined.clone()), json!({"first": 1, "last": 1, "duplicate": false}));
    let path = format!("{STORE}/append");
    let refused = served.fails("POST", &path, &defined.to_string(), 409, "condition_failed");
    assert_eq!((&refused["position"], &refused["condition"]), (&json!(1), &json!(0)));
    served.fails("POST", &path, r#"{"store": "other", "events": []}"#, 400, "invalid");
    served.fails("POST", &path, "{}", 400, "nothing_asked");
    assert_eq!(served.read(&format!("{STORE}/head"))["head"], 1);
}

#[test]
fn a_source_is_read_once_and_its_position_is_returned() {
    let served = Served::new();
    let read = |position: u64| json!({"events": [{"type": "Taken"}], "upstream": {"source": "orders/0", "position": position}});
    assert_eq!(append(&served, read(7))["last"], 1);
    let refused = served.fails("POST", &format!("{STORE}/append"), &read(7).to_string(), 409, "upstream_behind");
    assert_eq!((&refused["position"], &refused["known"]), (&json!(7), &json!(7)));
    let part = json!({"parts": [{"upstream": {"store": "school/courses", "source": "orders/1", "position": 0}}]});
    served.write("/v1/commit", part);
    append(&served, json!({"upstream": {"source": "orders/0", "position": 9}}));
    assert_eq!(served.read(&format!("{STORE}/head"))["head"], 1);
    let sources = json!([{"source": "orders/0", "position": 9}, {"source": "orders/1", "position": 0}]);
    assert_eq!(served.read(&format!("{STORE}/sources"))["data"], sources);
    served.fails(
        "POST",
        &format!("{STORE}/append"),
        r#"{"upstream": {"source": "", "position": 1}}"#,
        400,
        "invalid_name",
    );
}

#[test]
fn projections_are_folded_in_one_pass_and_their_condition_is_what_an_append_takes() {
    let served = Served::new();
    append(
        &served,
        json!({"events": [
            {"type": "Defined", "tags": ["course:1"], "data": {"seats": 3}},
            {"type": "Joined", "tags": ["course:1", "student:1"], "data": {"fee": 10}},
            {"type": "Joined", "tags": ["course:1", "student:2"], "data": {"fee": 2.5}},
            {"type": "Joined", "tags": ["course:2", "student:1"], "data": {"fee": "free"}},
            {"type": "Left", "tags": ["course:1", "student:2"], "data_text": "not JSON"},
        ]}),
    );
    let of = |types: Value, tags: Value, fold: Value| json!({"query": {"items": [{"types": types, "tags": tags}]}, "fold": fold});
    let asked = json!({"projections": {
        "joined": of(json!(["Joined"]), json!(["course:1"]), json!("count")),
        "left": of(json!(["Left"]), json!(["student:1"]), json!("exists")),
        "any": of(json!([]), json!(["student:1"]), json!("exists")),
        "last": of(json!(["Joined"]), json!(["student:1"]), json!("last")),
        "fees": of(json!([]), json!([]), json!({"sum": "fee"})),
    }});
    let projected = served.write(&format!("{STORE}/project"), &asked);
    let states = &projected["states"];
    assert_eq!((&states["joined"], &states["left"], &states["any"]), (&json!(2), &json!(false), &json!(true)));
    assert_eq!((&states["last"]["position"], &states["fees"]), (&json!(4), &json!(12.5)));
    assert_eq!(projected["head"], 5);
    let condition = json!([projected["condition"]]);
    let joined = json!({"events": [{"type": "Joined", "tags": ["course:1", "student:3"]}], "conditions": condition});
    append(&served, joined.clone());
    let again = served.fails("POST", &format!("{STORE}/append"), &joined.to_string(), 409, "condition_failed");
    assert_eq!(again["position"], 6, "what came since is a conflict");
    for body in [r#"{"projections": {}}"#, r#"{"projections": {"a": {"query": {"items": []}, "fold": "count"}}}"#] {
        served.fails("POST", &format!("{STORE}/project"), body, 400, "invalid");
    }
}

/// Reads `count` events of a subscription; each as its id, its name and its data.
pub(crate) fn subscribe(
    served: &Served,
    path: &str,
    header: &str,
    count: usize,
    mut meanwhile: impl FnMut(),
) -> Vec<[String; 3]> {
    let mut stream = TcpStream::connect(served.address).expect("it listens");
    let request = served.head("GET", path, 0, header);
    stream.write_all(request.as_bytes()).expect("sent");
    let (mut found, mut event) = (Vec::new(), <[String; 3]>::default());
    for line in BufReader::new(stream).lines() {
        let line = line.expect("a line");
        match line.split_once(": ") {
            Some(("id", id)) => event[0] = id.to_owned(),
            Some(("event", name)) => {
                if name == "caught_up" {
                    meanwhile();
                }
                event[1] = name.to_owned();
            }
            Some(("data", data)) => {
                event[2] = data.to_owned();
                found.push(std::mem::take(&mut event));
            }
            _ => {}
        }
        if found.len() == count {
            break;
        }
    }
    found
}

#[test]
fn a_subscription_sends_past_then_new_events_and_resumes_at_its_position() {
    let served = Served::new();
    let joined = |student: u32| {
        append(
            &served,
            json!({"events": [{"type": "Joined", "tags": [format!("student:{student}")]}, {"type": "Other"}]}),
        );
    };
    joined(1);
    joined(2);
    let found = subscribe(&served, &format!("{STORE}/subscribe?type=Joined"), "", 4, || joined(3));
    let ids: Vec<_> = found.iter().map(|[id, name, _]| (id.as_str(), name.as_str())).collect();
    assert_eq!(ids, [("1", "event"), ("3", "event"), ("", "caught_up"), ("5", "event")]);
    let data: Value = serde_json::from_str(&found[3][2]).expect("JSON");
    assert_eq!((&data["position"], &data["tags"]), (&json!(5), &json!(["student:3"])));
    let path = format!("{STORE}/subscribe?type=Joined&after=0");
    let again = subscribe(&served, &path, "Last-Event-ID: 3\r\n", 2, || ());
    assert_eq!((again[0][0].as_str(), again[1][1].as_str()), ("5", "caught_up"), "the header goes first");
    served.fails("GET", &format!("{STORE}/subscribe?kind=Joined"), "", 400, "invalid");

    // {"items":[{"types":["Joined"],"tags":["student:1"]},{"tags":["student:3"]}]}
    let query = "%7B%22items%22%3A%5B%7B%22types%22%3A%5B%22Joined%22%5D%2C%22tags%22%3A%5B%22student%3A1%22%5D%7D%2C%7B%22tags%22%3A%5B%22student%3A3%22%5D%7D%5D%7D";
    let either = subscribe(&served, &format!("{STORE}/subscribe?query={query}"), "", 3, || ());
    let ids: Vec<_> = either.iter().map(|[id, name, _]| (id.as_str(), name.as_str())).collect();
    assert_eq!(ids, [("1", "event"), ("5", "event"), ("", "caught_up")]);
    served.fails("GET", &format!("{STORE}/subscribe?query={query}&type=Joined"), "", 400, "invalid");
    served.fails("GET", &format!("{STORE}/subscribe?query=%7B%22items%22%3A%5B%5D%7D"), "", 400, "invalid");
    served.fails("GET", &format!("{STORE}/subscribe?query=%7B"), "", 400, "malformed_json");
}

#[test]
fn a_subscriber_ahead_of_the_store_is_refused() {
    let served = Served::new();
    append(&served, json!({"events": [{"type": "A"}]}));
    let refused = served.fails("GET", &format!("{STORE}/subscribe?after=2"), "", 400, "invalid");
    let message = refused["detail"].as_str().expect("a message");
    assert!(message.contains("ends at 1"), "{message}");
    assert_eq!(subscribe(&served, &format!("{STORE}/subscribe?after=1"), "", 1, || ())[0][1], "caught_up");
}

#[test]
fn a_tag_that_is_not_text_is_given_in_the_form_of_replies() {
    let served = Served::new();
    let tag = json!({"base64": "/wE="});
    append(&served, json!({"events": [{"type": "A", "tags": [tag, "t"]}, {"type": "A", "tags": ["\u{fffd}"]}]}));
    let query = json!({"items": [{"tags": [tag]}]});
    let page = served.write(&format!("{STORE}/read"), json!({"query": query}));
    assert_eq!(page["data"][0]["tags"], json!([tag, "t"]));
    assert_eq!(page["data"].as_array().map(Vec::len), Some(1));
    let projections = json!({"projections": {"n": {"query": query, "fold": "count"}}});
    let projected = served.write(&format!("{STORE}/project"), projections);
    let condition = &projected["condition"];
    let again = json!({"events": [{"type": "A", "tags": [tag]}], "conditions": [condition]});
    append(&served, again.clone());
    served.fails("POST", &format!("{STORE}/append"), &again.to_string(), 409, "condition_failed");
    for path in [STORE.to_owned(), format!("{STORE}/subscribe")] {
        served.fails("GET", &format!("{path}?tag=%ff"), "", 400, "invalid");
    }
    served.write("/v1/commit", json!({"parts": [{"forget_tag": {"store": "school/courses", "tag": tag}}]}));
}

#[test]
fn json_on_several_lines_is_one_line_of_a_subscription() {
    let served = Served::new();
    served.post(&format!("{STORE}/append"), "{\"events\": [{\"type\": \"A\", \"data\": {\"a\":\r\n1}}]}");
    let told = subscribe(&served, &format!("{STORE}/subscribe"), "", 1, || ());
    let event: Value = serde_json::from_str(&told[0][2]).expect("JSON on one line");
    assert_eq!(event["data_text"], "{\"a\":\r\n1}");
}

#[test]
fn the_refusal_of_a_single_append_names_no_part() {
    let served = Served::new();
    let path = format!("{STORE}/append");
    let refused = served.fails("POST", &path, r#"{"events": [{"type": ""}]}"#, 400, "invalid_event");
    assert_eq!((&refused["part"], &refused["event"]), (&Value::Null, &json!(0)));
    let parts = r#"{"parts": [{"append": {"store": "s", "events": [{"type": ""}]}}]}"#;
    assert_eq!(served.fails("POST", "/v1/commit", parts, 400, "invalid_event")["part"], 0);
}

#[test]
fn a_sum_that_overflows_is_an_error_and_not_null() {
    let served = Served::new();
    let huge = json!({"type": "Paid", "data": {"fee": 1.7e308}});
    append(&served, json!({"events": [huge, huge, {"type": "Paid", "data": {"fee": 1}}]}));
    let sum = json!({"projections": {"fees": {"query": {"items": [{}]}, "fold": {"sum": "fee"}}}});
    served.fails("POST", &format!("{STORE}/project"), &sum.to_string(), 400, "invalid");
}

#[test]
fn a_named_subscription_delivers_to_competing_members_and_reports_its_position() {
    let served = Served::new();
    append(
        &served,
        json!({"events": [{"type": "Joined", "tags": ["student:1"], "data": {"fee": 1}}, {"type": "Left"}]}),
    );
    let path = format!("{STORE}/subscriptions/mailer");
    let put = json!({"query": {"items": [{"types": ["Joined"]}]}, "attempts_max": 2, "backoff_ms": 0, "group_by": "student:"});
    let shown = served.write(&path, put);
    assert_eq!((&shown["store"], &shown["attempts_max"]), (&json!("school/courses"), &json!(2)));
    append(&served, json!({"events": [{"type": "Joined"}]}));

    let fetch = json!({"count": 1, "worker": "w1", "wait_ms": 20_000});
    let fetched = |served: &Served| served.write(&format!("{path}/fetch"), fetch.clone())["events"][0].clone();
    let first = fetched(&served);
    assert_eq!((&first["event"]["position"], &first["event"]["data"]), (&json!(1), &json!({"fee": 1})));
    assert_eq!((&first["group"], &first["attempt"]), (&json!("student:1"), &json!(1)));
    let second = fetched(&served);
    assert_eq!(second["event"]["position"], 3);
    let job = |delivered: &Value, verb: &str| format!("/v1/jobs/{}/{verb}", delivered["job"].as_str().expect("an id"));
    served.write(&job(&second, "ack"), json!({"token": second["token"]}));
    for attempt in [1, 2] {
        let delivered = if attempt == 1 { first.clone() } else { fetched(&served) };
        assert_eq!((&delivered["event"]["position"], &delivered["attempt"]), (&json!(1), &json!(attempt)));
        served.write(&job(&delivered, "fail"), json!({"token": delivered["token"], "error": "no mail"}));
    }
    let dead = served.read("/v1/queues/mailer/jobs?state=dead");
    assert_eq!(dead["data"][0]["last_error"], "no mail");
    let shown = served.read(&path);
    assert_eq!((&shown["position"], &shown["behind"], &shown["queue"]["dead"]), (&json!(3), &json!(0), &json!(1)));
    assert_eq!(shown["query"], json!({"items": [{"types": ["Joined"], "tags": []}]}));
    assert_eq!(served.read(&format!("{STORE}/subscriptions"))["data"], json!([shown]));
    assert_eq!(served.read(&format!("{STORE}/stats"))["subscriptions"], 1);

    served.fails("POST", "/v1/events/other/subscriptions/mailer", "{}", 409, "subscription_of_another_store");
    served.fails("POST", "/v1/events/other/subscriptions/mailer/fetch", "{}", 404, "not_found");
    served.fails("POST", &path, r#"{"attempts_max": 0}"#, 400, "no_attempts");
    served.fails("POST", &path, r#"{"query": {"items": []}}"#, 400, "invalid_query");
    served.fails("POST", &path, r#"{"after": 99}"#, 409, "ahead_of_store");
    assert_eq!(served.ask("DELETE", &path, "").status, 200);
    served.fails("DELETE", &path, "", 404, "not_found");
    let parts = json!({"parts": [{"put_subscription": {"store": "school/courses", "name": "mailer"}}, {"drop_subscription": {"name": "mailer"}}]});
    served.write("/v1/commit", parts);
}

#[test]
fn the_lag_of_a_named_subscription_is_a_metric() {
    // Nothing is delivered.
    let served = Served::with(|builder| builder.background(quire::Background::Caller));
    let path = format!("{STORE}/subscriptions/mailer");
    append(&served, json!({"events": [{"type": "Joined"}, {"type": "Left"}]}));
    served.write(&path, json!({"after": 1}));
    let has = |line: &str| served.get("/metrics").text.lines().any(|found| found == line);
    assert!(has(r#"quire_subscription_lag{store="school/courses",subscription="mailer"} 1"#));
    append(&served, json!({"events": [{"type": "Joined"}]}));
    assert!(has(r#"quire_subscription_lag{store="school/courses",subscription="mailer"} 2"#));
    assert!(has(r#"quire_metrics_omitted{object="subscription"} 0"#));
    assert_eq!(served.read(&path)["behind"], 2);
}

#[test]
fn the_state_of_a_projection_commits_with_its_results_and_one_of_two_savers_is_refused() {
    let served = Served::new();
    append(&served, json!({"events": [{"type": "A"}, {"type": "A"}]}));
    let path = format!("{STORE}/projections/count");
    served.write(&path, json!({"position": 1, "state": {"count": 1}}));
    let read = served.read(&path);
    assert_eq!(read, json!({"name": "count", "version": 0, "position": 1, "state": {"count": 1}}));
    let refused = served.fails("POST", &path, r#"{"position": 2, "state": {"count": 2}}"#, 409, "projection_moved");
    assert_eq!(refused["position"], 1);
    let with_job = json!({"parts": [
        {"save_projection": {"store": "school/courses", "name": "count", "base": 1, "position": 2, "state_text": "two"}},
        {"enqueue": {"queue": "q", "payload": 2}}]});
    served.write("/v1/commit", with_job.clone());
    served.fails("POST", "/v1/commit", &with_job.to_string(), 409, "projection_moved");
    assert_eq!(served.read("/v1/queues/q")["pending"], 1);
    assert_eq!(served.read(&path)["state_text"], "two");
    let listed = served.read(&format!("{STORE}/projections"));
    assert_eq!(listed["data"], json!([{"name": "count", "version": 0, "position": 2}]));
    served.fails("POST", &path, r#"{"position": 3}"#, 409, "ahead_of_store");
    assert_eq!(served.ask("DELETE", &path, "").status, 200);
    served.fails("GET", &path, "", 404, "not_found");
    served.fails("DELETE", &path, "", 409, "unknown_projection");
}

/// A server with 60 events in the store, of which the fifth is damaged.
fn with_damage() -> Served {
    let served = Served::with(|builder| builder.segment_bytes(64 << 10).background(quire::Background::Caller));
    for number in 1..=60 {
        let data = format!("event {number:04} {}", "x".repeat(3000));
        append(&served, json!({"events": [{"type": "Counted", "data_text": data}]}));
    }
    served.damage("event 0005");
    served
}

#[test]
fn a_fetch_ends_before_an_event_that_is_damaged_and_gives_the_jobs_from_there_on_back() {
    let served = with_damage();
    let path = format!("{STORE}/subscriptions/mailer");
    served.write(&path, json!({"after": 60}));
    // As a subscription delivers them.
    let deliver = |position: u64| {
        let payload = format!(r#"{{"store":"school/courses","position":{position}}}"#);
        json!({"enqueue": {"queue": "mailer", "payload_text": payload}})
    };
    served.write("/v1/commit", json!({"parts": [deliver(3), deliver(4), deliver(5), deliver(6)]}));
    let fetch = json!({"count": 4});
    let fetched = served.write(&format!("{path}/fetch"), fetch.clone());
    let events = fetched["events"].as_array().expect("a list").iter();
    assert_eq!(events.map(|event| event["event"]["position"].clone()).collect::<Vec<_>>(), [3, 4]);
    let counts = || {
        let queue = served.read("/v1/queues/mailer");
        (queue["active"].clone(), queue["pending"].clone())
    };
    assert_eq!(counts(), (json!(2), json!(2)), "what was not told is nobody's");
    served.fails("POST", &format!("{path}/fetch"), &fetch.to_string(), 500, "damaged");
    assert_eq!(counts(), (json!(2), json!(2)));
    let jobs = served.read("/v1/queues/mailer/jobs?state=pending");
    assert!(jobs["data"].as_array().expect("a list").iter().all(|job| job["attempt"] == 0), "{jobs}");
}

#[test]
fn a_page_ends_before_an_event_that_is_damaged() {
    let served = with_damage();
    let page = |query: &str| {
        let page = served.read(&format!("{STORE}?{query}"));
        let events = page["data"].as_array().expect("a list").iter();
        (
            events.map(|event| event["position"].as_u64().expect("a number")).collect::<Vec<_>>(),
            page["has_more"] == true,
        )
    };
    assert_eq!(page("limit=100"), (vec![1, 2, 3, 4], true));
    assert_eq!(page("after=3&limit=1"), (vec![4], true));
    assert_eq!(page("up_to=4"), (vec![1, 2, 3, 4], false));
    assert_eq!(page("before=7&backwards=true&limit=5"), (vec![6], true));
    assert_eq!(page("before=5&backwards=true&limit=1"), (vec![4], true));
    assert_eq!(page("after=5&limit=2"), (vec![6, 7], true));
    served.fails("GET", &format!("{STORE}?after=4&limit=1"), "", 500, "damaged");
    served.fails("GET", &format!("{STORE}?before=6&backwards=true&limit=1"), "", 500, "damaged");
    // The operator gets a report.
    let health = served.read("/healthz");
    let [damage] = &health["damaged"].as_array().expect("a list")[..] else {
        panic!("one record is damaged: {health}")
    };
    assert_eq!(health["status"], "damaged");
    assert!(damage.as_str().is_some_and(|told| told.contains("00000000000000000001.log")), "{damage}");
}

/// A server that allows 1,000 steps, over 3,000 events with the tags `even` and `odd` in turn.
fn with_few_steps() -> Served {
    let served = Served::with(|builder| builder.request_steps_max(1_000));
    let event =
        |number: u64| json!({"type": "Counted", "tags": [if number.is_multiple_of(2) { "even" } else { "odd" }]});
    let events: Vec<Value> = (0..3_000).map(event).collect();
    for events in events.chunks(1_000) {
        append(&served, json!({ "events": events }));
    }
    served
}

#[test]
fn a_condition_that_needs_too_many_steps_is_refused_by_name() {
    let served = with_few_steps();
    let both = json!({"fail_if_events_match": {"items": [{"tags": ["even", "odd"]}]}});
    let few = json!({"fail_if_events_match": {"items": [{"tags": ["even", "odd"]}]}, "after": 2_900});
    let body = json!({"events": [{"type": "Counted"}], "conditions": [few, both]});
    let refused = served.fails("POST", &format!("{STORE}/append"), &body.to_string(), 422, "too_costly");
    assert_eq!((&refused["condition"], &refused["most"]), (&json!(1), &json!(1_000)));
    let append = json!({"append": {"store": "school/courses", "events": [], "conditions": [both]}});
    let commit = json!({"parts": [{"enqueue": {"queue": "mails", "payload": 1}}, append]});
    let refused = served.fails("POST", "/v1/commit", &commit.to_string(), 422, "too_costly");
    assert_eq!(refused["part"], 1);
    assert_eq!(served.read(&format!("{STORE}/head"))["head"], 3_000, "nothing was appended");
    append_few(&served, &few);
}

fn append_few(served: &Served, few: &Value) {
    let body = json!({"events": [{"type": "Counted"}], "conditions": [few]});
    assert_eq!(append(served, body)["last"], 3_001);
}

#[test]
fn a_read_returns_what_it_finds_within_its_steps_and_a_read_that_finds_nothing_is_refused() {
    let served = with_few_steps();
    let refused = served.fails("GET", &format!("{STORE}?tag=even&tag=odd"), "", 422, "too_costly");
    assert!(refused["detail"].as_str().is_some_and(|message| message.contains("1000 steps")), "{refused}");
    append(&served, json!({"events": [{"type": "Counted", "tags": ["even", "odd"]}]}));
    let page = served.read(&format!("{STORE}?tag=even&tag=odd&backwards=true"));
    assert_eq!((page["data"].as_array().map(Vec::len), &page["has_more"]), (Some(1), &json!(true)));
    let page = served.read(&format!("{STORE}?tag=even&tag=odd&after=2900"));
    assert_eq!((page["data"].as_array().map(Vec::len), &page["has_more"]), (Some(1), &json!(false)));
}

#[test]
fn a_projection_claims_a_step_for_each_kib_that_it_parses() {
    let served = with_few_steps();
    let large = json!({"n": 1, "text": "x".repeat(100 << 10)});
    append(&served, json!({"events": [{"type": "Large", "data": large}]}));
    let project = |count: usize, fold: serde_json::Value| {
        let query = json!({"items": [{"types": ["Large"]}]});
        let projections: serde_json::Map<String, serde_json::Value> =
            (0..count).map(|number| (format!("p{number}"), json!({"query": query, "fold": fold}))).collect();
        json!({ "projections": projections }).to_string()
    };
    let path = format!("{STORE}/project");
    for fold in [json!({"sum": "n"}), json!("last")] {
        let few = served.post(&path, project(4, fold.clone())).json();
        assert_eq!(few["states"].as_object().map(serde_json::Map::len), Some(4), "{few}");
        // Eleven times 100 KiB: one event is more than 1,000 steps.
        served.fails("POST", &path, &project(11, fold), 422, "too_costly");
    }
    let counted = served.post(&path, project(11, json!("count"))).json();
    assert_eq!(counted["states"]["p10"], 1, "a count parses nothing");
}

#[test]
fn a_read_that_is_refused_names_where_the_next_one_continues() {
    let served = with_few_steps();
    append(&served, json!({"events": [{"type": "Counted", "tags": ["even", "odd"]}]}));
    for (backwards, parameter) in [(false, "after"), (true, "before")] {
        let (mut found, mut refused, mut place) = (Vec::new(), 0, String::new());
        loop {
            let answer = served.get(&format!("{STORE}?tag=even&tag=odd&backwards={backwards}{place}"));
            let page = answer.json();
            let next = if answer.status == 422 {
                refused += 1;
                let next = page[parameter].as_u64().expect("where to continue");
                assert!(page["detail"].as_str().is_some_and(|text| text.contains(&format!("{parameter}={next}"))));
                next
            } else {
                let events = page["data"].as_array().expect("events");
                found.extend(events.iter().map(|event| event["position"].as_u64().expect("a position")));
                if page["has_more"] == false {
                    break;
                }
                *found.last().expect("a page with more has events")
            };
            let before = std::mem::replace(&mut place, format!("&{parameter}={next}"));
            assert_ne!(place, before, "each read comes further");
        }
        assert_eq!(found, [3_001], "{parameter}");
        assert!(refused > 1, "{refused} reads were refused");
    }
}
