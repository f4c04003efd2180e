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
fn a_source_is_read_once_and_how_far_is_told() {
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
    assert_eq!(served.read(&format!("{STORE}/sources"))["sources"], sources);
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

/// Reads the events of a subscription until there are so many; each as its id, its name and its data.
pub(crate) fn subscribe(
    served: &Served,
    path: &str,
    header: &str,
    count: usize,
    mut meanwhile: impl FnMut(),
) -> Vec<[String; 3]> {
    let mut stream = TcpStream::connect(served.address).expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\n{header}\r\n");
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
fn a_subscription_tells_the_past_then_the_present_and_goes_on_where_it_was() {
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
}
