//! A call of arbitrary bytes after its first line, to a running server. It is the body of a fuzz
//! target, and of the test that replays its corpus.
//!
//! The first line is the path of a method. The rest is its message. For the stream of a worker, the
//! rest is several messages, each after its length in two bytes.

mod client;
pub(crate) mod seeds;

use std::sync::LazyLock;

use prost::Message;
use quire::{Database, Durability};
use quire_grpc::Server;
use quire_grpc::proto::{FetchJobsRequest, FetchRecordsRequest};
use tokio::runtime::Runtime;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use client::call;

const WORK: &str = "/quire.v1.Jobs/Work";
const FETCH: &str = "/quire.v1.Jobs/Fetch";
const FETCH_RECORDS: &str = "/quire.v1.Streams/Fetch";
const CONSUME: &str = "/quire.v1.Streams/Consume";
const SERVICES: [&str; 6] = [
    "/quire.v1.Events/",
    "/quire.v1.Jobs/",
    "/quire.v1.Graph/",
    "/quire.v1.Streams/",
    "/quire.v1.Quire/",
    "/quire.v1.Sql/",
];

/// A connection to the server, what runs it, and the folder of its database for as long as this
/// process is there.
static SERVER: LazyLock<(Channel, Runtime, tempfile::TempDir)> = LazyLock::new(|| {
    let memory = std::path::Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.expect("a folder");
    let builder = Database::builder(folder.path().join("data")).durability(Durability::Os).segment_bytes(4 << 20);
    let database = builder.open().expect("a database");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let any = "127.0.0.1:0".parse().expect("an address");
    let channel = runtime.block_on(async {
        let server = Server::bind(database, any).await.expect("a port");
        let address = server.address().tcp().expect("it is bound to TCP");
        tokio::spawn(server.run(std::future::pending()));
        let endpoint = Channel::from_shared(format!("http://{address}")).expect("an address");
        endpoint.connect().await.expect("it listens")
    });
    (channel, runtime, folder)
});

/// The code of the answer; `None` when these bytes are no call to be sent, or one that waits for
/// what may never come.
pub(crate) fn check(bytes: &[u8]) -> Option<Code> {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (line, body) = (&bytes[..end], bytes.get(end + 1..).unwrap_or_default());
    let path = std::str::from_utf8(line).ok()?;
    let method = SERVICES.iter().find_map(|service| path.strip_prefix(service))?;
    if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    if path == FETCH && FetchJobsRequest::decode(body).is_ok_and(|request| request.wait_us > 0) {
        return None;
    }
    if path == FETCH_RECORDS && FetchRecordsRequest::decode(body).is_ok_and(|request| request.wait_us > 0) {
        return None;
    }
    let messages = if path == WORK { frames(body) } else { vec![body.to_vec()] };
    let (channel, runtime, _) = &*SERVER;
    match runtime.block_on(call(channel.clone(), path, messages)) {
        Ok(()) => Some(Code::Ok),
        Err(status) => {
            assert_refused(&status);
            Some(status.code())
        }
    }
}

/// Each message behind its length; the last one may be cut off.
fn frames(mut body: &[u8]) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    while let Some((length, rest)) = body.split_first_chunk() {
        let (message, rest) = rest.split_at(rest.len().min(u16::from_be_bytes(*length).into()));
        messages.push(message.to_vec());
        body = rest;
    }
    messages
}

/// The client gets an error about its call, and the server has none.
fn assert_refused(status: &Status) {
    match status.code() {
        // There is no such method.
        Code::Unimplemented => {}
        // Tonic says so of bytes that are no message of the method's.
        Code::Internal => assert!(status.message().starts_with("failed to decode Protobuf message"), "{status:?}"),
        // What a connection ends with whose handler panicked is one of these, or `Internal`.
        Code::Unknown | Code::Unavailable | Code::DataLoss | Code::Cancelled | Code::DeadlineExceeded => {
            panic!("what a client sends is never the server's fault: {status:?}")
        }
        _ => {
            let info = status.get_details_error_info().expect("a reason");
            assert!(!info.reason.is_empty() && info.domain == "quire" && !status.message().is_empty(), "{status:?}");
        }
    }
}
