//! Workers over HTTP: fetching, waiting for jobs, and what becomes of them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::served::Served;

/// More than any wait of these tests should take.
const LONG: Duration = Duration::from_secs(20);

fn enqueue(job: Value) -> Value {
    json!({"parts": [{"enqueue": job}]})
}

/// Returns once a request other than its own is under way.
fn until_one_waits(served: &Served) {
    while !served.get("/metrics").text.contains("quire_http_requests_active 2") {
        std::thread::yield_now();
    }
}

/// Fetches in a thread of its own; the jobs and how long it took.
fn fetch_aside(served: &Arc<Served>, body: Value) -> std::thread::JoinHandle<(Value, Duration)> {
    let served = Arc::clone(served);
    std::thread::spawn(move || {
        #[expect(clippy::disallowed_methods, reason = "the test is about how long an answer takes")]
        let start = Instant::now();
        let fetched = served.write("/v1/queues/air%2Fdelays/fetch", body);
        (fetched["jobs"].clone(), start.elapsed())
    })
}

#[test]
fn a_job_is_fetched_kept_alive_and_acknowledged_by_its_path() {
    let served = Served::new();
    served.write("/v1/commit", enqueue(json!({"queue": "air/delays", "payload": {"late": 42}, "tags": ["UA"]})));
    let fetched = served.write("/v1/queues/air%2Fdelays/fetch", json!({"worker": "w1", "lease_ms": 60_000}));
    let job = &fetched["jobs"][0];
    let (id, token) = (job["job"].as_str().expect("id"), &job["token"]);
    assert_eq!(job["payload"], json!({"late": 42}));

    let active = served.read(&format!("/v1/jobs/{id}"));
    assert_eq!(
        (&active["state"], &active["worker"], &active["tags"]),
        (&json!("active"), &json!("w1"), &json!(["UA"]))
    );
    assert!(active.get("token").is_none(), "the token is the worker's alone");

    served.write(&format!("/v1/jobs/{id}/heartbeat"), json!({"token": token}));
    served.write(&format!("/v1/jobs/{id}/ack"), json!({"token": token, "result": {"sent": 3}}));
    let done = served.read(&format!("/v1/jobs/{id}"));
    assert_eq!((&done["state"], &done["result"]), (&json!("completed"), &json!({"sent": 3})));
    let steps: Vec<_> = done["history"].as_array().expect("steps").iter().map(|step| &step["what"]).collect();
    assert_eq!(steps, ["enqueued", "leased", "completed"]);

    let late = json!({"token": token}).to_string();
    let stale = served.fails("POST", &format!("/v1/jobs/{id}/ack"), &late, 409, "stale_lease");
    assert_eq!(stale["state"], "completed");
    let named_twice = json!({"token": token, "job": id}).to_string();
    served.fails("POST", &format!("/v1/jobs/{id}/ack"), &named_twice, 400, "invalid");
}

#[test]
fn a_failed_job_waits_or_dies_as_its_worker_requests() {
    let served = Served::new();
    served.write("/v1/commit", enqueue(json!({"queue": "air/delays"})));
    let fetch = || served.write("/v1/queues/air%2Fdelays/fetch", json!({}))["jobs"][0].clone();
    let job = fetch();
    let path = format!("/v1/jobs/{}/fail", job["job"].as_str().expect("id"));
    served.write(&path, json!({"token": job["token"], "error": "no phone", "retry_delay_ms": 0}));
    let again = fetch();
    assert_eq!((&again["job"], &again["attempt"]), (&job["job"], &json!(2)));
    served.write(&path, json!({"token": again["token"], "error": "no phone at all", "retry": "never"}));
    let dead = served.read("/v1/queues/air%2Fdelays/jobs?state=dead");
    assert_eq!(dead["data"][0]["last_error"], "no phone at all");
}

#[test]
fn a_waiting_fetch_is_answered_as_soon_as_a_job_is_enqueued() {
    let served = Arc::new(Served::new());
    let waiting = fetch_aside(&served, json!({"wait_ms": 30_000}));
    until_one_waits(&served);
    // Commits that bring no job for it do not end the wait.
    for n in 0..50 {
        served.write("/v1/commit", json!({"parts": [{"enqueue": {"queue": "another", "payload": n}}]}));
    }
    assert!(!waiting.is_finished());
    served.write("/v1/commit", enqueue(json!({"queue": "air/delays", "payload": "late"})));
    let (jobs, took) = waiting.join().expect("an answer");
    assert_eq!(jobs[0]["payload"], "late");
    assert!(took < LONG, "{took:?}");
}

#[test]
fn one_fetch_waits_for_the_jobs_of_several_queues() {
    let served = Arc::new(Served::new());
    assert_eq!(served.write("/v1/fetch", json!({"queues": ["q1", "q2"]}))["jobs"], json!([]));
    let waiting = {
        let served = Arc::clone(&served);
        let body =
            json!({"queues": ["q1", "q2"], "weights": [1, 3], "worker": "w1", "lease_ms": 60_000, "wait_ms": 30_000});
        std::thread::spawn(move || served.write("/v1/fetch", body))
    };
    until_one_waits(&served);
    served.write("/v1/commit", enqueue(json!({"queue": "q2", "payload": "second"})));
    assert_eq!(waiting.join().expect("an answer")["jobs"][0]["payload"], "second");
    for queue in ["q2", "q1"] {
        served.write("/v1/commit", enqueue(json!({"queue": queue})));
    }
    let fetched = served.write("/v1/fetch", json!({"queues": ["q1", "q2"], "count": 2}));
    let queues: Vec<_> = fetched["jobs"].as_array().expect("jobs").iter().map(|job| &job["queue"]).collect();
    assert_eq!(queues, ["q1", "q2"], "in the order given");
    served.fails("POST", "/v1/fetch", r#"{"queues": []}"#, 400, "out_of_range");
    served.fails("POST", "/v1/fetch", "{}", 400, "invalid");
    served.fails("POST", "/v1/fetch", r#"{"queues": ["q"], "wait_ms": 60001}"#, 400, "invalid");
    served.fails("POST", "/v1/fetch", r#"{"queues": ["q"], "weights": [1, 2]}"#, 400, "invalid_weights");
}

#[test]
fn a_heartbeat_without_a_duration_keeps_the_length_of_the_lease() {
    let served = Served::new();
    served.write("/v1/commit", enqueue(json!({"queue": "q"})));
    let job = served.write("/v1/queues/q/fetch", json!({"lease_ms": 600_000}))["jobs"][0].clone();
    let path = format!("/v1/jobs/{}/heartbeat", job["job"].as_str().expect("id"));
    let beat = |body: Value| served.write(&path, body)["replies"][0]["extended"]["deadline_ms"].clone();
    assert_eq!(beat(json!({"token": job["token"], "progress": "half"})), job["deadline_ms"]);
    let shorter = beat(json!({"token": job["token"], "lease_ms": 1_000}));
    assert!(shorter.as_u64() < job["deadline_ms"].as_u64(), "{shorter}");
}

#[test]
fn a_waiting_fetch_gets_a_job_when_its_time_comes() {
    let served = Arc::new(Served::new());
    served.write("/v1/commit", enqueue(json!({"queue": "air/delays", "payload": "later", "delay_ms": 300})));
    let (jobs, took) = fetch_aside(&served, json!({"wait_ms": 30_000})).join().expect("an answer");
    assert_eq!(jobs[0]["payload"], "later");
    assert!(took < LONG, "{took:?}");
}

#[test]
fn a_fetch_without_jobs_ends_empty_when_its_time_is_up() {
    let served = Arc::new(Served::new());
    assert_eq!(fetch_aside(&served, json!({})).join().expect("an answer").0, json!([]));
    let (jobs, took) = fetch_aside(&served, json!({"wait_ms": 200})).join().expect("an answer");
    assert_eq!(jobs, json!([]));
    assert!(took >= Duration::from_millis(200), "{took:?}");
    served.fails("POST", "/v1/queues/q/fetch", r#"{"wait_ms": 60001}"#, 400, "invalid");
    served.fails("POST", "/v1/queues/q/fetch", r#"{"queues": ["q"]}"#, 400, "invalid");
    served.fails("POST", "/v1/queues/no%20queue/fetch", "{}", 400, "invalid_name");
}

#[test]
fn a_server_that_stops_ends_waiting_fetches_at_once() {
    let mut served = Served::new();
    let mut waiting = TcpStream::connect(served.address).expect("it listens");
    let body = r#"{"wait_ms": 60000}"#;
    let head = served.head("POST", "/v1/queues/q/fetch", body.len(), "");
    waiting.write_all(&[head.as_bytes(), body.as_bytes()].concat()).expect("sent");
    until_one_waits(&served);
    served.stop();
    let mut answer = String::new();
    waiting.read_to_string(&mut answer).expect("answered, then closed");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with(r#"{"jobs":[]}"#), "{answer}");
}
