//! The server itself: its address, health, counts, and clients that misbehave.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;

use quire_http::Server;
use serde_json::json;

use crate::served::Served;

#[test]
fn a_port_in_use_is_an_error_that_names_the_address() {
    let served = Served::new();
    let database = served.database.clone().expect("open");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("tokio");
    let error = runtime.block_on(Server::bind(database, served.address.into())).expect_err("taken");
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    assert!(error.to_string().contains(&format!("can't listen on {}", served.address)), "{error}");
}

#[test]
fn a_healthy_server_reports_ok() {
    let served = Served::new();
    let health = served.read("/healthz");
    assert_eq!((&health["status"], &health["durability"]), (&json!("ok"), &json!("os")));
}

#[test]
fn stats_count_what_there_is() {
    let served = Served::new();
    served.write(
        "/v1/commit",
        json!({"parts": [
            {"append": {"store": "s", "events": [{"type": "A"}, {"type": "B"}]}},
            {"produce": {"topic": "t", "value": 1}},
            {"enqueue": {"queue": "q"}},
            {"put_block": {"graph": "g", "block": "b", "kind": "k"}},
        ]}),
    );
    let refused =
        json!({"parts": [{"append": {"store": "s", "conditions": [{"fail_if_events_match": {"items": [{}]}}]}}]});
    served.fails("POST", "/v1/commit", &refused.to_string(), 409, "condition_failed");
    let stats = served.read("/v1/stats");
    assert_eq!((&stats["commits"], &stats["refusals"], &stats["position"]), (&json!(1), &json!(1), &json!(1)));
    assert_eq!(stats["stores"], json!([{"store": "s", "events": 2}]));
    assert_eq!(stats["topics"], json!([{"topic": "t", "partitions": 1, "messages": 1}]));
    assert_eq!(stats["queues"][0]["pending"], 1);
    assert_eq!(stats["graphs"], json!([{"graph": "g", "blocks": 1, "edges": 0}]));
}

#[test]
fn a_commit_to_a_sync_database_is_answered_after_a_sync() {
    let served = Served::with(|builder| builder.durability(quire::Durability::Sync));
    served.write("/v1/commit", json!({"parts": [{"enqueue": {"queue": "q"}}]}));
    assert_eq!(served.read("/healthz")["durability"], "sync");
    assert!(served.read("/v1/stats")["syncs"].as_u64() >= Some(1));
}

/// The samples of a text in Prometheus' format; it fails on what is none.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let mut typed = Vec::new();
    let mut samples = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a name and a kind");
            assert!(matches!(kind, "counter" | "gauge" | "histogram"), "{line}");
            assert!(!typed.contains(&name), "{name} is one family");
            typed.push(name);
        } else if !line.starts_with("# HELP ") {
            let (sample, value) = line.rsplit_once(' ').expect("a value");
            let name = sample.split('{').next().expect("a name");
            let family = typed.last().expect("a type stands above its samples");
            let suffix = name.strip_prefix(family).expect("a sample stands below its type");
            assert!(["", "_bucket", "_sum", "_count"].contains(&suffix), "{line}");
            assert!(name.starts_with("quire_") || name.starts_with("process_"), "{line}");
            let value = value.parse().expect("a number");
            assert_eq!(samples.insert(sample.to_owned(), value), None, "{sample} is given once");
        }
    }
    samples
}

#[test]
fn metrics_are_read_by_prometheus_and_count() {
    let served = Served::new();
    served.write(
        "/v1/commit",
        json!({"parts": [{"enqueue": {"queue": "air/delays"}}, {"produce": {"topic": "t", "value": 1}}]}),
    );
    served.get("/v1/queues/gone");
    served.get("/no/such/path");
    let answer = served.get("/metrics");
    assert!(answer.head.contains("content-type: text/plain; version=0.0.4"), "{answer:?}");
    let samples = samples(&answer.text);
    let count = |sample: &str| *samples.get(sample).unwrap_or_else(|| panic!("{sample} of {samples:?}"));
    assert_eq!(count("quire_commits_total"), 1.0);
    assert_eq!(count("quire_refusals_total"), 0.0);
    assert!(count("quire_log_bytes_total") > 0.0 && count("quire_log_segments") >= 1.0);
    assert_eq!(count(r#"quire_queue_jobs{queue="air/delays",state="pending"}"#), 1.0);
    assert_eq!(count(r#"quire_topic_messages{topic="t"}"#), 1.0);
    assert_eq!(count(r#"quire_http_requests_total{route="/v1/commit",status="200"}"#), 1.0);
    assert_eq!(count(r#"quire_http_requests_total{route="/v1/queues/{queue}",status="404"}"#), 1.0);
    assert_eq!(count(r#"quire_http_requests_total{route="unknown",status="404"}"#), 1.0);
}

#[test]
fn garbage_ends_its_connection_and_nothing_else() {
    let served = Served::new();
    let mut stream = TcpStream::connect(served.address).expect("it listens");
    stream.write_all(b"\x00\x01\x02 this is not HTTP\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    // A reset is an end, too.
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"), "{answer:?}");
    served.read("/healthz");
}

#[test]
fn a_client_that_stays_does_not_keep_the_server() {
    let mut served = Served::new();
    let mut idle = TcpStream::connect(served.address).expect("it listens");
    idle.write_all(served.head("GET", "/healthz", 0, "").as_bytes()).expect("sent");
    let mut first = [0; 12];
    idle.read_exact(&mut first).expect("answered");
    assert_eq!(&first, b"HTTP/1.1 200");
    served.stop();
    idle.read_to_end(&mut Vec::new()).expect("the connection is closed");
}

#[test]
fn a_response_is_compressed_for_clients_that_accept_it() {
    let served = Served::new();
    let events: Vec<_> = (0..5_000).map(|n| json!({"type": "A", "data": {"number": n}})).collect();
    served.write("/v1/events/s/append", json!({"events": events}));
    let path = "/v1/events/s?limit=5000";
    let plain = served.ask("GET", path, "").text;
    assert!(plain.len() > 512 << 10, "several pieces");
    let bytes_of = |accepted: &str| {
        let mut stream = std::net::TcpStream::connect(served.address).expect("the server accepts");
        let headers = format!("Accept-Encoding: {accepted}\r\nConnection: close\r\n");
        stream.write_all(served.head("GET", path, 0, &headers).as_bytes()).expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4;
        let body = answer.split_off(end);
        (String::from_utf8(answer).expect("text"), body)
    };
    let (head, body) = bytes_of("gzip");
    assert!(head.contains("content-encoding: gzip\r\n") && head.contains("vary: accept-encoding\r\n"), "{head}");
    let mut opened = String::new();
    flate2::read::GzDecoder::new(&body[..]).read_to_string(&mut opened).expect("gzip");
    assert!(opened == plain && body.len() * 4 < plain.len(), "{} of {}", body.len(), plain.len());
    let (head, body) = bytes_of("gzip, zstd");
    assert!(head.contains("content-encoding: zstd\r\n"), "{head}");
    assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{head}");
    assert!(zstd::decode_all(&body[..]).expect("zstd") == plain.as_bytes());
    let (head, body) = bytes_of("br");
    assert!(!head.contains("content-encoding") && body == plain.as_bytes(), "{head}");
}
