//! Named objects of event stores, copies, and error messages.

use std::fs;

use quire::Database;
use quire::events::NewEvent;
use serde_json::{Value, json};

use crate::support::{Running, Server, run, run_on};

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_named_subscription_delivers_events_and_failed_ones_become_dead_jobs() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(&folder.path().join("data"));
    let at = |arguments: &[&str]| run(&[arguments, &["--http", &server.http]].concat()).succeeded();
    at(&["events", "append", "s", "one", "--type", "Joined", "--tag", "student:1"]);
    at(&["events", "append", "s", "two", "--type", "Left"]);
    at(&["events", "append", "s", "bad", "--type", "Joined"]);
    let put = at(&["events", "subscribe", "s", "mailer", "--type", "Joined", "--attempts-max", "1", "--json"]);
    assert_eq!(lines(&put)[0]["attempts_max"], 1);
    let out = folder.path().join("seen");
    // In quotes, because the event's id is random.
    let exec =
        format!("read event; case $event in *'\"bad\"'*) exit 3;; *) echo \"$event\" >> {};; esac", out.display());
    // The delivery takes a moment: the queue may be empty at first.
    while at(&["jobs", "list", "mailer", "--state", "dead"]).is_empty() {
        at(&["jobs", "work", "mailer", "--store", "s", "--exec", &exec, "--until-empty"]);
    }
    let seen = lines(&fs::read_to_string(&out).expect("the command has run"));
    assert_eq!(seen.len(), 1);
    assert_eq!((&seen[0]["data_text"], &seen[0]["tags"]), (&json!("one"), &json!(["student:1"])));
    let listed = at(&["events", "subscriptions", "s"]);
    assert!(listed.contains("mailer") && listed.contains("behind 0") && listed.contains("dead 1"), "{listed}");
    assert!(
        at(&["events", "stats", "s"])
            .contains("head 3  trimmed 0  forgotten 0  retention_ms -  sources 0  subscriptions 1")
    );
    at(&["events", "unsubscribe", "s", "mailer"]);
    assert_eq!(at(&["events", "subscriptions", "s"]), "");
    run(&["events", "unsubscribe", "s", "mailer", "--http", &server.http]).failed_with("unknown subscription");
}

#[test]
fn a_copy_resumes_where_the_last_one_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    for data in [&from, &to] {
        assert_eq!(Server::start(data).stop_by("INT").0, Some(0));
    }
    let append =
        |text: &str| run_on(&from, &["events", "append", "s", text, "--type", "T", "--tag", "t:1"]).succeeded();
    let to_text = to.to_str().expect("text");
    let copy = || run_on(&from, &["events", "copy", "s", "--to-data", to_text, "--to", "copied"]).succeeded();
    append("one");
    append("two");
    assert_eq!(copy(), "2 events up to position 2\n");
    append("three");
    assert_eq!(copy(), "1 event up to position 3\n");
    assert_eq!(copy(), "0 events up to position 3\n");
    let read = |data, store| lines(&run_on(data, &["events", "read", store, "--json"]).succeeded());
    let without_time = |mut event: Value| {
        event.as_object_mut().expect("an object").remove("time_ms");
        event
    };
    let (original, copied) = (read(&from, "s"), read(&to, "copied"));
    let all = |events: Vec<Value>| events.into_iter().map(without_time).collect::<Vec<_>>();
    assert_eq!(all(copied), all(original), "ids too");
}

#[test]
fn a_copy_splits_large_events_over_commits_and_skips_deleted_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    for data in [&from, &to] {
        assert_eq!(Server::start(data).stop_by("INT").0, Some(0));
    }
    let to_text = to.to_str().expect("text");
    let copy = || run_on(&from, &["events", "copy", "s", "--to-data", to_text]).succeeded();
    let (long, file) = ("q".repeat(3 << 20), folder.path().join("long"));
    std::fs::write(&file, &long).expect("written");
    let append = |tag: &str| {
        let arguments = ["events", "append", "s", "--type", "T", "--tag", tag, "--file", file.to_str().expect("text")];
        run_on(&from, &arguments).succeeded();
    };
    // Together more than the 16 MiB of a commit.
    ["a", "b", "c", "a", "b", "c"].iter().for_each(|tag| append(tag));
    run_on(&from, &["events", "forget", "s", "a"]).succeeded();
    run_on(&from, &["events", "trim", "s", "2"]).succeeded();
    let tags = |data| {
        let events = lines(&run_on(data, &["events", "read", "s", "--json"]).succeeded());
        assert!(events.iter().all(|event| event["data_text"] == long.as_str()), "to the byte");
        events.iter().map(|event| event["tags"][0].as_str().expect("a tag").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(copy(), "3 events up to position 6\n");
    assert_eq!(tags(&to), ["c", "b", "c"]);
    // The copied events are deleted at the source.
    run_on(&from, &["events", "forget", "s", "c"]).succeeded();
    assert_eq!(copy(), "0 events up to position 6\n");
    assert_eq!((tags(&from).len(), tags(&to).len()), (1, 3));
    run_on(&to, &["events", "forget", "s", "c"]).succeeded();
    assert_eq!(tags(&to), ["b"]);
}

#[test]
fn a_read_goes_backwards_and_up_to_a_position() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(&folder.path().join("data"));
    let file = folder.path().join("events.jsonl");
    let written: String = (0..2_500).map(|number| format!("{{\"type\":\"T\",\"data\":{number}}}\n")).collect();
    std::fs::write(&file, written).expect("written");
    let at = |arguments: &[&str]| run(&[arguments, &["--http", &server.http]].concat()).succeeded();
    at(&["events", "import", "s", file.to_str().expect("text")]);
    let read = |more: &[&str]| {
        let events = lines(&at(&[&["events", "read", "s", "--json"], more].concat()));
        events.iter().map(|event| event["position"].as_u64().expect("a position")).collect::<Vec<_>>()
    };
    assert_eq!(read(&[]), (1..=2_500).collect::<Vec<_>>());
    assert_eq!(read(&["--backwards"]), (1..=2_500).rev().collect::<Vec<_>>());
    let span = ["--after", "100", "--up-to", "2300"];
    assert_eq!(read(&span), (101..=2_300).collect::<Vec<_>>());
    assert_eq!(read(&[&span[..], &["--backwards"]].concat()), (101..=2_300).rev().collect::<Vec<_>>());
    assert_eq!(read(&["--backwards", "--limit", "1"]), [2_500]);
}

#[test]
fn a_tail_fails_when_its_server_stops() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(&folder.path().join("data"));
    run(&["events", "append", "s", "one", "--type", "T", "--http", &server.http]).succeeded();
    let tail = Running::start(&["events", "tail", "s", "--after", "0", "--http", &server.http]);
    assert!(tail.line().contains("one"));
    assert_eq!(server.stop_by("INT").0, Some(0));
    assert_eq!(tail.ends(), Some(1));
}

#[test]
fn an_invalid_import_is_reported_with_line_and_field() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    drop(Database::open(&data).expect("opened"));
    let file = folder.path().join("file");
    for (event, wrong) in [
        (r#"{"type":"B","data_base64":"?"}"#, "line 2: data_base64: base64: "),
        (r#"{"type":"B","tags":["a",{"base64":"?"}]}"#, "line 2: tags[1].base64: base64: "),
        (r#"{"type":"B","id":7}"#, "line 2: id: invalid type"),
    ] {
        std::fs::write(&file, format!("{}\n{event}\n", r#"{"type":"A"}"#)).expect("written");
        run_on(&data, &["events", "import", "s", file.to_str().expect("text")]).failed_with(wrong);
    }
}

#[test]
fn a_conflict_in_an_import_names_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, file) = (folder.path().join("data"), folder.path().join("events.jsonl"));
    assert_eq!(Server::start(&data).stop_by("INT").0, Some(0));
    let id = "7f1c3a52-8f5e-4c0e-9d0a-5b8f6a3e1c11";
    run_on(&data, &["events", "append", "s", "--type", "There", "--id", id]).succeeded();
    fs::write(&file, format!("{{\"type\": \"A\"}}\n\n{{\"type\": \"B\", \"id\": \"{id}\"}}\n")).expect("written");
    run_on(&data, &["events", "import", "s", file.to_str().expect("text")]).failed_with("line 3: ");
}

#[test]
fn endless_data_is_refused_and_an_empty_directory_gets_a_hint() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    run_on(&data, &["events", "append", "s", "--type", "T"]).failed_with("quire serve --data");
    assert_eq!(Server::start(&data).stop_by("INT").0, Some(0));
    run_on(&data, &["events", "append", "s", "--type", "T", "--file", "/dev/zero"]).failed_with("/dev/zero");
}

#[test]
fn a_store_forgets_trims_and_retains_events() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(&folder.path().join("data"));
    let at = |arguments: &[&str]| run(&[arguments, &["--http", &server.http]].concat());
    for tag in ["person:ann", "person:ben", "person:ann", "person:cem"] {
        at(&["events", "append", "people", "here", "--type", "Joined", "--tag", tag]).succeeded();
    }
    let left = || at(&["events", "read", "people", "--json"]).succeeded();
    let told = at(&["events", "forget", "people", "person:ann"]).succeeded();
    assert_eq!(told, "people has no event with the tag person:ann any more\n");
    assert!(!left().contains("person:ann") && left().lines().count() == 2, "{}", left());
    at(&["events", "trim", "people", "2"]).succeeded();
    assert!(left().contains("person:cem") && left().lines().count() == 1, "{}", left());
    at(&["events", "trim", "people", "9"]).failed_with("the last event of the store is 4");
    at(&["events", "forget", "poeple", "person:ann"])
        .failed_with("unknown event store: nothing was appended to it yet");
    let told = at(&["events", "retain", "people", "--retention-ms", "86400000"]).succeeded();
    assert_eq!(told, "people keeps events for 86400000 ms\n");
    let told = at(&["events", "stats", "people"]).succeeded();
    assert!(told.starts_with("head 4  trimmed 2  forgotten 1  retention_ms 86400000"), "{told}");
    let told = at(&["events", "retain", "people"]).succeeded();
    assert_eq!(told, "people keeps events forever\n");
}

#[test]
fn a_compaction_removes_deleted_data_from_the_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let database = Database::builder(&data).segment_bytes(64 << 10).open().expect("a database");
    for person in ["ann", "ben"] {
        for _ in 0..100 {
            let said = format!("{} the secret of {person}", "x".repeat(1_000));
            let event = NewEvent::new("Said").tag(person).data(said.as_bytes());
            database.events("people").append([event]).expect("appended");
        }
    }
    drop(database);
    let holds = |secret: &str| {
        let files = fs::read_dir(data.join("shard-0000")).expect("a shard").map(|file| file.expect("a file").path());
        let mut segments = files.filter(|path| path.extension().is_some_and(|suffix| suffix == "log"));
        segments.any(|path| fs::read(path).expect("a segment").windows(secret.len()).any(|at| at == secret.as_bytes()))
    };
    run_on(&data, &["events", "forget", "people", "ann"]).succeeded();
    run_on(&data, &["events", "append", "people", "more", "--type", "Said"]).succeeded();
    run_on(&data, &["events", "append", "people", "more", "--type", "Said"]).succeeded();
    assert!(holds("the secret of ann"));
    let told = run_on(&data, &["compact", "--json"]).succeeded();
    assert!(lines(&told)[0]["entries_dropped"].as_u64().is_some_and(|dropped| dropped >= 50), "{told}");
    assert!(!holds("the secret of ann") && holds("the secret of ben"));
    let told = run_on(&data, &["compact"]).succeeded();
    assert_eq!(told, "0 segments rewritten, 0 entries dropped: 0 B before, 0 B now\n");
}
