//! The tools that work while the database is in use.

use serde_json::Value;

use crate::support::{Server, quire, run};

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
fn salvage_copies_whole_records_and_lists_the_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let server = Server::start(&folder.path().join("data"));
    for _ in 0..5 {
        server.ask("POST", "/v1/commit", COMMIT);
    }
    assert_eq!(server.stop_by("INT").0, Some(0));
    let whole = run(&["salvage", &path("data"), &path("whole")]).succeeded();
    assert!(whole.contains("salvaged and verified: 5 records up to record 5"), "{whole}");
    let segment = folder.path().join("data/shard-0000/00000000000000000001.log");
    let mut bytes = std::fs::read(&segment).expect("read");
    let second = 64 + u32::from_le_bytes(bytes[68..72].try_into().expect("four bytes")) as usize;
    bytes[second + 45] ^= 1;
    std::fs::write(&segment, bytes).expect("written");
    run(&["events", "read", "s", "--data", &path("data")]).failed_with("quire salvage");
    let salvaged = run(&["salvage", &path("data"), &path("new"), "--json"]);
    assert_eq!(salvaged.status, Some(3), "{salvaged:?}");
    let told = lines(&salvaged.stdout);
    assert_eq!((&told[0]["first"], &told[0]["last"], &told[0]["offset"]), (&2.into(), &2.into(), &second.into()));
    assert_eq!((&told[1]["records"], &told[1]["position"], &told[1]["state_from"]), (&4.into(), &5.into(), &5.into()));
    let text = run(&["salvage", &path("data"), &path("again")]);
    assert!(text.stdout.contains("00000000000000000001.log byte") && text.stdout.contains(", record 2: "), "{text:?}");
    let read = run(&["events", "read", "s", "--data", &path("new"), "--json"]).succeeded();
    let positions: Vec<_> = lines(&read).iter().map(|event| event["position"].as_u64().expect("a position")).collect();
    assert_eq!(positions, [1, 2, 5, 6, 7, 8, 9, 10], "{read}");
    run(&["verify", &path("new")]).succeeded();
    run(&["salvage", &path("data"), &path("new")]).failed_with("not empty");
}

#[test]
fn a_server_warns_once_of_a_directory_that_others_can_open() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    std::fs::create_dir(&data).expect("made");
    for (mode, warnings) in [(0o755, 1), (0o700, 0)] {
        std::fs::set_permissions(&data, std::fs::Permissions::from_mode(mode)).expect("set");
        let mut serve = quire();
        serve.args(["serve", "--durability", "os", "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
        let mut server = serve.args(["--grpc", "127.0.0.1:0", "--data"]).arg(&data);
        server = server.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut child = server.spawn().expect("started");
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().expect("piped")));
        while !lines.next().expect("it serves").expect("text").starts_with("serving") {}
        let id = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(id, rustix::process::Signal::INT).expect("it runs");
        lines.for_each(drop);
        let stderr = child.wait_with_output().expect("it ends").stderr;
        let stderr = String::from_utf8(stderr).expect("text");
        let told = stderr.lines().filter(|line| line.contains(&format!("mode {mode:o}"))).count();
        assert_eq!(told, warnings, "{stderr}");
    }
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
    // Repeats until a commit falls between two reads.
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

/// A queue with pending and finished jobs, a topic with messages, and a group that is behind.
const OBJECTS: &str = r#"{"parts": [
    {"enqueue": {"queue": "mails", "payload_text": "1"}},
    {"enqueue": {"queue": "mails", "payload_text": "2"}},
    {"produce": {"topic": "departures", "partition": 0, "value": "x"}},
    {"commit_offset": {"group": "billing\u061c", "topic": "departures", "partition": 0, "offset": 0}}
]}"#;

#[test]
fn stat_of_a_server_has_counts_latencies_queues_topics_and_groups() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    assert_eq!(server.ask("POST", "/v1/commit", OBJECTS).0, 200);
    server.ask("POST", "/v1/commit", COMMIT);
    server.ask("POST", "/v1/commit", REFUSED);
    let url = format!("http://{}", server.http);
    let stat = lines(&run(&["stat", "--json", "--http", &url]).succeeded()).remove(0);
    let counts = ["appends", "refusals", "position"].map(|name| stat[name].as_u64().expect("a count"));
    assert_eq!(counts, [2, 1, 2], "{stat}");
    assert_eq!(stat["server"], url);
    assert!(stat["commit"]["timed"].as_u64() > Some(0) && stat["http"]["timed"].as_u64() >= Some(3), "{stat}");
    assert_eq!((&stat["queues"][0]["queue"], &stat["queues"][0]["pending"]), (&"mails".into(), &2.into()));
    assert!(stat["queues"][0]["oldest_pending_ms"].is_u64(), "{stat}");
    assert_eq!((&stat["topics"][0]["topic"], &stat["topics"][0]["messages"]), (&"departures".into(), &1.into()));
    assert_eq!((&stat["groups"][0]["lag"], &stat["groups_in_all"]), (&1.into(), &1.into()));
    let text = run(&["stat", "--http", &url]).succeeded();
    for words in [&["commits", "2"][..], &["departures", "1"], &["billing\\u{61c}", "1", "0"]] {
        assert!(text.lines().any(|line| line.split_whitespace().eq(words.iter().copied())), "{words:?} in {text}");
    }
    assert!(text.lines().any(|line| line.contains("mails") && line.contains(" 2 ")), "{text}");
    assert_eq!(server.stop_by("INT").0, Some(0));
    run(&["stat", "--http", &url]).failed_with("can't ask the server");
}

#[test]
fn top_of_a_server_has_rates_and_objects_line_by_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    assert_eq!(server.ask("POST", "/v1/commit", OBJECTS).0, 200);
    let url = format!("http://{}", server.http);
    // Repeats until a commit falls between two reads.
    let seen = std::thread::scope(|scope| {
        let top = ["top", "--http", &url, "--json", "--interval-ms", "5", "--count", "40"];
        let top = scope.spawn(move || lines(&run(&top).succeeded()));
        while !top.is_finished() {
            server.ask("POST", "/v1/commit", OBJECTS);
        }
        top.join().expect("it ends")
    });
    assert_eq!(seen.len(), 40);
    let is_busy = |look: &Value| {
        look["commits_per_s"].as_f64() > Some(0.0) && look["topics"][0]["messages_per_s"].as_f64() > Some(0.0)
    };
    assert!(seen.iter().any(is_busy), "{seen:?}");
    assert!(seen[39]["queues"][0]["pending"].as_u64() > Some(2), "{}", seen[39]);
    let text = run(&["top", "--http", &url, "--interval-ms", "1", "--count", "1"]).succeeded();
    assert!(text.starts_with(&url) && !text.contains('\x1b'), "{text}");
    for word in ["commits", "p99 up to", "HTTP", "mails", "departures", "billing\\u{61c}"] {
        assert!(text.contains(word), "{word} in {text}");
    }
}

#[test]
fn stat_and_top_show_the_lag_of_groups_with_and_without_a_running_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let server = Server::start(&data);
    let path = data.to_str().expect("text");
    let stat = || lines(&run(&["stat", "--json", path]).succeeded()).remove(0);
    let has_groups = |text: &str| text.contains("as of record");
    assert!(!has_groups(&run(&["stat", path]).succeeded()), "there is none");
    let produce = r#"{"produce": {"topic": "t", "partition": 0, "value": "x"}}"#;
    let offset = |group: &str, offset: u64| {
        format!(r#"{{"commit_offset": {{"group": {group}, "topic": "t", "partition": 0, "offset": {offset}}}}}"#)
    };
    let commit = |parts: &[String]| {
        let (status, answer) = server.ask("POST", "/v1/commit", &format!(r#"{{"parts": [{}]}}"#, parts.join(",")));
        assert_eq!(status, 200, "{answer}");
    };
    commit(&vec![produce.to_owned(); 1_500]);
    let long = format!("\"{}\"", "long ".repeat(40));
    let mut parts = vec![offset("\"billing\"", 200), offset("\"a\\u061cb\"", 1_499), offset(&long, 1_498)];
    parts.extend((0..100).map(|number| offset(&format!("\"idle {number}\""), 1_500)));
    commit(&parts);
    // Within about a second.
    let live = loop {
        let live = stat();
        if live["groups_in_all"] == 103 {
            break live;
        }
    };
    let groups = live["groups"].as_array().expect("a list");
    assert_eq!(groups.len(), 95);
    assert_eq!(groups[0], serde_json::json!({ "group": "billing", "lag": 1_300 }));
    assert_eq!((&groups[1]["lag"], &groups[1]["is_cut"]), (&2.into(), &true.into()), "{live}");
    let metrics = server.ask("GET", "/v1/stats", "").1;
    let told = metrics["groups"].as_array().expect("a list").iter().find(|group| group["group"] == "billing");
    assert_eq!(told.expect("there")["lag"], 1_300, "{metrics}");
    let top = run(&["top", path, "--interval-ms", "1", "--count", "1"]).succeeded();
    assert!(top.contains("lag        billing 1,300, long long"), "{top}");
    assert!(top.trim_end().ends_with("idle 1 0; 103 groups in total"), "{top}");
    let top = lines(&run(&["top", path, "--json", "--interval-ms", "1", "--count", "1"]).succeeded()).remove(0);
    assert_eq!(top["groups"], live["groups"]);
    commit(&[offset("\"billing\"", 1_500)]);
    assert_eq!(server.stop_by("INT").0, Some(0));
    let after = stat();
    assert_eq!((&after["groups"][0]["lag"], &after["groups_position"]), (&2.into(), &3.into()), "{after}");
    assert!(after["groups_told_ms"].as_u64() >= live["groups_told_ms"].as_u64());
    let text = run(&["stat", path]).succeeded();
    assert!(has_groups(&text) && text.ends_with("and 8 others\n"), "{text}");
    assert!(text.lines().any(|line| line.split_whitespace().eq(["a\\u{61c}b", "1"])), "{text}");
    assert!(text.lines().any(|line| line.contains("long long…") || line.contains("lo… ")), "{text}");
}

/// A database with `commits` commits that a server made and closed.
fn made(data: &std::path::Path, commits: usize) {
    let server = Server::start(data);
    for _ in 0..commits {
        server.ask("POST", "/v1/commit", COMMIT);
    }
    assert_eq!(server.stop_by("INT").0, Some(0));
}

#[test]
fn each_tool_takes_a_directory_and_names_the_alternative_for_a_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let data = path("data");
    made(&folder.path().join("data"), 2);
    for (by_name, alone) in [
        (&["verify", "--data", &data][..], &["verify", &data][..]),
        (&["inspect", "--data", &data], &["inspect", &data]),
        (&["inspect", "--data", &data, "--from", "1"], &["inspect", &data, "--from", "1"]),
        (&["repair", "--data", &data], &["repair", &data]),
        (&["stat", "--data", &data, "--json"], &["stat", "--json", &data]),
    ] {
        assert_eq!(run(by_name).succeeded(), run(alone).succeeded(), "{by_name:?}");
    }
    let top = ["top", "--data", &data, "--json", "--interval-ms", "1", "--count", "1"];
    assert_eq!(lines(&run(&top).succeeded()).len(), 1);
    run(&["backup", "--data", &data, &path("backup")]).succeeded();
    run(&["backup", &path("second"), "--data", &data, "--before", &path("backup")]).succeeded();
    run(&["restore", &path("backup"), "--data", &path("restored")]).succeeded();
    run(&["salvage", &path("salvaged"), "--data", &data]).succeeded();
    let whole = run(&["verify", "--data", &path("restored")]).succeeded();
    assert!(whole.contains("2 records"), "{whole}");

    let http = ["--http", "http://127.0.0.1:1"];
    for (command, instead) in [
        (&["verify"][..], "run `quire verify --data DIR`"),
        (&["inspect"], "run `quire inspect --data DIR`"),
        (&["repair"], "stop the server and run `quire repair --data DIR`"),
        (&["salvage", "to"], "run `quire salvage --data DIR NEW`"),
        (&["restore", "from"], "run `quire restore BACKUP --data NEW`"),
    ] {
        run(&[command, &http[..]].concat()).failed_with(instead);
    }
}

#[test]
fn the_exit_status_of_verify_shows_whether_a_database_is_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    made(&data, 3);
    let path = data.to_str().expect("text");
    let whole = run(&["verify", path]).succeeded();
    assert!(whole.contains("3 records, 7 entries") && whole.trim_end().ends_with("whole"), "{whole}");
    let segment = data.join("shard-0000/00000000000000000001.log");
    let mut bytes = std::fs::read(&segment).expect("a segment");
    bytes[64 + 50] ^= 1;
    std::fs::write(&segment, bytes).expect("written");
    let damaged = run(&["verify", path]);
    assert_eq!(damaged.status, Some(3), "{damaged:?}");
    assert!(damaged.stdout.starts_with("lost: ") && damaged.stdout.contains("byte 64, record 1"), "{damaged:?}");
    let found = lines(&run(&["verify", "--json", path]).stdout);
    assert_eq!(
        (&found[0]["severity"], &found[0]["offset"], &found[0]["position"]),
        (&"lost".into(), &64.into(), &1.into())
    );
    assert_eq!(found.last().expect("a sum")["verdict"], "damaged");
    run(&["verify", folder.path().to_str().expect("text")]).failed_with("is not a Quire database");
}

#[test]
fn inspect_shows_a_directory_a_range_and_each_kind_of_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    made(&data, 3);
    let path = data.to_str().expect("text");
    let overview = lines(&run(&["inspect", path, "--json"]).succeeded());
    assert_eq!((&overview[0]["tail"], &overview[0]["durable"]), (&3.into(), &3.into()), "{overview:?}");
    let of_kind = |kind: &str| overview.iter().find(|file| file["kind"] == kind).unwrap_or_else(|| panic!("{kind}"));
    let segment = of_kind("segment");
    assert_eq!((&segment["first"], &segment["last"], &segment["entries"]), (&1.into(), &3.into(), &7.into()));
    assert_eq!(of_kind("checkpoint")["position"], 3);
    let range = lines(&run(&["inspect", path, "--from", "2", "--limit", "1", "--json"]).succeeded());
    assert_eq!((range.len(), &range[0]["position"]), (1, &2.into()));
    let entry = &range[0]["entries"][0];
    assert_eq!(
        (&entry["model"], &entry["kind"], &entry["sequence"]),
        (&"events".into(), &"event appended".into(), &3.into())
    );
    assert_eq!(entry["tags"], serde_json::json!(["store 0", "type store=0 \"Happened\""]), "{entry}");
    let file = |name: &str| data.join("shard-0000").join(name).to_str().expect("text").to_owned();
    let records = run(&["inspect", &file("00000000000000000001.log"), "--entries"]).succeeded();
    assert_eq!(records.matches("events: event appended").count(), 6, "{records}");
    let checkpoint = run(&["inspect", &file("00000000000000000003.checkpoint")]).succeeded();
    assert!(checkpoint.contains("after record 3") && checkpoint.contains("graph"), "{checkpoint}");
    let control = lines(&run(&["inspect", &file("control"), "--json"]).succeeded());
    assert!(control.iter().any(|word| word["word"] == 8 && word["number"] == 3), "{control:?}");
    // A time in microseconds has more than 48 bits.
    let statistics = lines(&run(&["inspect", &file("statistics"), "--json"]).succeeded());
    let since = statistics.iter().find(|word| word["word"] == 5).expect("since when is counted");
    let hex = u64::from_str_radix(since["hex"].as_str().expect("a word"), 16).expect("hexadecimal");
    assert!(hex >= 1 << 48);
    assert_eq!(since["number"].as_u64(), Some(hex));
    run(&["inspect", &data.join("quire.meta").to_string_lossy()]).failed_with("quire inspect reads");
}

#[test]
fn inspect_shows_the_index_of_a_sealed_segment() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let database = quire::Database::builder(&data).profile(quire::Profile::SmallDisk).segment_bytes(64 << 10);
    let database = database.background(quire::Background::Caller).open().expect("made");
    let value = [b'v'; 1_000];
    for _ in 0..100 {
        database.topic("topic").produce(quire::Message::new(&value[..])).expect("produced");
    }
    database.sync().expect("synced");
    while database.carry_out(quire::Duty::Seal).expect("sealed") {}
    drop(database);
    let path = data.join("shard-0000/00000000000000000001.idx");
    let path = path.to_str().expect("text");
    let index = lines(&run(&["inspect", path, "--json"]).succeeded()).remove(0);
    let (records, numbered) = (index["records"].as_u64().expect("a count"), &index["numbered"][0]);
    assert_eq!((index["first"].as_u64(), index["last"].as_u64()), (Some(1), Some(records)), "{index}");
    assert_eq!((numbered["first"].as_u64(), numbered["next"].as_u64()), (Some(0), Some(records)), "{index}");
    let text = run(&["inspect", path]).succeeded();
    assert!(text.contains("numbers from 0, before"), "{text}");
    let mut bytes = std::fs::read(path).expect("readable");
    *bytes.last_mut().expect("a byte") ^= 1;
    std::fs::write(path, bytes).expect("written");
    run(&["inspect", path]).failed_with("its checksum is wrong");
}

#[test]
fn a_repair_prints_its_plan_and_carries_it_out_with_yes() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    made(&data, 3);
    let path = data.to_str().expect("text");
    assert!(run(&["repair", path]).succeeded().contains("nothing to repair"));
    std::fs::write(data.join("quire.meta"), b"not a meta file at all, but long enough").expect("written");
    let said = run(&["repair", path]);
    assert_eq!(said.status, Some(3), "{said:?}");
    assert!(said.stdout.contains("would: write quire.meta again"), "{said:?}");
    assert!(run(&["repair", path, "--yes"]).succeeded().ends_with("repaired\n"));
    assert!(run(&["verify", path]).succeeded().trim_end().ends_with("whole"));
}

#[test]
fn a_backup_is_downloaded_from_a_server_by_the_command_and_by_tar() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    made(&folder.path().join("data"), 2);
    let server = Server::start(&folder.path().join("data"));
    let url = format!("http://{}", server.http);
    let taken = run(&["backup", "--http", &url, &path("taken")]).succeeded();
    assert!(taken.starts_with("backed up to record 2: "), "{taken}");
    run(&["backup", "--http", &url, &path("taken")]).failed_with("is not empty");
    assert_eq!(run(&["backup", "--http", &url, &path("x"), "--before", &path("taken")]).status, Some(2));
    let restored = run(&["restore", &path("taken"), "--data", &path("restored")]).succeeded();
    assert_eq!(restored, "restored and verified: 2 records up to record 2\n");

    let mut archive = Vec::new();
    let mut stream = std::net::TcpStream::connect(&server.http).expect("it listens");
    let head = format!("GET /v1/backup HTTP/1.0\r\nHost: {}\r\n\r\n", server.http);
    std::io::Write::write_all(&mut stream, head.as_bytes()).expect("it reads");
    std::io::Read::read_to_end(&mut stream, &mut archive).expect("it answers");
    let end = archive.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head") + 4;
    std::fs::write(path("archive"), &archive[end..]).expect("written");
    std::fs::create_dir(path("unpacked")).expect("made");
    let tar = std::process::Command::new("tar").args(["-x", "-C", &path("unpacked"), "-f", &path("archive")]).status();
    assert!(tar.expect("tar is there").success());
    run(&["restore", &path("unpacked"), "--data", &path("from-tar")]).succeeded();
    assert_eq!(server.stop_by("INT").0, Some(0));
    let events = |data: &str| crate::support::run_on(std::path::Path::new(data), &["events", "read", "s"]).succeeded();
    for copy in ["restored", "from-tar"] {
        assert_eq!(events(&path(copy)), events(&path("data")));
    }
    run(&["backup", "--http", &url, &path("none")]).failed_with("can't ask the server");
}

#[test]
fn a_running_server_is_backed_up_and_restored_elsewhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let data = folder.path().join("data");
    made(&data, 2);
    let server = Server::start(&data);
    let first = run(&["backup", &path("data"), &path("first")]).succeeded();
    assert!(first.starts_with("backed up to record 2: "), "{first}");
    run(&["backup", &path("data"), &path("second"), "--before", &path("first")]).succeeded();
    run(&["backup", &path("data"), &path("second")]).failed_with("is not empty");
    let restored = run(&["restore", &path("second"), &path("restored")]).succeeded();
    assert_eq!(restored, "restored and verified: 2 records up to record 2\n");
    run(&["verify", &path("second")]).failed_with("is a backup of");
    run(&["restore", &path("data"), &path("other")]).failed_with("it is a database; `quire backup`");
    run(&["stat", &path("data/quire.meta")]).failed_with("it is a file; name the directory of a database");
    run(&["verify", &path("data/quire.meta")]).failed_with("it is a file; name the directory of a database");
    let of_a_file = run(&["topics", "list", "--data", &path("data/quire.meta")]);
    assert!(!of_a_file.stderr.contains("makes one there"), "{of_a_file:?}");
    of_a_file.failed_with("it is a file; name the directory of a database");
    run(&["repair", &path("second"), "--yes"]).failed_with("`quire restore` makes a database of it");
    assert_eq!(server.stop_by("INT").0, Some(0));
    let events = |data: &str| crate::support::run_on(std::path::Path::new(data), &["events", "read", "s"]).succeeded();
    assert_eq!(events(&path("restored")), events(&path("data")));
}
