//! Requests of third-party clients (recorded by `tests/kafka/corpus.py`), unchanged and damaged, on
//! live connections.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use kafka_protocol::messages::ApiVersionsRequest;
use tokio::io::AsyncWriteExt;

use crate::support::{World, frame};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/requests");

/// How many damaged copies are made of each.
const DAMAGED: usize = 30;

/// Length, API and version. The content of the request follows.
const HEAD_BYTES: usize = 8;

fn corpus() -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(Path::new(FOLDER)).expect("the corpus").map(|entry| entry.expect("an entry"));
    let read = |path: std::path::PathBuf| std::fs::read(path).expect("a file");
    let mut files: Vec<_> =
        entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), read(entry.path()))).collect();
    files.sort();
    files
}

/// Changes bytes, cuts the request, and appends a piece of another one. Its length field is mostly
/// right.
fn damaged(request: &[u8], other: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut request = request.to_vec();
    for _ in 0..random.usize(0..4) {
        let at = random.usize(HEAD_BYTES..request.len());
        request[at] = if random.bool() { random.u8(..) } else { request[at] ^ (1 << random.u8(0..8)) };
    }
    if random.u8(0..4) == 0 {
        request.truncate(random.usize(HEAD_BYTES..request.len()));
        request.extend_from_slice(&other[random.usize(HEAD_BYTES..other.len())..]);
    }
    if random.u8(0..16) != 0 {
        let length = u32::try_from(request.len() - 4).expect("short");
        request[..4].copy_from_slice(&length.to_be_bytes());
    }
    request
}

#[tokio::test]
async fn requests_of_other_clients_are_understood() {
    let world = World::new().await;
    let corpus = corpus();
    for (_, request) in &corpus {
        let mut client = world.client().await;
        client.stream.write_all(request).await.expect("taken");
        // The response to this request follows that of the other request, if the other one gets
        // any.
        let correlation_id = 0x7fff_0000;
        let last = frame(correlation_id, 0, &ApiVersionsRequest::default());
        client.stream.write_all(&last).await.expect("taken");
        while let Some(answer) = client.receive_frame().await {
            if answer[..4] == correlation_id.to_be_bytes() {
                break;
            }
        }
    }
    let counts = world.counters.statistics();
    assert_eq!((counts.closed_malformed, counts.closed_unsupported, counts.closed_failed), (0, 0, 0));
    let apis: std::collections::BTreeSet<&str> = corpus.iter().map(|(name, _)| &name[..2]).collect();
    assert!(apis.len() > 20, "of {} APIs", apis.len());
}

/// A task that panics ends only its connection, and the server continues: so the test checks the
/// count of failures.
static PANICKED: AtomicBool = AtomicBool::new(false);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_requests_of_other_clients_harm_no_client() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANICKED.store(true, Ordering::SeqCst);
        before(panic);
    }));
    let world = World::new().await;
    let corpus = corpus();
    let mut random = fastrand::Rng::with_seed(1);
    for (name, request) in &corpus {
        for number in 0..DAMAGED {
            let (_, other) = &corpus[random.usize(..corpus.len())];
            let mut client = world.client().await;
            let request = damaged(request, other, &mut random);
            // The server may have closed already.
            let _ = client.stream.write_all(&request).await;
            let _ = client.stream.shutdown().await;
            while client.receive_frame().await.is_some() {}
            assert!(!PANICKED.load(Ordering::SeqCst), "{name}, copy {number}: {request:02x?}");
        }
        world.client().await.call(3, &ApiVersionsRequest::default()).await;
    }
    let counts = world.counters.statistics();
    let understood = counts.requests - corpus.len() as u64;
    assert!(counts.closed_malformed > 500 && understood > 500, "both are met: {counts:?}");
}
