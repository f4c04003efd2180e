//! The log of a server on standard error: one line for each change of its state, and no line that a
//! name could forge.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use quire_grpc::proto::events_client::EventsClient;
use quire_grpc::proto::jobs_client::JobsClient;
use quire_grpc::proto::{QueuesRequest, SubscribeEventsRequest};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Server, quire, run, run_on};

const COMMIT: &str = r#"{"parts": [{"append": {"store": "s", "events": [{"type": "Happened"}]}}]}"#;

/// A server with a log in a file.
struct Logged {
    folder: TempDir,
    server: Option<Server>,
}

impl Logged {
    #[track_caller]
    fn start(flags: &[&str]) -> Self {
        let mut logged = Logged { folder: tempfile::tempdir().expect("a folder"), server: None };
        logged.restart(flags);
        logged
    }

    #[track_caller]
    fn restart(&mut self, flags: &[&str]) {
        let mut command = self.command();
        self.server = Some(Server::logging(command.args(flags), &self.log()));
    }

    fn command(&self) -> Command {
        let mut command = quire();
        command.env_remove("QUIRE_LOG").arg("serve").arg("--data").arg(self.data());
        command
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn server(&self) -> &Server {
        self.server.as_ref().expect("it runs")
    }

    /// Makes a request that succeeds.
    #[track_caller]
    fn write(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.server().ask("POST", path, &body.to_string());
        assert_eq!(status, 200, "{answer}");
        answer
    }

    #[track_caller]
    fn part(&self, part: Value) {
        self.write("/v1/commit", &json!({ "parts": [part] }));
    }

    /// Waits until the log has a line with this text.
    fn wait_for(&self, text: &str) {
        while !read(&self.log()).contains(text) {
            std::thread::yield_now();
        }
    }

    /// Stops the server, and returns its log.
    #[track_caller]
    fn stopped_by(&mut self, signal: &str) -> String {
        self.server.take().expect("it runs").stop_by(signal);
        read(&self.log())
    }
}

fn read(log: &Path) -> String {
    fs::read_to_string(log).expect("a log")
}

/// Checks that each text is in exactly one line.
#[track_caller]
fn each_once(log: &str, texts: &[&str]) {
    for text in texts {
        assert_eq!(log.lines().filter(|line| line.contains(text)).count(), 1, "{text} in\n{log}");
    }
}

#[test]
fn start_recovery_listeners_and_stop_have_one_line_each() {
    let mut logged = Logged::start(&["--durability", "os"]);
    logged.write("/v1/commit", &serde_json::from_str(COMMIT).expect("JSON"));
    let server = logged.server();
    let listening = [("kafka", &server.kafka), ("http", &server.http), ("grpc", &server.grpc)]
        .map(|(front_end, address)| format!(" INFO server: listening front_end={front_end} address={address}"));
    let log = logged.stopped_by("INT");
    let version = concat!(" INFO server: starting version=", env!("CARGO_PKG_VERSION"), " commit=");
    each_once(&log, &[version, " INFO server: recovered 0 records in 0 segments, in "]);
    each_once(&log, &listening.each_ref().map(String::as_str));
    each_once(&log, &[" INFO server: stopping reason=SIGINT", " INFO server: stopped commits=1"]);
    assert!(!log.contains("after the last checkpoint"), "{log}");

    logged.restart(&[]);
    assert!(!logged.stopped_by("TERM").contains("after the last checkpoint"));
    logged.restart(&[]);
    logged.write("/v1/commit", &serde_json::from_str(COMMIT).expect("JSON"));
    assert!(!logged.stopped_by("KILL").contains("stopp"));
    logged.restart(&[]);
    let log = logged.stopped_by("TERM");
    each_once(
        &log,
        &["recovered 2 records in 1 segment, 1 of them after the last checkpoint, in ", "stopping reason=SIGTERM"],
    );
}

#[test]
fn an_address_that_other_machines_reach_is_a_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let mut command = quire();
    let server = Server::logging_at(
        "0.0.0.0:0",
        command.args(["serve", "--insecure-listen", "--data"]).arg(folder.path().join("data")),
        &log,
    );
    server.stop_by("TERM");
    each_once(
        &read(&log),
        &[" WARN server: listening without authentication; other machines can reach it front_end=kafka"],
    );
}

#[test]
fn a_level_and_a_target_choose_the_lines_and_the_flag_wins() {
    let folder = tempfile::tempdir().expect("a folder");
    let log_of = |number: &str, environment: &str, flags: &[&str]| {
        let log = folder.path().join(number);
        let mut command = quire();
        command.env("QUIRE_LOG", environment).arg("serve").arg("--data").arg(folder.path().join("data"));
        Server::logging(command.args(flags), &log).stop_by("TERM");
        read(&log)
    };
    assert_eq!(log_of("1", "off", &[]), "");
    assert_eq!(log_of("2", "info", &["--log", "warn"]), "");
    let log = log_of("3", "warn,server=info", &[]);
    assert!(log.contains(" INFO server: stopped"), "{log}");
    for (flag, message) in [("loud", "unknown level \"loud\""), ("htp=debug", "unknown target \"htp\"")] {
        let ran = run(&["serve", "--data", "nowhere", "--log", flag]);
        assert!(ran.status == Some(2) && ran.stderr.contains(message), "{ran:?}");
    }
}

#[test]
fn a_log_in_json_has_one_object_for_each_line() {
    let mut logged = Logged::start(&["--log-format", "json"]);
    let log = logged.stopped_by("TERM");
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let find = |message: &str| lines.iter().find(|line| line["message"] == message).expect("a line");
    let (starting, stopping) = (find("starting"), find("stopping"));
    assert_eq!((&starting["level"], &starting["target"]), (&json!("info"), &json!("server")));
    assert!(starting["pid"].is_u64() && starting["time"].as_str().is_some_and(|time| time.ends_with('Z')));
    assert_eq!(stopping["reason"], "SIGTERM");
}

fn without_positions(log: &str) -> String {
    let is_kept = |word: &&str| !word.starts_with("position=");
    let line = |line: &str| line.split(' ').filter(is_kept).collect::<Vec<_>>().join(" ") + "\n";
    log.lines().map(line).collect()
}

#[test]
fn administrative_acts_have_one_line_each_and_no_payload() {
    let mut logged = Logged::start(&["--durability", "os"]);
    logged.part(json!({"create_topic": {"name": "t", "partitions": 1}}));
    logged.part(json!({"alter_topic": {"topic": "t", "settings": {"retention_ms": 1_000_000}}}));
    logged.part(json!({"enqueue": {"queue": "q", "payload": "a secret"}}));
    logged.write("/v1/queues/q/settings", &json!({"paused": true}));
    logged.write("/v1/queues/q/clear", &json!({}));
    let (status, answer) = logged.server().ask("DELETE", "/v1/queues/q", "");
    assert_eq!(status, 200, "{answer}");
    logged.part(json!({"append": {"store": "s", "events": [{"type": "T", "tags": ["person:secret"]}]}}));
    logged.part(json!({"forget_tag": {"store": "s", "tag": "person:secret"}}));
    logged.part(json!({"retain_events": {"store": "s", "retention_ms": 1_000}}));
    logged.part(json!({"retain_graph": {"graph": "g", "history_ms": 1_000}}));
    logged.write("/v1/compact", &json!({}));
    // DeleteTopics, version 1, number 1, no name: one topic, and a timeout.
    let deleted = logged.server().ask_kafka(b"\0\x14\0\x01\0\0\0\x01\0\0\0\0\0\x01\0\x01t\0\0\x03\xe8");
    assert_eq!(deleted[deleted.len() - 2..], [0, 0], "no error: {deleted:?}");
    // The database commits in the background, too, so positions are not known.
    let log = without_positions(&logged.stopped_by("TERM"));
    each_once(
        &log,
        &[
            "admin: created a topic topic=t partitions=1",
            "admin: changed the settings of a topic topic=t",
            "admin: changed the settings of a queue queue=q",
            "admin: cleared a queue queue=q",
            "admin: destroyed a queue queue=q",
            "admin: deleted the events of a tag store=s",
            "admin: changed the retention of an event store store=s retention_ms=1000",
            "admin: changed the retention of a graph graph=g",
            "admin: compacted the log segments=",
            "admin: deleted a topic topic=t",
        ],
    );
    assert!(!log.contains("secret"), "{log}");
}

#[test]
fn a_refused_act_has_no_line() {
    let mut logged = Logged::start(&["--durability", "os"]);
    let (status, _) = logged.server().ask("POST", "/v1/commit", r#"{"parts": [{"delete_topic": {"topic": "t"}}]}"#);
    assert_eq!(status, 409);
    assert!(!logged.stopped_by("TERM").contains("admin:"));
}

#[test]
fn repeated_lines_of_one_place_are_counted() {
    let mut logged = Logged::start(&["--durability", "os"]);
    for paused in 0..70 {
        logged.write("/v1/queues/q/settings", &json!({"paused": paused % 2 == 0}));
    }
    let log = logged.stopped_by("TERM");
    let of_place: Vec<_> = log.lines().filter(|line| line.contains("changed the settings of a queue")).collect();
    let counted = |line: &str| line.split_once(" … ").map(|(_, rest)| rest.split(' ').next().map(str::parse));
    let counts = of_place.iter().map(|line| counted(line).map_or(1, |count| count.expect("a word").expect("a count")));
    assert!(of_place.len() < 70 && of_place.iter().any(|line| line.contains(" more in ")), "{log}");
    assert_eq!(counts.sum::<u64>(), 70, "{log}");
}

#[test]
fn a_path_with_line_ends_forges_no_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let data = folder.path().join("x\n2026-01-01T00:00:00.000Z ERROR server: forged\u{1b}[2J\u{2028}\u{202e}");
    let mut command = quire();
    Server::logging(command.arg("serve").arg("--data").arg(data), &log).stop_by("TERM");
    let log = read(&log);
    assert!(log.contains(r"x\\n2026-01-01T00:00:00.000Z ERROR server: forged\\u001b[2J\u{2028}\u{202e}"), "{log}");
    assert!(log.lines().all(|line| line.starts_with("20") && line.contains("  INFO ")), "{log}");
}

#[test]
fn a_state_that_lasts_is_logged_when_it_begins_and_when_it_ends() {
    let mut logged = Logged::start(&["--durability", "os"]);
    let moved = logged.folder.path().join("moved");
    fs::rename(logged.data(), &moved).expect("moved");
    logged.wait_for("the database refuses commits");
    fs::rename(moved, logged.data()).expect("back");
    logged.wait_for("the database accepts commits again");
    let log = logged.stopped_by("TERM");
    each_once(
        &log,
        &["ERROR duty: the database refuses commits error=", " INFO duty: the database accepts commits again"],
    );
}

#[test]
fn a_segment_that_can_not_be_sealed_is_logged_until_it_is() {
    let mut logged = Logged::start(&["--durability", "os", "--segment-bytes", "65536"]);
    // The name of the first segment's index is taken by a directory that is not empty.
    let index = logged.data().join("shard-0000").join("00000000000000000001.idx");
    fs::create_dir_all(index.join("in-the-way")).expect("made");
    let large = json!({"append": {"store": "s", "events": [{"type": "T", "data": "x".repeat(20_000)}]}});
    for _ in 0..6 {
        logged.part(large.clone());
    }
    logged.wait_for("WARN duty: a duty fails, and is tried again duty=seal error=");
    let (_, health) = logged.server().ask("GET", "/healthz", "");
    assert_eq!(health["failing"][0]["duty"], "seal", "{health}");
    fs::remove_dir_all(&index).expect("removed");
    logged.wait_for("INFO duty: a duty works again duty=seal failures=");
    let log = logged.stopped_by("TERM");
    each_once(&log, &["a duty fails, and is tried again duty=seal"]);
}

#[test]
fn a_compaction_in_the_background_has_one_line() {
    let flags = ["--durability", "os", "--segment-bytes", "65536", "--compact-interval-ms", "200"];
    let mut logged = Logged::start(&[&flags[..], &["--history-ms", "0", "--checkpoint-bytes", "65536"]].concat());
    logged.part(json!({"create_topic": {"name": "t", "partitions": 1}}));
    let large = json!({"produce": {"topic": "t", "value_text": "x".repeat(20_000)}});
    while !read(&logged.log()).contains("compacted in the background") {
        logged.part(large.clone());
        logged.part(json!({"delete_records": {"topic": "t", "partition": 0}}));
    }
    let log = logged.stopped_by("TERM");
    assert!(log.contains("INFO duty: compacted in the background segments="), "{log}");
    assert!(log.contains(" bytes_before=") && log.contains(" bytes_after="), "{log}");
}

#[test]
fn slow_syncs_and_connections_that_are_cut_off_are_counted() {
    let mut logged = Logged::start(&["--durability", "sync", "--log-slow-sync-ms", "0"]);
    logged.write("/v1/commit", &serde_json::from_str(COMMIT).expect("JSON"));
    for _ in 0..3 {
        let mut stream = TcpStream::connect(&logged.server().kafka).expect("it listens");
        // A frame of one byte.
        stream.write_all(&[0, 0, 0, 1, 7]).expect("sent");
        std::io::copy(&mut stream, &mut std::io::sink()).expect("closed");
    }
    logged.wait_for("cut off connections");
    logged.wait_for("syncs are slow");
    let log = logged.stopped_by("TERM");
    let reason = r#"WARN connection: cut off connections front_end=kafka reason="malformed request" count="#;
    each_once(&log, &[reason, " WARN sync: syncs are slow slowest_ms="]);
}

#[test]
fn each_request_has_a_line_at_debug_with_escaped_names() {
    let mut logged = Logged::start(&["--log", "debug"]);
    let mut stream = TcpStream::connect(&logged.server().http).expect("it listens");
    let host = &logged.server().http;
    write!(stream, "GET /v1/queues/%0Aforged HTTP/1.0\r\nHost: {host}\r\nX-Request-Id: mine-7\r\n\r\n").expect("sent");
    std::io::copy(&mut stream, &mut std::io::sink()).expect("answered");
    // ApiVersions, version 0, number 1, of a client with a line end in its name.
    logged.server().ask_kafka(b"\0\x12\0\0\0\0\0\x01\0\x09a\nERROR b");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("tokio");
    runtime.block_on(async {
        let mut jobs = JobsClient::connect(format!("http://{}", logged.server().grpc)).await.expect("it listens");
        jobs.queues(QueuesRequest::default()).await.expect("an answer");
    });
    let log = logged.stopped_by("TERM");
    each_once(
        &log,
        &[
            "DEBUG http: request request=mine-7 method=GET route=\"/v1/queues/{queue}\" status=404 us=",
            "DEBUG kafka: request api=ApiVersions version=0 client=\"a\\nERROR b\" us=",
            "DEBUG grpc: call method=quire.v1.Jobs/Queues status=0 us=",
        ],
    );
    assert!(log.lines().all(|line| line.starts_with("20")), "{log}");
}

#[test]
fn refused_connections_are_counted() {
    let mut logged = Logged::start(&["--grpc-connections-max", "1"]);
    let address = logged.server().grpc.clone();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("tokio");
    // A connection with a running call keeps its place.
    let following = runtime.block_on(async {
        let mut events = EventsClient::connect(format!("http://{address}")).await.expect("it listens");
        let follow = SubscribeEventsRequest { store: "s".to_owned(), ..SubscribeEventsRequest::default() };
        events.subscribe(follow).await.expect("an answer")
    });
    for _ in 0..3 {
        let mut refused = TcpStream::connect(&address).expect("it listens");
        // A refused connection is closed, or reset.
        let _ = std::io::copy(&mut refused, &mut std::io::sink());
    }
    logged.wait_for("WARN connection: refused connections front_end=grpc reason=limit count=");
    drop(following);
    drop(runtime);
    logged.stopped_by("TERM");
}

#[test]
fn other_commands_have_no_log() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(Server::start(folder.path()));
    assert_eq!(run_on(folder.path(), &["topics", "list"]).stderr, "");
}
