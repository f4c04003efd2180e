//! The client over a Unix socket.

use quire_access::ListenAddress;
use quire_client::reply::QueueReply;
use quire_client::request::{CommitRequest, Enqueue};
use quire_client::{Client, FailureKind};

use crate::support::TestServer;

#[test]
fn a_client_of_a_unix_socket_commits_reads_and_uses_its_connection_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("socket");
    let server = TestServer::start(&directory.path().join("data"), ListenAddress::Unix(socket.clone()));
    let client = server.client();
    for _ in 0..3 {
        client.commit(&CommitRequest::of(Enqueue::new("mails", vec![b'x'; 100_000]))).expect("committed");
    }
    let queue: QueueReply = client.get(&["queues", "mails"], &[]).expect("the queue");
    assert_eq!(queue.counts["pending"], 3);
    let server = server.restart(&directory.path().join("data"));
    let queue: QueueReply = client.get(&["queues", "mails"], &[]).expect("the queue, over a new connection");
    assert_eq!(queue.counts["pending"], 3);
    server.stop();
    let client = Client::builder(format!("unix:{}", socket.display())).without_retries().build().expect("a client");
    let error = client.get::<QueueReply>(&["queues", "mails"], &[]).expect_err("no server");
    assert_eq!(error.kind(), FailureKind::Unanswered, "{error}");
}
