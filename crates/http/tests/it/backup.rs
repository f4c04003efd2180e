//! `GET /v1/backup`: a backup of a server that commits, within the byte budget.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

use quire::tools::{receive_backup, restore};
use quire::{Background, Database};
use quire_http::Settings;

use crate::served::Served;

const APPEND: &str = r#"{"events": [{"type": "Happened", "data": 1}]}"#;

/// The status and the bytes of a backup.
fn download(served: &Served) -> (String, Vec<u8>) {
    let mut stream = begin(served);
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it answers");
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("the end of the head") + 4;
    let body = answer.split_off(end);
    (String::from_utf8(answer).expect("a head").to_ascii_lowercase(), body)
}

/// Requests a backup. A response in HTTP/1.0 ends with its connection.
fn begin(served: &Served) -> TcpStream {
    let mut stream = TcpStream::connect(served.address).expect("it listens");
    let head = format!("GET /v1/backup HTTP/1.0\r\nHost: {}\r\n\r\n", served.address);
    stream.write_all(head.as_bytes()).expect("it reads");
    stream
}

/// Appends `count` events of 100 KiB, and seals the segments that are full.
fn fill(served: &Served, count: usize) {
    let large = format!(r#"{{"events": [{{"type": "Large", "data_text": "{}"}}]}}"#, "x".repeat(100 << 10));
    for _ in 0..count {
        served.write("/v1/events/s/append", &large);
    }
    served.database.as_ref().expect("open").sync().expect("synced");
}

/// A gauge or a counter without labels.
#[track_caller]
fn metric(served: &Served, name: &str) -> u64 {
    let text = served.get("/metrics").text;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    value.unwrap_or_else(|| panic!("no {name} in {text}"))
}

#[test]
fn a_backup_of_a_server_that_commits_is_restored() {
    let served = Served::new();
    fill(&served, 25);
    let done = AtomicBool::new(false);
    let (head, archive) = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                served.write("/v1/events/s/append", APPEND);
            }
        });
        let downloaded = download(&served);
        done.store(true, Ordering::Relaxed);
        downloaded
    });
    assert!(head.starts_with("http/1.0 200") && head.contains("content-type: application/x-tar"), "{head}");
    let folder = tempfile::tempdir().expect("a directory");
    let (backup, restored) = (folder.path().join("backup"), folder.path().join("restored"));
    let received = receive_backup(&mut &archive[..], &backup).expect("received");
    let verification = restore(&backup, &restored, None, &mut |_, _| ()).expect("restored");
    assert_eq!((verification.worst(), verification.totals.last), (None, received.position));
    let database = Database::builder(&restored).background(Background::Caller).open().expect("it opens");
    assert!(database.events("s").head().expect("readable").get() >= 25);
    // A second one follows, and a cut one is none.
    let (_, second) = download(&served);
    assert!(receive_backup(&mut &second[..second.len() / 2], &folder.path().join("cut")).is_err());
    assert!(restore(&folder.path().join("cut"), &folder.path().join("none"), None, &mut |_, _| ()).is_err());
}

#[test]
fn a_backup_claims_the_budget_and_ends_with_its_client() {
    let settings = |bytes| Settings { memory_bytes_max: bytes, ..Settings::default() };
    // Segments of 4 MiB.
    let served = Served::with_settings(settings(64 << 20), |builder| builder.segment_bytes(4 << 20));
    fill(&served, 100);
    let mut slow = begin(&served);
    let mut first = [0; 64];
    slow.read_exact(&mut first).expect("it begins");
    // The client reads no more: the server holds one segment, and others are served.
    while metric(&served, "quire_memory_used_bytes ") < 4 << 20 {}
    assert!(metric(&served, "quire_memory_used_bytes ") < 8 << 20);
    served.write("/v1/events/s/append", APPEND);
    // A second backup waits for the first one, and runs when its client has left.
    std::thread::scope(|scope| {
        let second = scope.spawn(|| download(&served));
        drop(slow);
        let (head, archive) = second.join().expect("it ends");
        assert!(head.starts_with("http/1.0 200") && archive.len() > 8 << 20, "{head}");
    });
    while metric(&served, "quire_memory_used_bytes ") > 1 << 20 {}

    let served = Served::with_settings(settings(1 << 20), |builder| builder.segment_bytes(4 << 20));
    served.write("/v1/events/s/append", APPEND);
    served.database.as_ref().expect("open").sync().expect("synced");
    let refused = served.fails("GET", "/v1/backup", "", 413, "too_large");
    assert!(refused["detail"].as_str().is_some_and(|message| message.contains("--memory")), "{refused}");
    served.fails("GET", "/v1/backup?before=1", "", 400, "invalid");
}
