//! Connections: their limits and deadlines, clients that close their side, bodies that no route
//! reads, and request ids.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};

use quire_access::ConnectionSettings;
use quire_http::Settings;
use serde_json::json;

use crate::served::Served;

fn served(connections: ConnectionSettings) -> Served {
    Served::with_settings(Settings { connections, ..Settings::default() }, |builder| builder)
}

fn connect(served: &Served) -> TcpStream {
    TcpStream::connect(served.address).expect("it listens")
}

/// Everything until the server closes. A reset is an end, too.
fn read_all(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).expect("text")
}

/// Reads one answer with a `Content-Length`: its status and headers.
fn read_one(reader: &mut BufReader<TcpStream>) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).expect("a line") > 0, "the connection was closed: {head}");
    }
    let head = head.to_ascii_lowercase();
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
    let length = length.map_or(0, |length| length.parse().expect("a number"));
    reader.read_exact(&mut vec![0; length]).expect("the body");
    head
}

/// A connection with a running request, which awaits a body of two bytes.
fn connect_busy(served: &Served) -> (TcpStream, BufReader<TcpStream>) {
    let mut stream = connect(served);
    let head = served.head("POST", "/v1/queues/q/fetch", 2, "Expect: 100-continue\r\n");
    stream.write_all(head.as_bytes()).expect("sent");
    let mut answers = BufReader::new(stream.try_clone().expect("cloned"));
    assert!(read_one(&mut answers).starts_with("http/1.1 100"), "the server awaits the body");
    (stream, answers)
}

#[test]
fn a_connection_without_a_whole_first_request_is_closed() {
    let served = served(ConnectionSettings { first_request_ms: 50, ..ConnectionSettings::default() });
    for begun in ["", "GET /healthz HTTP/1.1\r\nHost: localh"] {
        let mut stream = connect(&served);
        stream.write_all(begun.as_bytes()).expect("sent");
        assert_eq!(read_all(stream), "", "{begun}");
    }
    assert_eq!(served.connections.statistics().ended_first_request, 2);
}

#[test]
fn a_connection_without_a_further_request_is_closed() {
    let settings = Settings { idle_timeout_ms: 50, ..Settings::default() };
    let (served, stream) = Served::with_client(
        settings,
        |builder| builder,
        |address| {
            let mut stream = TcpStream::connect(address).expect("it listens");
            let sent = format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\n\r\nGET /hea");
            stream.write_all(sent.as_bytes()).expect("sent");
            stream
        },
    );
    assert_eq!(read_all(stream).matches("HTTP/1.1 200").count(), 1);
    // The connection is counted after it is closed. Another request could be late itself.
    while served.connections.statistics().ended_idle == 0 {
        std::thread::yield_now();
    }
    assert_eq!(served.connections.statistics().ended_idle, 1);
}

#[test]
fn a_body_that_does_not_arrive_is_given_up_on_every_route() {
    let served = served(ConnectionSettings { request_ms: 50, ..ConnectionSettings::default() });
    for path in ["/v1/commit", "/v1/graphs/g/import", "/v1/queues/q/fetch"] {
        let mut stream = connect(&served);
        let head = served.head("POST", path, 100, "");
        stream.write_all(&[head.as_bytes(), b"{"].concat()).expect("sent");
        let answer = read_all(stream);
        assert!(answer.starts_with("HTTP/1.1 408") && answer.contains(r#""code":"timeout""#), "{path}: {answer}");
    }
    assert_eq!(served.connections.statistics().ended_request, 3);
}

#[test]
fn a_body_that_no_route_reads_ends_neither_its_connection_nor_the_next_request() {
    let served = Served::new();
    let mut stream = connect(&served);
    let mut answers = BufReader::new(stream.try_clone().expect("cloned"));
    served.write("/v1/commit", json!({"parts": [{"enqueue": {"queue": "q"}}]}));
    let body = format!("{{{}}}", " ".repeat(50_000));
    for (path, status) in
        [("/v1/compact", "200"), ("/v1/queues/q/clear", "200"), ("/no/such/path", "404"), ("/v1/stats", "405")]
            .repeat(20)
    {
        // The body arrives after the server has answered.
        stream.write_all(served.head("POST", path, body.len(), "").as_bytes()).expect("sent");
        if status != "200" {
            assert!(read_one(&mut answers).starts_with(&format!("http/1.1 {status}")), "{path}");
        }
        stream.write_all(body.as_bytes()).expect("sent");
        if status == "200" {
            assert!(read_one(&mut answers).starts_with(&format!("http/1.1 {status}")), "{path}");
        }
    }
}

#[test]
fn a_client_that_waits_for_a_sign_before_its_body_is_not_read_as_its_body() {
    let served = Served::new();
    let mut stream = connect(&served);
    stream.write_all(served.head("POST", "/no/such/path", 5, "Expect: 100-continue\r\n").as_bytes()).expect("sent");
    // It may have closed already.
    let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\n");
    let answer = read_all(stream);
    assert!(answer.starts_with("HTTP/1.1 404") && answer.matches("HTTP/1.1").count() == 1, "{answer}");
}

#[test]
fn a_client_that_closed_its_side_is_answered_and_waits_no_longer() {
    let served = Served::new();
    let commit = json!({"parts": [{"append": {"store": "s", "events": [{"type": "A"}]}}]}).to_string();
    let fetch = json!({"wait_ms": 60_000}).to_string();
    for (method, path, body, expect) in [
        ("GET", "/v1/stats", "", r#""durability""#),
        ("POST", "/v1/commit", &*commit, r#""replies""#),
        ("POST", "/v1/compact", "{}", r#""segments""#),
        ("POST", "/v1/queues/q/fetch", &*fetch, r#"{"jobs":[]}"#),
    ] {
        let mut stream = connect(&served);
        let head = served.head(method, path, body.len(), "");
        stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).expect("sent");
        stream.shutdown(Shutdown::Write).expect("half closed");
        let answer = read_all(stream);
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(expect), "{path}: {answer}");
    }
}

#[test]
fn beyond_the_limit_only_health_and_metrics_are_answered() {
    let served = served(ConnectionSettings { connections_max: 1, ..ConnectionSettings::default() });
    let (mut first, mut answers) = connect_busy(&served);
    for (path, status) in [("/healthz", 200), ("/metrics", 200), ("/v1/stats", 503)] {
        let mut stream = connect(&served);
        stream.write_all(served.head("GET", path, 0, "").as_bytes()).expect("sent");
        let answer = read_all(stream).to_ascii_lowercase();
        assert!(answer.starts_with(&format!("http/1.1 {status}")), "{path}: {answer}");
        assert!(answer.contains("connection: close"), "a place for health is given back: {answer}");
        assert_eq!(answer.contains("too_many_connections"), status == 503, "{answer}");
    }
    first.write_all(b"{}").expect("sent");
    assert!(read_one(&mut answers).starts_with("http/1.1 200"), "the first is served as before");
    assert_eq!(served.connections.statistics().refused_limit, 3);
}

#[test]
fn silent_connections_can_not_take_the_reserve() {
    let served = served(ConnectionSettings { connections_max: 1, ..ConnectionSettings::default() });
    let _busy = connect_busy(&served);
    let mut silent: Vec<_> = (0..100).map(|_| connect(&served)).collect();
    assert_eq!(served.get("/healthz").status, 200);
    // It was the oldest of the reserve.
    assert_eq!(read_all(silent.remove(0)), "");
}

#[test]
fn idle_connections_of_an_address_give_their_places_to_new_ones() {
    let limits = ConnectionSettings { connections_per_address_max: Some(2), ..ConnectionSettings::default() };
    let served = served(limits);
    let busy = connect_busy(&served);
    let idle = connect(&served);
    for _ in 0..50 {
        assert_eq!(served.get("/v1/stats").status, 200);
    }
    assert_eq!(read_all(idle), "");
    let (mut busy, mut answers) = busy;
    busy.write_all(b"{}").expect("sent");
    assert!(read_one(&mut answers).starts_with("http/1.1 200"), "a request runs to its end");
    let counts = served.connections.statistics();
    assert_eq!((counts.refused_address, counts.refused_limit), (0, 0));
    assert!(counts.displaced >= 1);
}

#[test]
fn a_request_has_an_id_its_own_or_a_new_one() {
    let served = Served::new();
    let id_of = |header: &str| {
        let mut stream = connect(&served);
        stream.write_all(served.head("GET", "/healthz", 0, header).as_bytes()).expect("sent");
        let head = read_one(&mut BufReader::new(stream));
        let id = head.split("x-request-id: ").nth(1).expect("an id");
        id.split("\r\n").next().expect("a line").to_owned()
    };
    assert_eq!(id_of("X-Request-Id: order-17.a\r\n"), "order-17.a");
    let made = id_of("");
    assert!(made.len() == 16 && made != id_of(""), "{made}");
    assert_ne!(id_of("X-Request-Id: a b\r\n"), "a b");
}
