//! Reads of each model, and `produce`: the results are the same from a directory and from a server.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Running, Server, earlier, quire, ran, run, run_on};

const COMMIT: &str = r#"{"parts": [
    {"append": {"store": "s/one", "events": [
        {"type": "A", "tags": ["x:1", "y:1"], "data": {"n": 1}},
        {"type": "B", "tags": ["x:1"], "data_text": "two"},
        {"type": "A", "tags": ["x:2"], "data_base64": "/wA="}]}},
    {"create_topic": {"name": "t", "partitions": 2}},
    {"produce": {"topic": "t", "partition": 0, "key": "k", "value_text": "first"}},
    {"produce": {"topic": "t", "partition": 1, "value_text": "second"}},
    {"enqueue": {"queue": "q", "kind": "mail", "payload_text": "hello", "tags": ["to:me"]}},
    {"put_block": {"graph": "g", "block": "a", "kind": "node", "source": "file://a", "content_text": "A"}},
    {"put_block": {"graph": "g", "block": "b", "kind": "node"}},
    {"put_edge": {"graph": "g", "source": "a", "type": "likes", "target": "b", "properties": {"since": 3}}},
    {"commit_offset": {"group": "readers", "topic": "t", "partition": 1, "offset": 0}}
]}"#;

/// Commands, and a text that each line of their output contains.
const READS: &[(&[&str], &[&[&str]])] = &[
    (&["events", "stores"], &[&["s/one", "3"]]),
    (
        &["events", "read", "s/one", "--type", "A"],
        &[&["1", "[x:1 y:1]", r#"{"n": 1}"#], &["3", "[x:2]", "base64:/wA="]],
    ),
    (&["events", "read", "s/one", "--tag", "x:1", "--after", "1"], &[&["2", "B", "[x:1]", "two"]]),
    (&["events", "read", "s/one", "--limit", "1"], &[&["1", "A"]]),
    (&["sql", "SELECT store, type FROM events WHERE position > 1"], &[&["store  type"], &["s/one  B"], &["s/one  A"]]),
    (&["topics", "list"], &[&["t", "2 partitions"]]),
    (
        &["topics", "describe", "t"],
        &[&["retention_ms none", "compression none"], &["partition", "0", "1"], &["partition", "1", "1"]],
    ),
    (&["consume", "t"], &[&["0:0", "k", "first"], &["1:0", "-", "second"]]),
    (&["consume", "t", "--limit", "1"], &[&["0:0", "first"]]),
    (&["consume", "t", "--partition", "1"], &[&["1:0", "second"]]),
    (&["consume", "t", "--partition", "1", "--offset", "1"], &[]),
    (&["consume", "t", "--from-time", "1000"], &[&["0:0", "first"], &["1:0", "second"]]),
    (&["consume", "t", "--from-time", "99000000000000"], &[]),
    (&["groups", "list"], &[&["readers", "1 partition"]]),
    (
        &["groups", "describe", "readers"],
        &[&["t", "partition     1", "offset          0", "next          1", "lag          1"]],
    ),
    (&["jobs", "queues"], &[&["q", "pending 1", "completed 0"]]),
    (&["jobs", "list", "q"], &[&["pending", "mail", "[to:me]", "hello"]]),
    (&["jobs", "list", "q", "--state", "dead"], &[]),
    (
        &["jobs", "tail", "--after", "start", "--limit", "2"],
        &[&["q", "queue_created"], &["q", "enqueued", "mail", "payload hello"]],
    ),
    (&["graph", "list"], &[&["g", "2 blocks, 1 edge"]]),
    (&["graph", "neighbours", "g", "a"], &[&["--likes-> b"]]),
    (&["graph", "neighbours", "g", "b"], &[&["<-likes-- a"]]),
    (&["graph", "neighbours", "g", "b", "--direction", "outgoing"], &[]),
    (&["graph", "degree", "g", "b"], &[&["0 outgoing edges, 1 incoming edge"]]),
    (&["graph", "degree", "g", "b", "--type", "hates"], &[&["0 outgoing edges, 0 incoming edges"]]),
];

#[test]
fn a_read_from_a_server_equals_a_read_from_its_directory() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let (status, answer) = server.ask("POST", "/v1/commit", COMMIT);
    assert_eq!(status, 200, "{answer}");
    let served: Vec<String> =
        READS.iter().map(|(verb, _)| run(&[verb, &["--http", &server.http][..]].concat()).succeeded()).collect();
    assert_eq!(server.stop_by("INT").0, Some(0));
    for ((verb, expected), served) in READS.iter().zip(&served) {
        let lines: Vec<&str> = served.lines().collect();
        assert_eq!(lines.len(), expected.len(), "{verb:?}: {served}");
        for (line, words) in lines.iter().zip(*expected) {
            assert!(words.iter().all(|word| line.contains(word)), "{verb:?}: {words:?} in {line}");
        }
        assert_eq!(&run_on(folder.path(), verb).succeeded(), served, "{verb:?}");
    }
}

#[test]
fn a_read_only_read_gives_the_same_and_changes_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let (status, answer) = server.ask("POST", "/v1/commit", COMMIT);
    assert_eq!(status, 200, "{answer}");
    assert_eq!(server.stop_by("INT").0, Some(0));
    let files = || {
        let names = |folder: &std::path::Path| -> Vec<_> {
            let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
            let mut entries: Vec<_> =
                entries.map(|path| (path.metadata().expect("there").modified().ok(), path)).collect();
            entries.sort();
            entries
        };
        [names(folder.path()), names(&folder.path().join("shard-0000"))]
    };
    let before = files();
    let seen = READS.iter().map(|(verb, _)| run_on(folder.path(), &[verb, &["--read-only"][..]].concat()).succeeded());
    let seen: Vec<String> = seen.collect();
    run_on(folder.path(), &["produce", "t", "third", "--read-only"]).failed_with("read-only");
    assert_eq!(files(), before);
    let written = READS.iter().map(|(verb, _)| run_on(folder.path(), verb).succeeded());
    assert!(seen.into_iter().eq(written));
}

#[test]
fn the_profile_sets_the_segment_size_of_a_directory() {
    let folder = tempfile::tempdir().expect("a folder");
    quire::Database::builder(folder.path()).profile(quire::Profile::SmallDisk).open().expect("made");
    let large = "q".repeat(100 << 10);
    let lines = vec![large; 50].join("\n");
    let file = folder.path().join("lines");
    std::fs::write(&file, lines).expect("written");
    let produced =
        format!("\"$0\" produce t --data {} --profile small-disk < {}", folder.path().display(), file.display());
    let ran = std::process::Command::new("sh").args(["-c", &produced, env!("CARGO_BIN_EXE_quire")]).output();
    assert!(ran.expect("a shell").status.success());
    let shard = std::fs::read_dir(folder.path().join("shard-0000")).expect("a shard").map(|file| file.expect("one"));
    let segments = shard.filter(|file| file.file_name().to_string_lossy().ends_with(".log"));
    let bytes: Vec<_> = segments.map(|file| file.metadata().expect("metadata").len()).collect();
    assert!(bytes.len() > 1 && bytes.iter().all(|bytes| *bytes <= 4 << 20), "{bytes:?}");
}

#[test]
fn a_directory_is_opened_with_the_given_durability_or_that_of_its_users() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = |durability| quire::Database::builder(folder.path()).durability(durability).open();
    drop(open(quire::Durability::Os).expect("made"));
    run_on(folder.path(), &["events", "append", "s", "--type", "Happened", "--durability", "os"]).succeeded();
    // No other process has the directory open when the follower starts.
    let beside_a_tail = |said: &[&str]| {
        let folder = folder.path().to_str().expect("text");
        let tail = Running::start(&[&["events", "tail", "s", "--after", "0", "--data", folder], said].concat());
        assert!(tail.line().contains("Happened"));
        open(quire::Durability::Os).map(drop)
    };
    beside_a_tail(&["--durability", "os"]).expect("both say the same");
    let refused = beside_a_tail(&[]).expect_err("what nobody says is sync");
    assert!(refused.to_string().contains("sync"), "{refused}");
    let _here = open(quire::Durability::Os).expect("opened");
    run_on(folder.path(), &["produce", "t", "a"]).succeeded();
    run_on(folder.path(), &["produce", "t", "b", "--durability", "os"]).succeeded();
    run_on(folder.path(), &["produce", "t", "c", "--durability", "sync"]).failed_with("os");
    assert_eq!(run_on(folder.path(), &["consume", "t", "--values"]).succeeded(), "a\nb\n");
}

#[test]
fn graphs_of_a_directory_stay_within_their_memory_limit_also_read_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let (status, answer) = server.ask("POST", "/v1/commit", COMMIT);
    assert_eq!(status, 200, "{answer}");
    for flags in [&["--graph-memory", "0"][..], &["--read-only"]] {
        let of_the_server = [&["graph", "list", "--http", &server.http], flags].concat();
        assert_eq!(run(&of_the_server).status, Some(2), "{flags:?} is for who opens the folder");
    }
    assert_eq!(server.stop_by("INT").0, Some(0));
    let temporary = tempfile::tempdir().expect("a folder");
    // A changed time of the directory shows that a file was there, even if its name is gone.
    let looks_made_in = |folder: &std::path::Path, arguments: &[&str]| {
        let since = std::time::SystemTime::UNIX_EPOCH;
        std::fs::File::open(folder).expect("a folder").set_modified(since).expect("it has a time");
        let done =
            quire().args(arguments).env("TMPDIR", temporary.path()).output().expect("the command can be started");
        assert!(done.status.success(), "{done:?}");
        std::fs::metadata(folder).expect("a folder").modified().expect("it has a time") != since
    };
    let (path, elsewhere) = (folder.path().to_str().expect("text"), temporary.path());
    let (list, verify, repair) = (["graph", "list", "--data", path], ["verify", path], ["repair", path]);
    let cases = [(folder.path(), &list[..]), (elsewhere, &verify[..]), (elsewhere, &repair[..])];
    for (made_in, arguments) in cases {
        assert!(!looks_made_in(made_in, arguments), "{arguments:?}");
        assert!(looks_made_in(made_in, &[arguments, &["--graph-memory", "0"]].concat()), "{arguments:?}");
    }
}

#[test]
fn json_is_one_object_a_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    server.ask("POST", "/v1/commit", COMMIT);
    for (verb, expected) in READS {
        let printed = run(&[verb, &["--json", "--http", &server.http][..]].concat()).succeeded();
        let objects: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
        // A table of SQL has a line for the names of its columns.
        let lines = expected.len() - usize::from(verb[0] == "sql");
        assert_eq!(objects.len(), lines, "{verb:?}: {printed}");
        assert!(objects.iter().all(Value::is_object), "{verb:?}: {printed}");
    }
}

#[test]
fn a_job_and_a_block_are_shown_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let (_, answer) = server.ask("POST", "/v1/commit", COMMIT);
    let job = answer["replies"][4]["enqueued"]["job"].as_str().expect("a job").to_owned();
    let shown = run(&["jobs", "show", &job, "--http", &server.http]).succeeded();
    for word in [job.as_str(), "hello", "attempts  0 of 5", "enqueued"] {
        assert!(shown.contains(word), "{word} in {shown}");
    }
    let shown = run(&["graph", "get", "g", "a", "--http", &server.http]).succeeded();
    for word in ["kind      node", "source    file://a", "version   1", "content   A"] {
        assert!(shown.contains(word), "{word} in {shown}");
    }
    let shown = run(&["graph", "edge", "g", "a", "likes", "b", "--http", &server.http]).succeeded();
    for word in ["a --likes-> b", "put", "at 1", "properties  {\"since\": 3}"] {
        assert!(shown.contains(word), "{word} in {shown}");
    }
    let many = run(&["graph", "get", "g", "b", "a", "--json", "--http", &server.http]).succeeded();
    let names: Vec<Value> = many.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert_eq!(names.iter().map(|block| &block["name"]).collect::<Vec<_>>(), ["b", "a"]);
}

#[test]
fn metadata_and_properties_of_a_graph_are_kept_as_they_are_given() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let quire = |arguments: &[&str]| run(&[&["graph"][..], arguments, &["--http", &server.http]].concat());
    let given = r#"{"n": 12345678901234567890123, "b": 1.10, "a": 1e2, "a": 0}"#;
    let deep = format!("{}{}", "[".repeat(127), "]".repeat(127));
    for json in [given, &deep] {
        quire(&["put", "g", "n", "--kind", "k", "--metadata", json]).succeeded();
        quire(&["link", "g", "n", "to", "n", "--properties", json]).succeeded();
        let shown = quire(&["get", "g", "n"]).succeeded();
        assert!(shown.contains(&format!("  metadata  {json}\n")), "{shown}");
        let shown = quire(&["edge", "g", "n", "to", "n"]).succeeded();
        assert!(shown.contains(&format!("  properties  {json}\n")), "{shown}");
    }
    quire(&["put", "g", "n", "--kind", "k", "--metadata", "{bad"]).failed_with("--metadata is not JSON");
    quire(&["link", "g", "n", "to", "n", "--properties", "1 2"]).failed_with("--properties is not JSON");
}

#[test]
fn a_limit_of_a_walk_is_reported_on_standard_error_or_in_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    assert_eq!(server.ask("POST", "/v1/commit", COMMIT).0, 200);
    let quire = |arguments: &[&str]| run(&[&["graph"][..], arguments, &["--http", &server.http]].concat());
    let json = quire(&["walk", "g", "a", "--depth", "0", "--json"]).succeeded();
    assert_eq!(json.lines().last(), Some(r#"{"bound":"depth"}"#), "{json}");
    let json = quire(&["walk", "g", "a", "--json"]).succeeded();
    assert_eq!((json.lines().count(), json.contains("bound")), (2, false), "{json}");
    assert_eq!(quire(&["path", "g", "a", "b", "--depth", "0", "--json"]).succeeded(), "{\"bound\":\"depth\"}\n");
    let shown = quire(&["walk", "g", "a", "--depth", "0"]);
    assert!(shown.stderr.contains("the limit on depth"), "{}", shown.stderr);
    assert_eq!(shown.succeeded(), "a\n");
}

#[test]
fn graph_errors_name_the_options_of_the_command_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    assert_eq!(server.ask("POST", "/v1/commit", COMMIT).0, 200);
    let quire = |arguments: &[&str]| run(&[&["graph"][..], arguments, &["--http", &server.http]].concat());
    quire(&["put", "g", "0000", "--kind", "k", "--id"])
        .failed_with("invalid block id: expected 32 hexadecimal digits, not \"0000\"");
    quire(&["get", "g", "0000", "0001", "--id"])
        .failed_with("invalid block id: expected 32 hexadecimal digits, not \"0000\"");
    quire(&["walk", "g", "a", "--dot", "--order", "depth"]).failed_with("--order breadth");
    quire(&["path", "g", "a", "b", "--kind", "node"]).failed_with("add --only");
    assert_eq!(quire(&["path", "g", "a", "b", "--kind", "none", "--only"]).succeeded(), "a --likes-> b\n");
    quire(&["trim", "nowhere", "1"]).failed_with("unknown graph \"nowhere\"");

    let star: Vec<Value> = (0..100_001)
        .map(|number| json!({ "put_edge": { "graph": "g", "source": "a", "type": "t", "target": number.to_string(), "allow_missing": true } }))
        .collect();
    let (status, answer) = server.ask("POST", "/v1/commit", &json!({ "parts": star }).to_string());
    assert_eq!(status, 200, "{answer}");
    quire(&["delete", "g", "a"]).failed_with("quire graph unlink-all");
}

#[test]
fn a_graph_is_imported_and_its_history_is_trimmed() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("g.jsonl");
    let block = |name: &str| format!("{{\"block\": {{\"name\": \"{name}\", \"kind\": \"node\"}}}}\n");
    std::fs::write(&file, block("a") + &block("b")).expect("written");
    let data = folder.path().join("data");
    let server = Server::start(&data);
    let quire = |arguments: &[&str]| run(&[&["graph"][..], arguments, &["--http", &server.http]].concat());
    let path = file.to_str().expect("text");
    let imported = quire(&["import", "g", path]);
    assert!(imported.stderr.contains("importing: 2 of 2"), "{imported:?}");
    assert_eq!(imported.succeeded(), "2 blocks and 0 edges in 1 commits\n");
    std::fs::write(&file, block("c") + "{\"edge\": {\"source\": \"c\", \"type\": \"t\", \"target\": \"d\"}}\n")
        .expect("written");
    quire(&["import", "g", path]).failed_with("\"d\"");
    quire(&["get", "g", "a", "b", "c"]).failed_with("block c not found in graph g");
    quire(&["put", "g", "a", "--kind", "node"]).succeeded();
    let kept = quire(&["retain", "g", "--history-ms", "60000", "--versions", "3"]).succeeded();
    assert_eq!(kept, "g keeps 60000 ms of its past, and 3 of the versions of each block\n");
    assert_eq!(quire(&["trim", "g", "2"]).succeeded(), "g can be read as of position 2 and later\n");
    quire(&["get", "g", "a", "--at", "1"]).failed_with("its history before 2 is gone");
    assert_eq!(quire(&["get", "g", "a", "--versions"]).succeeded().lines().count(), 2);
    for (source, target) in [("a", "a"), ("a", "b"), ("b", "a")] {
        quire(&["link", "g", source, "t", target]).succeeded();
    }
    assert_eq!(quire(&["unlink-all", "g", "a", "--batch", "1"]).succeeded(), "3 edges of a deleted\n");
    assert_eq!(
        quire(&["unlink-all", "g", "a", "--json"]).succeeded().trim(),
        r#"{"edges_deleted":{"edges":0,"more":false}}"#
    );
    assert_eq!(quire(&["retain", "g"]).succeeded(), "g keeps all of its past from now on\n");
}

#[test]
fn every_graph_command_accepts_block_ids() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let quire = |arguments: &[&str]| run(&[&["graph"][..], arguments, &["--http", &server.http]].concat());
    let by_id = |arguments: &[&str]| quire(&[arguments, &["--id"]].concat());
    let (zeros, ones) = ("0".repeat(32), "1".repeat(32));
    let (zeros, ones) = (zeros.as_str(), ones.as_str());
    assert_eq!(by_id(&["put", "g", zeros, "--kind", "node"]).succeeded(), format!("{zeros} created, version 1\n"));
    by_id(&["put", "g", ones, "--kind", "node"]).succeeded();
    assert_eq!(by_id(&["link", "g", zeros, "t", ones]).succeeded(), format!("{zeros} --t-> {ones} created\n"));
    assert!(by_id(&["get", "g", zeros]).succeeded().starts_with(zeros));
    assert_eq!(by_id(&["get", "g", zeros, ones, "--json"]).succeeded().lines().count(), 2);
    assert_eq!(by_id(&["get", "g", zeros, "--versions"]).succeeded().lines().count(), 1);
    assert_eq!(by_id(&["neighbours", "g", zeros]).succeeded(), format!("--t-> {ones}\n"));
    assert_eq!(by_id(&["degree", "g", zeros]).succeeded(), "1 outgoing edge, 0 incoming edges\n");
    assert!(by_id(&["edge", "g", zeros, "t", ones]).succeeded().contains("properties  -"));
    assert_eq!(by_id(&["walk", "g", zeros]).succeeded().lines().count(), 2);
    assert_eq!(by_id(&["path", "g", zeros, ones]).succeeded(), format!("{zeros} --t-> {ones}\n"));
    assert_eq!(by_id(&["unlink", "g", zeros, "t", ones]).succeeded(), format!("{zeros} --t-> {ones} deleted\n"));
    assert_eq!(by_id(&["unlink-all", "g", zeros]).succeeded(), format!("0 edges of {zeros} deleted\n"));
    assert_eq!(by_id(&["delete", "g", zeros]).succeeded(), format!("{zeros} deleted, version 1\n"));
    quire(&["get", "g", ones]).failed_with("unknown block");
    by_id(&["get", "g", "7"]).failed_with("32 hexadecimal digits");
    assert!(quire(&["walk", "g", ones, "--limit", "20000"]).stderr.contains("1..=10000"));
}

#[test]
fn a_graph_is_counted_ordered_parted_and_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let quire = |arguments: &[&str]| run(&[&["graph"][..], arguments, &["--http", &server.http]].concat());
    let lines =
        |arguments: &[&str]| -> Vec<String> { quire(arguments).succeeded().lines().map(str::to_owned).collect() };
    for block in ["a", "b", "c", "alone"] {
        quire(&["put", "g", block, "--kind", "k"]).succeeded();
    }
    for (source, target) in [("a", "b"), ("b", "a"), ("b", "c"), ("a", "c")] {
        quire(&["link", "g", source, "t", target]).succeeded();
    }
    quire(&["link", "g", "c", "t", "gone", "--allow-missing"]).succeeded();
    let gone = quire::graph::BlockId::of_name("gone").to_string();

    assert_eq!(lines(&["path", "g", "a", "c", "--all"]), ["a --t-> c", "a --t-> b --t-> c"]);
    assert_eq!(lines(&["blocks", "g", "--count"]), ["4"]);
    assert_eq!(lines(&["neighbours", "g", "a", "--count"]), ["3"]);
    assert_eq!(lines(&["walk", "g", "a", "--depth", "9", "--count"]), ["4"]);
    assert_eq!(lines(&["walk", "g", "a", "--depth", "9", "--count", "--without-missing"]), ["3"]);
    assert!(lines(&["walk", "g", "a", "--count", "--json"])[0].contains("\"count\":4"));

    let order =
        ["alone".to_owned(), "cycle: a, b".into(), "behind a cycle: c".into(), format!("behind a cycle: {gone}")];
    assert_eq!(lines(&["order", "g", "--whole"]), order);
    assert_eq!(lines(&["order", "g", "c", "alone", "--without-missing"]), ["c", "alone"]);
    let parts = ["2 blocks: a, b", "1 block: c", "1 block: alone"];
    assert_eq!(lines(&["components", "g", "--whole", "--without-missing"]), parts);
    assert_eq!(lines(&["components", "g", "alone"]), ["1 block: alone"]);
    let whole = lines(&["components", "g", "--whole", "--json"]);
    assert!(whole.len() == 1 && whole[0].contains("\"bound\":null"), "{whole:?}");
    assert!(quire(&["order", "g"]).stderr.contains("required"));
    quire(&["components", "g", "--whole", "--kind", "k"]).failed_with("--only");

    assert_eq!(lines(&["missing", "g"]), [format!("{gone}  0 outgoing edges, 1 incoming edge")]);
    let changes = lines(&["changes", "g"]);
    assert_eq!(changes.len(), 9);
    assert!(changes[0].contains("put      a") && changes[8].contains("--t-> "), "{changes:?}");
    assert_eq!(lines(&["changes", "g", "--limit", "2", "--json"]).len(), 2);
    let seen = quire(&["changes", "g", "--limit", "8"]);
    let after = seen.stderr.trim().rsplit(' ').next().expect("a place").to_owned();
    assert_eq!(lines(&["changes", "g", "--after", &after]).len(), 1);
}

#[test]
fn a_job_is_enqueued_changed_and_worked_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let quire = |arguments: &[&str]| run(&[&["jobs"][..], arguments, &["--http", &server.http]].concat()).succeeded();
    let enqueue = |payload: &str, more: &[&str]| {
        let arguments = [&["enqueue", "out", payload][..], more].concat();
        quire(&arguments).trim_end().to_owned()
    };
    let (good, bad) = (enqueue("good", &["--kind", "mail"]), enqueue("bad", &["--attempts-max", "1"]));
    let held = enqueue("held", &["--priority", "200"]);
    let once = enqueue("once", &["--unique", "k", "--delay-ms", "3600000", "--tag", "t"]);
    assert_eq!(enqueue("twice", &["--unique", "k"]), format!("{once}, which was there"));
    assert_eq!(quire(&["hold", &held, "--reason", "later"]), format!("{held} is held\n"));

    let script = "read word; test $word = good && echo $QUIRE_KIND $QUIRE_ATTEMPT || { echo no $word >&2; exit 3; }";
    let worked = quire(&["work", "out", "--until-empty", "--exec", script]);
    assert!(worked.contains(&format!("{good}  exit status: 0")), "{worked}");
    assert!(worked.contains(&format!("{bad}  exit status: 3")), "{worked}");
    let shown = quire(&["show", &good]);
    assert!(shown.contains("result    mail 1"), "{shown}");
    assert!(quire(&["show", &bad]).contains("no bad"));

    assert_eq!(
        quire(&["bulk", "retry", "--queue", "out", "--state", "dead", "--error", "no bad"]),
        "1 changed, 0 refused\n"
    );
    assert_eq!(quire(&["release", &held]), format!("{held} is pending\n"));
    assert_eq!(quire(&["move", &held, "--to", "elsewhere"]), format!("{held} is pending\n"));
    assert_eq!(quire(&["cancel", &bad, "--reason", "enough"]), format!("{bad} is cancelled\n"));
    assert_eq!(quire(&["delete", &once]), format!("{once} is deleted\n"));
    let queues = quire(&["queues"]);
    assert!(queues.contains("pending 1") && queues.contains("cancelled 1"), "{queues}");
}

#[test]
fn a_command_ends_with_the_time_of_its_job_and_too_much_output_is_a_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let quire = |arguments: &[&str]| run(&[&["jobs"][..], arguments, &["--http", &server.http]].concat()).succeeded();
    let slow = quire(&["enqueue", "q", "p", "--timeout-ms", "300", "--attempts-max", "1"]);
    let worked = quire(&["work", "q", "--exec", "sleep 600", "--until-empty"]);
    assert!(worked.starts_with(&format!("{}  killed", slow.trim_end())), "{worked}");
    let loud = quire(&["enqueue", "q", "p", "--attempts-max", "1"]);
    quire(&["work", "q", "--exec", "head -c 8388609 /dev/zero", "--until-empty"]);
    let shown = quire(&["show", loud.trim_end()]);
    assert!(shown.contains("its output has 8388609 bytes"), "{shown}");
}

#[test]
fn a_job_is_enqueued_with_every_option() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let quire = |arguments: &[&str]| run(&[&["jobs"][..], arguments, &["--http", &server.http]].concat());
    let options = [
        &["--kind", "mail", "--priority", "high", "--delay-ms", "60000", "--expires-in-ms", "7200000"][..],
        &["--timeout-ms", "9000", "--attempts-max", "7", "--backoff", "linear", "--backoff-base-ms", "100"],
        &["--backoff-max-ms", "900", "--jitter-percent", "10", "--group", "g", "--unique", "k", "--unique-scope"],
        &["everywhere", "--unique-hold", "until-started", "--unique-clash", "reject", "--retention-ms", "5000"],
        &["--tag", "t", "--tag", "u"],
    ];
    let job = quire(&[&["enqueue", "q", "p"][..], &options.concat()].concat()).succeeded().trim_end().to_owned();
    let shown = quire(&["show", &job, "--json"]).succeeded();
    let shown: serde_json::Value = serde_json::from_str(&shown).expect("a line of JSON");
    for (field, value) in [
        ("state", json!("scheduled")),
        ("kind", json!("mail")),
        ("priority", json!(192)),
        ("timeout_ms", json!(9_000)),
        ("attempts_max", json!(7)),
        ("group", json!("g")),
        ("unique_key_text", json!("k")),
        ("retention_ms", json!(5_000)),
        ("tags", json!(["t", "u"])),
    ] {
        assert_eq!(shown[field], value, "{field} of {shown}");
    }
    assert!(shown["expires_at_ms"].as_u64() > shown["run_at_ms"].as_u64());
    quire(&["enqueue", "other", "p", "--unique", "k", "--unique-scope", "everywhere", "--unique-clash", "reject"])
        .failed_with(&job);
    let at_once = ["enqueue", "q", "p", "--run-at-ms", "1", "--backoff-list-ms", "10,20", "--unique", "other"];
    let job = quire(&[&at_once[..], &["--unique-hold-ms", "60000"]].concat()).succeeded();
    assert!(quire(&["show", job.trim_end()]).succeeded().contains("pending"));
    quire(&["enqueue", "q", "p", "--backoff", "none", "--backoff-base-ms", "5"]).failed_with("backoff_base_ms");
    for arguments in [
        &["enqueue", "q", "p", "--unique-clash", "keep"][..],
        &["enqueue", "q", "p", "--delay-ms", "1", "--run-at-ms", "1"],
        &["enqueue", "q", "p", "--backoff-list-ms", "1", "--backoff", "fixed"],
    ] {
        assert_eq!(quire(arguments).status, Some(2), "{arguments:?}");
    }
}

#[test]
fn jobs_are_filtered_and_changed_in_bulk() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let quire = |arguments: &[&str]| run(&[&["jobs"][..], arguments, &["--http", &server.http]].concat());
    let enqueue = |queue: &str, more: &[&str]| {
        let arguments = [&["enqueue", queue, "p", "--delay-ms", "3600000"][..], more].concat();
        quire(&arguments).succeeded().trim_end().to_owned()
    };
    let (a, b) = (enqueue("a", &["--kind", "mail", "--tag", "t"]), enqueue("a", &["--kind", "call"]));
    let c = enqueue("b", &["--kind", "mail"]);
    let found = |arguments: &[&str]| -> Vec<String> {
        let listed = quire(&[&["list"][..], arguments].concat()).succeeded();
        listed.lines().filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect()
    };
    assert_eq!(found(&["a"]), [&*a, &b], "unfinished ones, unless it is said otherwise");
    assert_eq!(found(&["a", "--state", "scheduled", "--state", "held"]), [&*a, &b]);
    assert_eq!(found(&["--kind", "mail"]), [&*a, &c]);
    assert_eq!(found(&["a", "--tag", "t"]), [&*a]);
    assert_eq!(found(&["--job", &c, "--job", &b]), [&*b, &c]);
    assert_eq!(found(&["--attempts-min", "1"]), [""; 0]);
    assert_eq!(found(&["--enqueued-from-ms", "1", "--enqueued-before-ms", "9999999999999"]), [&*a, &b, &c]);

    let bulk = |arguments: &[&str]| quire(&[&["bulk"][..], arguments].concat());
    bulk(&["cancel"]).failed_with("--all");
    bulk(&["cancel", "--all", "--queue", "a"]).failed_with("--all");
    assert_eq!(bulk(&["run-now", "--job", &a, "--job", &c]).succeeded(), "2 changed, 0 refused\n");
    assert_eq!(found(&["--state", "pending"]), [&*a, &c]);
    assert_eq!(bulk(&["move", "--queue", "b", "--to", "a"]).succeeded(), "1 changed, 0 refused\n");
    assert_eq!(found(&["a", "--state", "pending"]), [&*a, &c]);
    assert_eq!(bulk(&["priority", "--kind", "mail", "--to", "low"]).succeeded(), "2 changed, 0 refused\n");
    assert_eq!(quire(&["priority", &b, "--to", "critical"]).succeeded(), format!("{b} is scheduled\n"));
    assert!(quire(&["show", &b]).succeeded().contains("priority  255"));
    assert_eq!(quire(&["run-now", &b]).succeeded(), format!("{b} is pending\n"));
    assert_eq!(quire(&["reschedule", &b, "--delay-ms", "60000"]).succeeded(), format!("{b} is scheduled\n"));
    assert_eq!(quire(&["attempts", &b, "--to", "1"]).succeeded(), format!("{b} is scheduled\n"));
    quire(&["run-now", &b]).succeeded();
    quire(&["work", "a", "--until-empty", "--exec", "test $QUIRE_KIND = mail"]).succeeded();
    assert_eq!(found(&["--state", "dead"]), [&*b]);
    assert_eq!(quire(&["retry", &b, "--payload", "edited"]).succeeded(), format!("{b} is pending\n"));
    assert!(quire(&["show", &b]).succeeded().contains("edited"));
    assert_eq!(found(&["--finished-from-ms", "1"]), [&*a, &c]);
    assert_eq!(found(&["--finished-before-ms", "1"]), [""; 0]);
    assert_eq!(bulk(&["delete", "--all"]).succeeded(), "3 changed, 0 refused\n");
    assert_eq!(found(&["--enqueued-from-ms", "1"]), [""; 0]);
}

#[test]
fn unfinished_jobs_are_listed_and_the_others_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let quire = |arguments: &[&str]| run(&[&["jobs"][..], arguments, &["--http", &server.http]].concat());
    let enqueue = |queue: &str, more: &[&str]| {
        quire(&[&["enqueue", queue, "p"][..], more].concat()).succeeded().trim_end().to_owned()
    };
    let listed = |arguments: &[&str]| {
        let ran = quire(&[&["list"][..], arguments].concat());
        let note = ran.stderr.clone();
        let states =
            ran.succeeded().lines().filter_map(|line| Some(line.split_whitespace().nth(2)?.to_owned())).collect();
        (states, note)
    };
    let states = |states: &[&str]| states.iter().map(|state| (*state).to_owned()).collect::<Vec<_>>();
    enqueue("q", &["--kind", "bad"]);
    quire(&["work", "q", "--until-empty", "--exec", "false"]).succeeded();
    let done = enqueue("q", &[]);
    quire(&["work", "q", "--until-empty", "--exec", "true"]).succeeded();
    assert_eq!(listed(&["q"]), (states(&["retrying"]), "not listed: 1 completed; add --state completed\n".to_owned()));
    let waiting = enqueue("q", &["--delay-ms", "3600000"]);
    quire(&["hold", &enqueue("q", &[])]).succeeded();
    enqueue("other", &[]);
    quire(&["cancel", &enqueue("other", &[])]).succeeded();
    let (found, _) = listed(&["q"]);
    assert_eq!(found, states(&["retrying", "scheduled", "held"]));
    let (found, note) = listed(&[]);
    assert_eq!(found, states(&["retrying", "scheduled", "held", "pending"]));
    assert_eq!(note, "not listed: 1 completed, 1 cancelled; add --state completed --state cancelled\n");
    for filter in [&["q", "--state", "completed"][..], &["--job", &done]] {
        assert_eq!(listed(filter), (states(&["completed"]), String::new()));
    }
    assert_eq!(quire(&["list", "q", "--json"]).succeeded().lines().count(), 3, "the note is no line of JSON");
    quire(&["list", "Q"]).failed_with("unknown queue \"Q\"; did you mean \"q\"?");
    quire(&["list", "--job", &waiting, "--job", "99-0"]).failed_with("unknown job 99-0");
    quire(&["bulk", "cancel", "--queue", "othr"]).failed_with("unknown queue \"othr\"; did you mean \"other\"?");
    quire(&["bulk", "cancel", "--job", "99-0"]).failed_with("unknown job 99-0");
}

#[test]
fn produced_messages_are_consumed() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(Server::start(folder.path()));
    for (number, value) in ["one", "two"].into_iter().enumerate() {
        let told = run_on(folder.path(), &["produce", "t", value, "--key", "k"]).succeeded();
        assert_eq!(told, format!("t, partition 0, offset {number}\n"));
    }
    let consumed = run_on(folder.path(), &["consume", "t"]).succeeded();
    let last_words: Vec<_> = consumed.lines().map(|line| line.rsplit(' ').next()).collect();
    assert_eq!(last_words, [Some("one"), Some("two")]);
}

#[test]
fn missing_objects_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    server.ask("POST", "/v1/commit", COMMIT);
    for (verb, message) in [
        (&["consume", "none"][..], "unknown topic \"none\""),
        (&["consume", "t", "--partition", "7"], "unknown partition 7"),
        (&["consume", "t", "--partition", "0", "--offset", "9"], "offset 9 is out of range"),
        (&["jobs", "show", "77-0"], "unknown job 77-0"),
        (&["jobs", "show", "seven"], "seven"),
        (&["graph", "get", "g", "zzz"], "zzz"),
        (&["graph", "neighbours", "none", "a"], "none"),
        (&["graph", "path", "g", "a", "zzz"], "unknown block \"zzz\""),
        (&["graph", "order", "g", "zzz"], "unknown block \"zzz\""),
        (&["events", "read", "nope"], "event store nope not found"),
        (&["events", "read", "no store"], "invalid store name"),
        (&["jobs", "work", "no queue", "--exec", "true"], "queue name"),
    ] {
        run(&[verb, &["--http", &server.http]].concat()).failed_with(message);
    }
}

#[test]
fn an_unknown_name_is_an_error_that_names_the_nearest_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    run(&["topics", "describe", "t", "--http", &server.http]).failed_with("; the database has no topic");
    for part in [
        r#"{"append": {"store": "air/flights", "events": [{"type": "A"}]}}"#,
        r#"{"create_topic": {"name": "departures", "partitions": 1}}"#,
        r#"{"enqueue": {"queue": "mails", "payload_text": ""}}"#,
        r#"{"put_block": {"graph": "routes", "block": "a", "kind": "node"}}"#,
        r#"{"commit_offset": {"group": "readers", "topic": "departures", "partition": 0, "offset": 0}}"#,
        r#"{"retain_events": {"store": "empty", "retention_ms": 9000}}"#,
    ] {
        let (status, answer) = server.ask("POST", "/v1/commit", &format!("{{\"parts\": [{part}]}}"));
        assert_eq!(status, 200, "{answer}");
    }
    let store = "did you mean \"air/flights\"?";
    let topic = "did you mean \"departures\"?";
    let queue = "did you mean \"mails\"?";
    let graph = "did you mean \"routes\"?";
    let group = "did you mean \"readers\"?";
    for (verb, message) in [
        (&["events", "read", "flights"][..], store),
        (&["events", "read", "zzz"], "`quire events stores` lists the names"),
        (&["events", "export", "air/flight"], store),
        (&["events", "project", "air/flight", "--count"], store),
        (&["events", "stats", "air/flight"], store),
        (&["events", "subscriptions", "air/flight"], store),
        (&["events", "projections", "air/flight"], store),
        (&["events", "trim", "air/flight", "1"], store),
        (&["events", "unsubscribe", "air/flight", "s"], store),
        (&["events", "drop-projection", "air/flight", "p"], store),
        (&["groups", "reset", "new", "air/flight", "--store", "--to-end"], store),
        (&["topics", "describe", "departure"], topic),
        (&["topics", "alter", "departure", "--partitions", "2"], topic),
        (&["topics", "delete", "Departures"], topic),
        (&["consume", "departure"], topic),
        (&["groups", "reset", "new", "departure", "--to-end"], topic),
        (&["groups", "describe", "reader"], group),
        (&["groups", "delete", "reader"], group),
        (&["groups", "reset", "new", "mail", "--queue", "--to-end"], queue),
        (&["jobs", "list", "mail"], queue),
        (&["jobs", "queues", "pause", "mail"], queue),
        (&["jobs", "queues", "clear", "mail"], queue),
        (&["jobs", "show", "77-0"], "`quire jobs list` lists the unfinished jobs"),
        (&["graph", "get", "route", "a"], graph),
        (&["graph", "neighbours", "route", "a"], graph),
    ] {
        let ran = run(&[verb, &["--http", &server.http]].concat());
        assert_eq!(ran.stdout, "", "{verb:?}");
        ran.failed_with(message);
    }
    let target = tempfile::tempdir().expect("a folder");
    drop(quire::Database::open(target.path()).expect("made"));
    let to = target.path().to_str().expect("text");
    run(&["events", "copy", "air/flight", "--http", &server.http, "--to-data", to]).failed_with(store);
    // A store without events is known.
    for verb in [&["events", "read", "empty"][..], &["events", "subscriptions", "empty"]] {
        assert_eq!(run(&[verb, &["--http", &server.http]].concat()).succeeded(), "", "{verb:?}");
    }
    // A hint names only what is missing.
    let missing = run(&["graph", "get", "routes", "b", "--http", &server.http]);
    assert!(!missing.stderr.contains("did you mean") && !missing.stderr.contains("lists"), "{missing:?}");
}

#[test]
fn a_server_is_named_by_its_url() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    for url in [format!("http://{}", server.http), format!("http://{}/", server.http), server.http.clone()] {
        assert_eq!(run(&["topics", "list", "--http", &url]).succeeded(), "");
    }
    let to = format!("http://{}", server.http);
    run(&["events", "append", "s", "--type", "A", "--http", &to]).succeeded();
    run(&["events", "copy", "s", "--http", &to, "--to", "copied", "--to-http", &to]).succeeded();
    // The server answers without TLS.
    run(&["topics", "list", "--http", &format!("https://{}", server.http)]).failed_with("no TLS with the server");
}

#[test]
fn an_unreachable_or_foreign_server_is_an_error() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        std::io::Read::read(&mut stream, &mut [0; 4096]).expect("a request");
        std::io::Write::write_all(&mut stream, b"220 mail ready\r\n").expect("it reads");
    });
    run(&["topics", "list", "--http", &address]).failed_with("does not respond like a Quire server");
    other.join().expect("it was asked");
    run(&["topics", "list", "--http", &address]).failed_with("can't ask the server");
}

/// Imports the lines of a file of events, and returns the events of the store.
const EVENTS: &str = r#"{"type": "A", "id": "a0b1c2d3-e4f5-8000-8000-000000000001", "tags": ["x:1"], "data": {"n":  1}}
{"type": "B", "id": "a0b1c2d3-e4f5-8000-8000-000000000002", "data_text": "two", "metadata": {"user": "u"}}

{"specversion": "1.0", "id": "a0b1c2d3-e4f5-8000-8000-000000000003", "source": "elsewhere", "type": "C", "tags": "[\"x:2\"]", "data_base64": "/wA="}
"#;

#[test]
fn events_are_appended_folded_imported_once_and_exported_in_either_form() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, file) = (folder.path().join("data"), folder.path().join("events.jsonl"));
    assert_eq!(Server::start(&data).stop_by("INT").0, Some(0));
    let on = |arguments: &[&str]| run_on(&data, arguments);
    let append = ["events", "append", "users", "--type", "NameClaimed", "--tag", "name:ada", r#"{"age": 36}"#];
    let unless = ["--unless-type", "NameClaimed", "--unless-tag", "name:ada"];
    assert_eq!(on(&[&append[..], &unless].concat()).succeeded(), "position 1\n");
    on(&[&append[..], &unless].concat()).failed_with("1");
    assert_eq!(on(&[&append[..], &unless, &["--unless-after", "1"]].concat()).succeeded(), "position 2\n");
    on(&[&append[..], &["--unless-after", "1"]].concat()).failed_with("--unless-after needs");
    let project = |fold: &[&str]| {
        on(&[&["events", "project", "users", "--tag", "name:ada"], fold].concat()).succeeded().trim_end().to_owned()
    };
    assert_eq!([project(&["--count"]), project(&["--exists"]), project(&["--sum", "age"])], ["2", "true", "72"]);
    assert!(project(&["--last"]).contains("NameClaimed  [name:ada]"));
    assert_eq!(project(&["--type", "Other", "--last"]), "-");

    std::fs::write(&file, EVENTS).expect("written");
    let import = ["events", "import", "users", file.to_str().expect("text")];
    assert_eq!(on(&import).succeeded(), "3 events, 0 of them duplicates\n");
    assert_eq!(on(&import).succeeded(), "3 events, 3 of them duplicates\n");
    let exported = ["jsonl", "cloudevents"].map(|format| {
        let exported = on(&["events", "export", "users", "--format", format]).succeeded();
        std::fs::write(&file, &exported).expect("written");
        let copy = ["events", "import", &format!("copy/{format}"), import[3]].map(str::to_owned);
        assert_eq!(on(&copy.each_ref().map(String::as_str)).succeeded(), "5 events, 0 of them duplicates\n");
        let read = on(&["events", "read", &format!("copy/{format}"), "--json"]).succeeded();
        let events = read.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let events = events.map(|mut event| {
            event.as_object_mut().expect("an object").remove("time_ms");
            event
        });
        events.collect::<Vec<_>>()
    });
    assert_eq!(exported[0].len(), 5);
    assert_eq!(exported[0], exported[1]);
    let exact = r#"{"z":1, "a":1.10,"big":12345678901234567890123,"dup":1,"dup":2}"#;
    std::fs::write(&file, format!("{{\"type\":\"Exact\",\"data\":{exact},\"metadata\":{exact}}}\n")).expect("written");
    let import_to = |store: &str| on(&["events", "import", store, import[3]]).succeeded();
    import_to("exact/one");
    for format in ["jsonl", "cloudevents"] {
        let exported = on(&["events", "export", "exact/one", "--format", format]).succeeded();
        assert!(exported.contains(&format!("\"data\":{exact}")), "{exported}");
        std::fs::write(&file, &exported).expect("written");
        import_to(&format!("exact/{format}"));
        let read = on(&["events", "read", &format!("exact/{format}"), "--json"]).succeeded();
        assert_eq!(read.matches(exact).count(), 2, "{read}");
        assert!(on(&["events", "read", &format!("exact/{format}")]).succeeded().contains(exact));
    }
    std::fs::write(&file, "{\"type\": \"A\"}\n[1]\n").expect("written");
    on(&import).failed_with("line 2: not a JSON object; 0 events before this line were appended");
}

#[test]
fn an_export_has_one_event_per_line_and_imports_again_byte_for_byte() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(&folder.path().join("data"));
    let on = |arguments: &[&str]| run(&[&["events"][..], arguments, &["--http", &server.http]].concat());
    let event = r#"{"type": "A", "id": "a0b1c2d3-e4f5-8000-8000-000000000001", "tags": [{"base64": "/wE="}, "t"], "data": {"a":
1}, "metadata": [
2]}"#;
    server.ask("POST", "/v1/events/s/append", &format!("{{\"events\": [{event}]}}"));
    let shown = |store: &str| {
        let mut event: Value =
            serde_json::from_str(&on(&["read", store, "--json"]).succeeded()).expect("one line of JSON");
        event.as_object_mut().expect("an object").remove("time_ms");
        event
    };
    assert_eq!(shown("s")["data_text"], "{\"a\":\n1}");
    for format in ["jsonl", "cloudevents"] {
        let exported = on(&["export", "s", "--format", format]).succeeded();
        assert_eq!(exported.lines().count(), 1, "{exported}");
        let file = folder.path().join(format);
        std::fs::write(&file, exported).expect("written");
        on(&["import", format, file.to_str().expect("text")]).succeeded();
        assert_eq!(shown(format), shown("s"));
    }
    let tailed = Running::start(&["events", "tail", "s", "--after", "0", "--json", "--http", &server.http]);
    assert!(tailed.line().contains("data_text"));
}

#[test]
fn a_grown_file_is_imported_again_and_an_invalid_line_stops_the_whole_import() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(&folder.path().join("data"));
    let on = |arguments: &[&str]| run(&[&["events"][..], arguments, &["--http", &server.http]].concat());
    let event = |number: usize| {
        format!("{{\"type\":\"A\",\"id\":\"A0b1c2d3-e4f5-8000-8000-{number:012}\",\"data\":{number}}}\n")
    };
    let file = folder.path().join("file");
    let import = |lines: String| {
        std::fs::write(&file, lines).expect("written");
        on(&["import", "s", file.to_str().expect("text")])
    };
    let events = |numbers: std::ops::Range<usize>| numbers.map(event).collect::<String>();
    assert_eq!(import(events(0..4)).succeeded(), "4 events, 0 of them duplicates\n");
    assert_eq!(import(events(0..1_200)).succeeded(), "1,200 events, 4 of them duplicates\n");
    let between = [event(9_000), events(600..602), event(9_001), events(2..3)].concat();
    assert_eq!(import(between).succeeded(), "5 events, 3 of them duplicates\n");
    let changed = event(7).replace("\"A\"", "\"B\"");
    import([event(9_002), changed].concat()).failed_with("line 2: ");
    import(events(2_000..4_000) + "{\"type\":\"A\",\"type\":\"B\"}\n").failed_with("line 2001: not JSON: the field");
    import("{}\n".to_owned()).failed_with("line 1: missing field `type`; 0 events");
    std::fs::write(&file, [b"{\"type\":\"A\"}\n\"".as_slice(), &[0xff]].concat()).expect("written");
    on(&["import", "s", file.to_str().expect("text")]).failed_with("line 2: not UTF-8 from byte 2 on");
    assert_eq!(server.ask("GET", "/v1/events/s/head", "").1["head"], 1_202);
}

#[test]
fn a_follower_of_a_read_only_database_ends_with_the_present_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let (status, answer) = server.ask("POST", "/v1/commit", COMMIT);
    assert_eq!(status, 200, "{answer}");
    assert_eq!(server.stop_by("INT").0, Some(0));
    for (verb, is_more) in [
        (&["events", "tail", "s/one", "--after", "0"][..], true),
        (&["events", "tail", "s/one"], false),
        (&["events", "tail", "nobody"], false),
        (&["jobs", "tail", "--after", "start"], true),
        (&["consume", "t", "--follow"], true),
    ] {
        let ran = run_on(folder.path(), &[verb, &["--read-only"]].concat());
        assert!(ran.stderr.contains("stopping here"), "{verb:?}: {ran:?}");
        assert_eq!(!ran.succeeded().is_empty(), is_more, "{verb:?}");
    }
}

#[test]
fn a_tail_prints_present_events_and_then_new_ones_of_another_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let append = |number: &str| {
        run(&["events", "append", "s", "--type", number, "--http", &server.http]).succeeded();
    };
    append("One");
    let tail = Running::start(&["events", "tail", "s", "--after", "0", "--limit", "3", "--http", &server.http]);
    assert!(tail.line().contains("One"));
    append("Two");
    append("Three");
    assert!(tail.line().contains("Two"));
    assert!(tail.line().contains("Three"));
    assert_eq!(tail.ends(), Some(0));
}

#[test]
fn topics_are_created_altered_and_deleted_and_groups_continue_at_a_reset_offset() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(Server::start(folder.path()));
    let verb = |arguments: &[&str]| run_on(folder.path(), arguments).succeeded();
    assert_eq!(
        verb(&["topics", "create", "t", "--partitions", "2", "--retention-ms", "none"]),
        "created t with 2 partitions\n"
    );
    run_on(folder.path(), &["topics", "create", "t"]).failed_with("t");
    let changes = ["--partitions", "3", "--batch-bytes-max", "1000", "--compression", "lz4", "--protect", "slow"];
    let compacts = ["--cleanup", "compact,delete", "--delete-retention-ms", "5000"];
    verb(&[&["topics", "alter", "t"], &changes[..], &compacts].concat());
    let described = verb(&["topics", "describe", "t"]);
    let settings = "retention_ms none  retention_bytes none  batch_bytes_max 1000  compression lz4  cleanup compact,delete  \
                    delete_retention_ms 5000  kept for slow";
    assert_eq!((described.lines().next(), described.lines().count()), (Some(settings), 4));
    verb(&["topics", "alter", "t", "--unprotect", "slow"]);
    assert!(!verb(&["topics", "describe", "t"]).contains("slow"));
    run_on(folder.path(), &["produce", "t", &noise(2000)]).failed_with("1000");
    run_on(folder.path(), &["topics", "alter", "t"]).failed_with("nothing to change");
    for value in ["a", "b", "c"] {
        verb(&["produce", "t", value, "--key", "k"]);
    }
    assert_eq!(verb(&["consume", "t", "--values"]), "a\nb\nc\n");
    let offsets = |arguments: &[&str]| {
        let printed = verb(&[&["groups", "reset", "g", "t", "--json"][..], arguments].concat());
        let offset =
            |line: &str| serde_json::from_str::<Value>(line).expect(line)["offset"].as_u64().expect("an offset");
        let mut offsets: Vec<u64> = printed.lines().map(offset).collect();
        offsets.sort_unstable();
        offsets
    };
    assert_eq!(offsets(&["--to-end"]), [0, 0, 3]);
    assert_eq!(offsets(&["--to-start"]), [0, 0, 0]);
    assert_eq!(offsets(&["--to-time", "99000000000000"]), [0, 0, 3]);
    assert_eq!(offsets(&["--to-time", "0"]), [0, 0, 0]);
    let partition = verb(&["consume", "t"]).split(':').next().expect("a partition").to_owned();
    assert!(offsets(&["--to-offset", "2", "--partition", &partition]).contains(&2));
    run_on(folder.path(), &["groups", "reset", "g", "t", "--to-end", "--partition", "7"]).failed_with("3 partitions");
    run_on(folder.path(), &["groups", "reset", "g", "t", "--to-offset", "1"]).failed_with("--partition");
    verb(&["groups", "reset", "g", "t", "--to-offset", "1", "--partition", &partition]);
    let delete = quire::streams::Command::DeleteRecords {
        topic: quire::streams::TopicRef::Name("t"),
        partition: partition.parse().expect("a number"),
        before: None,
        keep_unread: false,
    };
    let database = quire::Database::open(folder.path()).expect("opened");
    let deleted = database.commit(&quire::Commit::new().part(quire::Part::Streams(delete)));
    deleted.expect("no error").committed().expect("accepted");
    drop(database);
    let described = verb(&["groups", "describe", "g"]);
    let lost: Vec<_> =
        described.lines().filter(|line| line.ends_with("deleted before it was read          2")).collect();
    assert_eq!((lost.len(), described.lines().count()), (1, 3), "{described}");
    verb(&["topics", "delete", "t"]);
    assert_eq!(verb(&["topics", "list"]), "");
    assert_eq!(verb(&["groups", "describe", "g"]), "");
    verb(&["events", "append", "air/flights", "--type", "Departed"]);
    for (to, offset) in [(&["--to-end"][..], "offset          2"), (&["--to-offset", "1"], "offset          1")] {
        let set = verb(&[&["groups", "reset", "g", "air/flights", "--store"], to].concat());
        assert!(set.starts_with("air/flights ") && set.contains(offset), "{set}");
    }
    verb(&["jobs", "enqueue", "mail", "{}"]);
    for (to, offset) in [
        (&["--to-end"][..], "offset          2"),
        (&["--to-start"], "offset          0"),
        (&["--to-offset", "2"], "offset          2"),
    ] {
        let set = verb(&[&["groups", "reset", "g", "mail", "--queue"], to].concat());
        assert!(set.starts_with("mail ") && set.contains(offset), "{set}");
    }
    assert!(verb(&["groups", "describe", "g"]).contains("lag          1"));
    assert_eq!(verb(&["groups", "delete", "g"]), "deleted g\n");
    assert!(!verb(&["groups", "list"]).contains("g "));
}

/// Letters that no codec compresses.
fn noise(count: u64) -> String {
    let letter = |n: u64| char::from(b'a' + (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 59) as u8 % 26);
    (0..count).map(|n| letter(n * n + 7 * n)).collect()
}

#[test]
fn new_messages_are_consumed_as_they_arrive() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let http = ["--http", &server.http];
    let produce = |value: &str| run(&[&["produce", "t", value][..], &http].concat()).succeeded();
    produce("one");
    let tail = Running::start(&[&["consume", "t", "--values", "--follow", "--limit", "3"][..], &http].concat());
    assert_eq!(tail.line(), "one");
    produce("two");
    assert_eq!(tail.line(), "two");
    produce("three");
    assert_eq!(tail.line(), "three");
    assert_eq!(tail.ends(), Some(0));
}

#[test]
fn a_queue_is_paused_drained_limited_cleared_and_destroyed() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let quire = |arguments: &[&str]| run(&[&["jobs"][..], arguments, &["--http", &server.http]].concat());
    let queues = |arguments: &[&str]| quire(&[&["queues"][..], arguments].concat()).succeeded();
    let worked = || quire(&["work", "q", "--until-empty", "--exec", "true"]).succeeded().lines().count();
    for payload in ["a", "b"] {
        quire(&["enqueue", "q", payload]).succeeded();
    }
    assert!(queues(&["pause", "q"]).contains("pending 2") && queues(&[]).contains("  paused"));
    assert_eq!(worked(), 0);
    assert!(queues(&["drain", "q"]).contains("draining  paused"));
    quire(&["enqueue", "q", "c"]).failed_with("draining");
    let resumed = queues(&["resume", "q"]);
    assert!(!resumed.contains("paused") && !resumed.contains("draining"), "{resumed}");
    let limits = ["--jobs-max", "3", "--active-max", "2", "--group-active-max", "1"];
    let rates = ["--rate", "1/60000", "--group-rate", "5/1000/9", "--retention-ms", "86400000"];
    let limited = queues(&[&["limit", "q"][..], &limits, &rates].concat());
    for limit in [
        "jobs_max 3",
        "active_max 2",
        "group_active_max 1",
        "retention_ms 86400000",
        r#"rate {"sliding_window":{"count":1,"window_ms":60000}}"#,
        r#"group_rate {"token_bucket":{"burst":9,"count":5,"per_ms":1000}}"#,
    ] {
        assert!(limited.contains(limit), "{limit} in {limited}");
    }
    quire(&["enqueue", "q", "c"]).succeeded();
    quire(&["enqueue", "q", "d"]).failed_with("the limit is 3");
    assert_eq!(worked(), 1);
    let unlimited = queues(&["limit", "q", "--jobs-max", "none", "--rate", "none", "--group-rate", "none"]);
    assert!(!unlimited.contains("jobs_max") && !unlimited.contains("rate"), "{unlimited}");
    quire(&["queues", "limit", "q"]).failed_with("no limit given");
    let unknown = quire(&["queues", "limit", "q", "--rate", "1"]);
    assert!(unknown.status == Some(2) && unknown.stderr.contains("COUNT/MS"), "{unknown:?}");
    assert_eq!(queues(&["clear", "q"]), "2 jobs cancelled\n");
    quire(&["enqueue", "q", "e"]).succeeded();
    assert_eq!(queues(&["destroy", "q"]), "1 job cancelled\n");
    assert_eq!(queues(&[]), "");
    quire(&["queues", "clear", "q"]).failed_with("unknown queue");
}

#[test]
fn a_command_is_killed_with_all_that_it_started_when_its_job_is_cancelled() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let quire = |arguments: &[&str]| run(&[&["jobs"][..], arguments, &["--http", &server.http]].concat()).succeeded();
    let job = quire(&["enqueue", "q", "hello"]).trim().to_owned();
    let arguments = ["jobs", "work", "q", "--exec", "sleep 600; echo", "--lease-ms", "300", "--http", &server.http];
    let worker = Running::start(&arguments);
    let tail = Running::start(&["jobs", "tail", "--event", "leased", "--after", "start", "--http", &server.http]);
    assert!(tail.line().contains(&job));
    quire(&["cancel", &job]);
    let line = worker.line();
    assert!(line.contains(&job) && line.contains("killed"), "{line}");
}

#[test]
fn a_command_is_killed_with_all_that_it_started_when_its_worker_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(&folder.path().join("data"));
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo is there").success());
    run(&["jobs", "enqueue", "q", "hello", "--http", &server.http]).succeeded();
    // The command and its child hold the pipe open as long as they run.
    let exec = format!("exec 3>{}; (cat; echo) >&3; (sleep 60; echo survived >&3) & wait", fifo.display());
    let worker = Running::start(&["jobs", "work", "q", "--exec", &exec, "--http", &server.http]);
    let mut pipe = BufReader::new(File::open(&fifo).expect("the command opens it"));
    let mut line = String::new();
    pipe.read_line(&mut line).expect("read");
    assert_eq!(line, "hello\n", "the payload is the input");
    drop(worker);
    let mut rest = String::new();
    pipe.read_to_string(&mut rest).expect("read");
    assert_eq!(rest, "");
}

#[test]
fn a_job_whose_command_cannot_be_started_fails_and_the_worker_continues() {
    let directory = earlier();
    let quire = |arguments: &[&str]| run_on(directory.path(), &[&["jobs"][..], arguments].concat()).succeeded();
    quire(&["enqueue", "mail/out", "another"]);
    let worked = quire(&["work", "mail/out", "--until-empty", "--exec", "true"]);
    assert!(worked.contains("5-1  not started: "), "{worked}");
    assert!(worked.contains("exit status: 0"), "the worker continues with the next job: {worked}");
    let shown = quire(&["show", "5-1"]);
    assert!(shown.contains("retrying") && shown.contains("can't start the command"), "{shown}");
    assert!(shown.contains("a\\u{0}b"), "{shown}");
}

#[test]
fn names_in_lists_begin_no_line() {
    let directory = earlier();
    let quire = |arguments: &[&str]| run_on(directory.path(), arguments).succeeded();
    let groups = quire(&["groups", "list"]);
    assert!(groups.contains("a\\nb "), "{groups}");
    assert_eq!(groups.lines().count(), 2, "{groups}");
    let events = quire(&["events", "read", "pay.orders"]);
    assert!(events.contains("Paid\\nforged") && events.contains("user:\\u{7}"), "{events}");
    assert_eq!(events.lines().count(), 1, "{events}");
}

#[test]
fn a_command_without_an_address_asks_the_server_of_the_variable() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let with = |address: &str, arguments: &[&str]| {
        ran(quire().env("QUIRE_HTTP", address).args(arguments).output().expect("started"))
    };
    let url = format!("http://{}", server.http);
    with(&url, &["produce", "t", "first"]).succeeded();
    assert!(with(&url, &["consume", "t"]).succeeded().contains("first"));
    // A flag wins.
    assert!(with("http://127.0.0.1:1", &["consume", "t", "--http", &url]).succeeded().contains("first"));
    with("no address", &["consume", "t"])
        .failed_with("QUIRE_HTTP is \"no address\", which is not the address of a server");
    let without = with("", &["consume", "t"]);
    assert_eq!(without.status, Some(2), "{without:?}");
    assert!(without.stderr.contains("set QUIRE_HTTP to the URL of a server"), "{without:?}");
}
