//! The tools that work beside whoever has a database open.

use serde_json::Value;

use crate::support::{Server, run};

const COMMIT: &str =
    r#"{"parts": [{"append": {"store": "s", "events": [{"type": "Happened"}, {"type": "Happened"}]}}]}"#;
const REFUSED: &str = r#"{"parts": [{"append": {"store": "s", "events": [{"type": "Happened"}],
    "conditions": [{"fail_if_events_match": {"items": [{"types": ["Happened"]}]}}]}}]}"#;

fn lines(printed: &str) -> Vec<Value> {
    printed.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

#[test]
fn stat_shows_what_a_running_server_did_and_what_stays_when_it_has_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let server = Server::start(&data);
    let stat = || lines(&run(&["stat", "--json", data.to_str().expect("text")]).succeeded()).remove(0);
    for _ in 0..3 {
        server.ask("POST", "/v1/commit", COMMIT);
    }
    server.ask("POST", "/v1/commit", REFUSED);
    let live = stat();
    let counts = |stat: &Value| ["appends", "entries", "refusals"].map(|name| stat[name].as_u64().expect("a count"));
    assert_eq!(counts(&live), [3, 7, 1], "{live}");
    assert_eq!(live["append"]["timed"], 3);
    assert_eq!(server.stop_by("INT").0, Some(0));
    let after = stat();
    assert_eq!(counts(&after), [3, 7, 1]);
    assert!(after["syncs"].as_u64() >= Some(1) && after["sync"]["p50_ns"].as_u64() > Some(0), "{after}");
    let text = run(&["stat", data.to_str().expect("text")]).succeeded();
    assert!(text.lines().any(|line| line.split_whitespace().eq(["commits", "3"])), "{text}");
    run(&["stat", folder.path().to_str().expect("text")]).failed_with("is not a Quire database");
}

#[test]
fn top_shows_what_happens_between_two_looks() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let server = Server::start(&data);
    let path = data.to_str().expect("text");
    server.ask("POST", "/v1/commit", COMMIT);
    let idle = lines(&run(&["top", path, "--json", "--interval-ms", "1", "--count", "2"]).succeeded());
    assert_eq!(idle.len(), 2);
    assert!(idle.iter().all(|look| look["commits_per_s"] == 0.0), "{idle:?}");
    // As many looks as it takes until a commit was in between.
    let seen = std::thread::scope(|scope| {
        let top =
            scope.spawn(|| lines(&run(&["top", path, "--json", "--interval-ms", "5", "--count", "60"]).succeeded()));
        while !top.is_finished() {
            server.ask("POST", "/v1/commit", COMMIT);
        }
        top.join().expect("it ends")
    });
    assert!(seen.iter().any(|look| look["commits_per_s"].as_f64() > Some(0.0)), "{seen:?}");
    let text = run(&["top", path, "--interval-ms", "1", "--count", "1"]).succeeded();
    assert!(text.starts_with("shard-0000") && !text.contains('\x1b'), "{text}");
}
