//! Dry runs, the last refusals, the figures of the last hour, and reads of one server.

use crate::support::{Server, run, run_on};

const REGISTER: &str = r#"{"parts": [
    {"enqueue": {"queue": "mails"}},
    {"append": {"store": "accounts", "events": [{"type": "Registered", "tags": ["username:ada"]}],
        "conditions": [{"fail_if_events_match": {"items": [{"tags": ["username:ada"]}]}}]}}
]}"#;

#[test]
fn a_dry_run_prints_what_it_would_append_and_a_server_lists_its_refusals() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, file) = (folder.path().join("data"), folder.path().join("register.json"));
    std::fs::write(&file, REGISTER).expect("written");
    let file = file.to_str().expect("text");
    let server = Server::start(&data);
    let at = |arguments: &[&str]| run(&[arguments, &["--http", &server.http]].concat());
    let tried = at(&["commit", file, "--dry-run"]).succeeded();
    let mut lines = tried.lines();
    let first = lines.next().expect("a line");
    assert!(first.starts_with("2 parts would be committed at 1, with ") && first.ends_with("nothing was committed"));
    assert!(lines.any(|line| line.starts_with("events   event_appended ") && line.ends_with(" B")), "{tried}");
    assert_eq!(at(&["jobs", "queues"]).succeeded(), "");
    let whole: serde_json::Value =
        serde_json::from_str(&at(&["commit", file, "--dry-run", "--json"]).succeeded()).expect("one object");
    assert_eq!((&whole["dry_run"], &whole["position"]), (&true.into(), &1.into()));

    at(&["commit", file]).succeeded();
    at(&["commit", file, "--dry-run"]).failed_with("condition 0 failed: it conflicts with event 1");
    assert_eq!(at(&["refusals"]).succeeded(), "", "a dry run is not among them");
    at(&["commit", file]).failed_with("condition 0 failed: it conflicts with event 1");
    let refusals = at(&["refusals"]).succeeded();
    assert_eq!(refusals.lines().count(), 1, "{refusals}");
    assert!(refusals.contains("    1 store accounts condition 0 failed: it conflicts with event 1"), "{refusals}");
    assert_eq!(at(&["history", "--after", "99000000000000"]).succeeded(), "");

    run_on(&data, &["commit", file, "--dry-run"]).failed_with("condition 0 failed: it conflicts with event 1");
    let here = run_on(&data, &["refusals"]);
    assert!(here.stderr.contains("ask it with --http"), "{here:?}");
    assert_eq!(here.succeeded(), "");
}

#[test]
fn a_read_is_answered_by_the_server_from_the_position_that_is_given() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let at = |arguments: &[&str]| run(&[arguments, &["--http", &server.http]].concat());
    at(&["produce", "orders", "17", "--read", "local"]).succeeded();
    for read in ["local", "at=1"] {
        assert!(at(&["topics", "list", "--read", read]).succeeded().contains("orders"), "{read}");
    }
    at(&["topics", "list", "--read", "at=99"]).failed_with("and not 99 in time");
    let unknown = at(&["topics", "list", "--read", "leader"]);
    assert_eq!(unknown.status, Some(2), "{unknown:?}");
    assert!(unknown.stderr.contains("must be local or at=POSITION"), "{unknown:?}");
    let of_directory = run_on(folder.path(), &["topics", "list", "--read", "local"]);
    assert_eq!(of_directory.status, Some(2), "{of_directory:?}");
}
