//! A request of arbitrary bytes after its first line, to a running server. It is the body of a fuzz
//! target, and of the test that replays its corpus.
//!
//! The first line is a method and what it is asked of; the rest is the body.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::LazyLock;
use std::time::Duration;

use quire::{Database, Durability};
use quire_http::Server;
use serde_json::Value;
use tokio::runtime::Runtime;

/// After how many seconds an answer does not come any more.
const PATIENCE_S: u64 = 20;

/// The server, what runs it, and the folder of its database for as long as this process is there.
static SERVER: LazyLock<(SocketAddr, Runtime, tempfile::TempDir)> = LazyLock::new(|| {
    let memory = std::path::Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.expect("a folder");
    let builder = Database::builder(folder.path().join("data")).durability(Durability::Os).segment_bytes(4 << 20);
    let database = builder.open().expect("a database");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let any = "127.0.0.1:0".parse().expect("an address");
    let server = runtime.block_on(Server::bind(database, any)).expect("a port");
    let address = server.address().tcp().expect("it is bound to TCP");
    runtime.spawn(server.run(std::future::pending()));
    (address, runtime, folder)
});

/// Imports a GraphML file. Returns the status of the answer.
pub(crate) fn graphml(bytes: &[u8]) -> Option<u16> {
    let line = b"POST /v1/graphs/fuzzed/import?format=graphml&batches=true&allow_missing=true\n";
    check(&[&line[..], bytes].concat())
}

/// The status of the answer; `None` when these bytes are no request to be sent, or one that waits
/// for what may never come.
pub(crate) fn check(bytes: &[u8]) -> Option<u16> {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (line, body) = (&bytes[..end], bytes.get(end + 1..).unwrap_or_default());
    let (method, path) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    let is_sent = path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic());
    // Hyper takes what stands behind a path that is no URI for the beginning of HTTP/2, and closes
    // without an answer.
    let is_sent = is_sent && !body.starts_with(b"PRI * HTTP/2.0");
    let waits =
        path.contains("subscribe") || [line, body].iter().any(|text| text.windows(4).any(|four| four == b"wait"));
    if !is_sent || waits || !["GET", "POST", "DELETE"].contains(&method) {
        return None;
    }
    let length = body.len();
    let address = SERVER.0;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    let mut stream = TcpStream::connect(address).expect("the server accepts");
    stream.set_read_timeout(Some(Duration::from_secs(PATIENCE_S))).expect("set");
    // A server that answers early may close before it has read everything.
    let _ = stream.write_all(&[head.as_bytes(), body].concat());
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => panic!("it does not end"),
        _ => {}
    }
    // A handler that panics leaves its connection without an answer.
    let answer = String::from_utf8_lossy(&answer);
    let (head, text) = answer.split_once("\r\n\r\n").expect("there is an answer");
    let status: u16 = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    assert!((200..500).contains(&status), "what a client sends is never the server's fault: {answer}");
    if status >= 400 && !text.is_empty() {
        let problem: Value = serde_json::from_str(text).expect("a problem is told in JSON");
        let told = |name: &str| problem[name].as_str().is_some_and(|text| !text.is_empty());
        assert!(told("code") && told("detail"), "{answer}");
    }
    Some(status)
}
