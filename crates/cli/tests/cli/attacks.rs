//! Attacks on the memory of a server, each by raw frames and under a limit of the system. The
//! server lives, answers another client meanwhile, and has its memory back afterwards.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use http::Request;
use tokio::runtime::Runtime;

use crate::support::{Server, number};

const MIB: usize = 1 << 20;

/// The limit of the system on the memory of the server, in KiB, and on its file handles.
const LIMITS: &str = "ulimit -d 2097152; ulimit -n 1024; exec \"$0\" \"$@\"";

/// How much more memory the server may keep.
const KEPT_BYTES: u64 = 100 << 20;

/// How often a test looks at the server before it gives up.
const LOOKS_MAX: usize = 50_000;

/// A server under attack, and its memory before.
struct Attacked {
    server: Server,
    before_bytes: u64,
    _folder: tempfile::TempDir,
}

impl Attacked {
    /// A server over a database that `fill` has filled, prepared through `prepare`.
    #[track_caller]
    fn new(fill: impl FnOnce(&Path), prepare: impl FnOnce(&Server)) -> Self {
        Attacked::within("1GiB", fill, prepare)
    }

    /// The same, with this memory for all clients.
    #[track_caller]
    fn within(memory: &str, fill: impl FnOnce(&Path), prepare: impl FnOnce(&Server)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        fill(&data);
        let mut command = Command::new("sh");
        command.args(["-c", LIMITS, env!("CARGO_BIN_EXE_quire"), "serve", "--durability", "os", "--memory", memory]);
        let server = Server::spawn(command.arg("--data").arg(data));
        prepare(&server);
        let before_bytes = server.memory_bytes();
        Attacked { server, before_bytes, _folder: folder }
    }

    /// Another client commits, over HTTP.
    #[track_caller]
    fn commits(&self) {
        let body = r#"{"events": [{"type": "Happened"}]}"#;
        assert_eq!(self.server.ask("POST", "/v1/events/other/append", body).0, 200);
    }

    /// A value of `/metrics`.
    #[track_caller]
    fn metric(&self, name: &str) -> u64 {
        number(&self.server.text("/metrics"), name)
    }

    fn used(&self) -> u64 {
        self.metric("quire_memory_used_bytes")
    }

    /// After the attack: the budget is free, and so is the memory.
    #[track_caller]
    fn recovers(&self) {
        // The server notices by and by that its clients have gone.
        for _ in 0..LOOKS_MAX {
            if self.used() == 0 && self.server.memory_bytes() < self.before_bytes + KEPT_BYTES {
                return self.commits();
            }
        }
        let (before, now) = (self.before_bytes, self.server.memory_bytes());
        panic!("{} bytes of the budget in use, and {now} of memory, {before} before", self.used());
    }
}

/// Looks until a condition holds. A look asks the server, which takes its time.
#[track_caller]
fn until(condition: impl Fn() -> bool) {
    assert!((0..LOOKS_MAX).any(|_| condition()), "the condition does not become true");
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// An HTTP/2 connection with this initial window.
async fn connected(address: &str, window: u32) -> SendRequest<Bytes> {
    let stream = tokio::net::TcpStream::connect(address).await.expect("it listens");
    let shaken = h2::client::Builder::new().initial_window_size(window).handshake(stream).await;
    let (client, connection) = shaken.expect("it speaks HTTP/2");
    // A connection that the server closes has ended.
    tokio::spawn(async { drop(connection.await) });
    client.ready().await.expect("it takes calls")
}

fn call(method: &str) -> Request<()> {
    let request = Request::post(format!("http://localhost/quire.v1.Events/{method}"));
    request.header("content-type", "application/grpc").header("te", "trailers").body(()).expect("a request")
}

#[test]
fn endless_messages_use_at_most_the_budget() {
    const CALLS: u64 = 60;
    let attacked = Attacked::new(|_| (), |_| ());
    let refused = || attacked.metric("quire_memory_refusals_total{front_end=\"grpc\"}");
    let runtime = runtime();
    let mut streams = Vec::new();
    for connection in 1..=4 {
        runtime.block_on(async {
            let mut client = connected(&attacked.server.grpc, 1 << 20).await;
            for _ in 0..CALLS {
                let (answer, mut body) = client.send_request(call("Append"), false).expect("a call");
                client = client.ready().await.expect("it takes calls");
                // A message of 16 MiB, of which the last one never comes. The connection sends it
                // as far as the server takes it. A refused call has ended by then.
                let prefix = [&[0][..], &(16 * MIB as u32).to_be_bytes()].concat();
                let _ = body.send_data(prefix.into(), false);
                let _ = body.send_data(vec![0; 15 * MIB].into(), false);
                streams.push((answer, body));
            }
        });
        // A connection has a share of 64 MiB.
        until(|| refused() >= connection * (CALLS - 4));
    }
    attacked.commits();
    assert!(attacked.used() <= 1 << 30, "{}", attacked.used());
    drop((streams, runtime));
    attacked.recovers();
}

#[test]
fn unread_pages_use_at_most_the_budget() {
    let attacked = Attacked::new(|_| (), |server| append_large(server, 40, 100_000));
    let runtime = runtime();
    let answers = runtime.block_on(async {
        let mut answers = Vec::new();
        for _ in 0..24 {
            let mut client = connected(&attacked.server.grpc, 0).await;
            let mut calls = 1;
            let mut called = 0;
            while called < calls {
                let (answer, mut body) = client.send_request(call("Read"), false).expect("a call");
                body.send_data(Bytes::from_static(&[0, 0, 0, 0, 3, 0x0a, 1, b's']), true).expect("sent");
                // The first page was read, or refused.
                answers.push(answer.await.expect("an answer"));
                client = client.ready().await.expect("it takes calls");
                // By now the server has said how many calls it takes.
                calls = client.current_max_send_streams().min(400);
                called += 1;
            }
        }
        answers
    });
    attacked.commits();
    assert!(attacked.used() <= 1 << 30, "{}", attacked.used());
    drop((answers, runtime));
    attacked.recovers();
}

/// Appends `count` events of `bytes` to the store `s`.
#[track_caller]
fn append_large(server: &Server, count: usize, bytes: usize) {
    let event = format!(r#"{{"type": "Happened", "data_text": "{}"}}"#, "x".repeat(bytes));
    let body = format!(r#"{{"events": [{}]}}"#, vec![event; count].join(","));
    assert_eq!(server.ask("POST", "/v1/events/s/append", &body).0, 200);
}

/// A Kafka request, without its length: key, version, number 1, no client's name.
fn kafka(key: u8, version: u8, body: &[u8]) -> Vec<u8> {
    [&[0, key, 0, version, 0, 0, 0, 1, 0xff, 0xff][..], body].concat()
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat()
}

#[test]
fn a_topic_that_is_named_many_times_is_described_once() {
    let attacked = Attacked::new(
        |_| (),
        |server| {
            // One topic of 100,000 partitions, and neither assignments nor settings.
            let topic = [&text("t")[..], &100_000u32.to_be_bytes(), &[0, 1], &[0; 8]].concat();
            let answer = server.ask_kafka(&kafka(19, 2, &[&1u32.to_be_bytes()[..], &topic, &[0; 5]].concat()));
            assert_eq!(answer[4 + 4 + 4 + 3..][..2], [0, 0], "no error of the topic");
        },
    );
    let names = text("t").repeat(2_000);
    let answer = attacked.server.ask_kafka(&kafka(3, 0, &[&2_000u32.to_be_bytes()[..], &names].concat()));
    // Each partition takes 26 bytes.
    assert!((2_600_000..2_700_000).contains(&answer.len()), "{}", answer.len());
    drop(answer);
    attacked.recovers();
}

/// Sends a request that exceeds its client's share of memory: the server closes the connection.
#[track_caller]
fn is_cut_off(server: &Server, request: &[u8]) {
    let mut stream = TcpStream::connect(&server.kafka).expect("it listens");
    stream.write_all(&(request.len() as u32).to_be_bytes()).expect("taken");
    stream.write_all(request).expect("taken");
    let mut answer = Vec::new();
    // A closed connection ends, or is reset.
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty(), "{} bytes", answer.len());
}

#[test]
fn offsets_that_are_requested_many_times_use_at_most_one_share_of_the_memory() {
    const OFFSETS: usize = 20_000;
    let attacked = Attacked::new(
        |_| (),
        |server| {
            let topic = format!(r#"{{"create_topic": {{"name": "t", "partitions": {OFFSETS}}}}}"#);
            let note = "n".repeat(100);
            let offset = |partition: usize| {
                format!(
                    r#"{{"commit_offset": {{"group": "g", "topic": "t", "partition": {partition}, "offset": 0, "metadata": "{note}"}}}}"#
                )
            };
            let offsets: Vec<_> = (0..OFFSETS).map(offset).collect();
            for parts in [topic, offsets.join(",")] {
                assert_eq!(server.ask("POST", "/v1/commit", &format!(r#"{{"parts": [{parts}]}}"#)).0, 200);
            }
        },
    );
    // A group by its name, with all its topics.
    let group = [2, b'g', 0, 0];
    let groups = |count: u16| {
        let length = [0x80 | (count + 1) as u8 & 0x7f, ((count + 1) >> 7) as u8];
        kafka(9, 8, &[&[0][..], &length, &group.repeat(count.into()), &[0, 0]].concat())
    };
    is_cut_off(&attacked.server, &groups(300));
    attacked.commits();
    let answer = attacked.server.ask_kafka(&groups(1));
    assert!(answer.len() > OFFSETS * 100, "one is answered, with {} bytes", answer.len());
    drop(answer);
    attacked.recovers();
}

#[test]
fn settings_that_are_requested_many_times_use_at_most_one_share_of_the_memory() {
    let topic = [&text("t")[..], &1u32.to_be_bytes(), &[0, 1], &[0; 8]].concat();
    let create = kafka(19, 2, &[&1u32.to_be_bytes()[..], &topic, &[0; 5]].concat());
    let attacked = Attacked::new(|_| (), |server| drop(server.ask_kafka(&create)));
    let resource = [&[2][..], &text("t"), &[0xff; 4]].concat();
    let asked = |count: u32| kafka(32, 1, &[&count.to_be_bytes()[..], &resource.repeat(count as usize), &[1]].concat());
    is_cut_off(&attacked.server, &asked(60_000));
    attacked.commits();
    assert!(attacked.server.ask_kafka(&asked(1)).len() > 1_000);
    attacked.recovers();
}

/// Joins a group with metadata of `bytes`; returns the connection.
fn join(server: &Server, group: &str, bytes: usize) -> TcpStream {
    let timeout = 1_800_000_u32.to_be_bytes();
    let head = [&text(group)[..], &timeout, &timeout, &text(""), &text("consumer"), &1u32.to_be_bytes()].concat();
    let body = [&head[..], &text("range"), &(bytes as u32).to_be_bytes(), &vec![7; bytes]].concat();
    let request = kafka(11, 2, &body);
    let mut stream = TcpStream::connect(&server.kafka).expect("it listens");
    stream.write_all(&(request.len() as u32).to_be_bytes()).expect("taken");
    stream.write_all(&request).expect("taken");
    stream
}

/// The error code in the answer to a join.
fn joined(stream: &mut TcpStream) -> i16 {
    let mut answer = [0; 4 + 4 + 4 + 2];
    stream.read_exact(&mut answer).expect("an answer");
    i16::from_be_bytes([answer[12], answer[13]])
}

#[test]
fn members_of_groups_take_little_and_leave_with_their_connections() {
    const INVALID_REQUEST: i16 = 42;
    let attacked = Attacked::new(|_| (), |_| ());
    for number in 0..30 {
        assert_eq!(joined(&mut join(&attacked.server, &format!("large-{number}"), 30 * MIB)), INVALID_REQUEST);
    }
    let mut members: Vec<_> =
        (0..200).map(|number| join(&attacked.server, &format!("small-{number}"), 60 << 10)).collect();
    for member in &mut members {
        assert_eq!(joined(member), 0);
    }
    assert!(attacked.used() >= 200 * (60 << 10));
    attacked.commits();
    drop(members);
    attacked.recovers();
}

#[test]
fn endless_bodies_use_at_most_the_budget() {
    let attacked = Attacked::new(|_| (), |_| ());
    let body = vec![b' '; 28 * MIB];
    let mut streams = Vec::new();
    for _ in 0..80 {
        let mut stream = TcpStream::connect(&attacked.server.http).expect("it listens");
        stream.set_write_timeout(Some(Duration::from_secs(10))).expect("set");
        let (host, bytes) = (&attacked.server.http, 30 * MIB);
        let head = format!("POST /v1/commit HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n");
        let head = format!("{head}Content-Length: {bytes}\r\n\r\n");
        stream.write_all(head.as_bytes()).expect("taken");
        // A body without memory is not read to its end.
        let _ = stream.write_all(&body);
        streams.push(stream);
    }
    until(|| attacked.metric("quire_memory_refusals_total{front_end=\"http\"}") > 0);
    attacked.commits();
    assert!(attacked.used() <= 1 << 30, "{}", attacked.used());
    drop(streams);
    attacked.recovers();
}

#[test]
fn clients_that_read_slowly_do_not_stop_workers() {
    // 16 pages of 14 MB. Each connection takes a handle.
    let attacked = Attacked::within("256MiB", |_| (), |server| append_large(server, 16, 900_000));
    let ask = |path: &str| {
        let mut stream = TcpStream::connect(&attacked.server.http).expect("it listens");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", attacked.server.http).expect("taken");
        stream
    };
    // They read the status, and nothing after it.
    let mut slow: Vec<TcpStream> = (0..40).map(|_| ask("/v1/events/s?limit=100")).collect();
    let refused = slow.iter_mut().filter(|stream| {
        let mut status = [0; 12];
        stream.peek(&mut status).is_ok_and(|_| status.ends_with(b"503"))
    });
    assert!(refused.count() > 0);
    slow.extend((0..20).map(|_| ask("/v1/events/s/subscribe")));
    attacked.commits();
    let enqueue = r#"{"parts": [{"enqueue": {"queue": "q", "kind": "k", "payload": {"a": 1}}}]}"#;
    assert_eq!(attacked.server.ask("POST", "/v1/commit", enqueue).0, 200);
    let (status, fetched) = attacked.server.ask("POST", "/v1/queues/q/fetch", r#"{"worker": "w"}"#);
    assert_eq!((status, fetched["jobs"].as_array().map(Vec::len)), (200, Some(1)), "{fetched}");
    drop(slow);
    attacked.recovers();
}
