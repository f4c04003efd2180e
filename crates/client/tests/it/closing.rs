//! A closed client: the call that it makes ends, and so does its work in the server.

use std::io::Read;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use quire_client::{Call, Client};

/// Longer than any step takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Closes a client whose call has no answer. `accept` returns a connection of the server, which
/// never answers.
#[track_caller]
fn check_closed<S: Read>(address: String, accept: impl FnOnce() -> S) {
    let client = Client::builder(address).without_retries().build().expect("a client");
    let (sender, answer) = mpsc::channel();
    let caller = client.clone();
    thread::spawn(move || sender.send(caller.send_once(&Call::get(&["queues"]).patiently())));
    let mut connection = accept();
    // The call waits for an answer once the server has the request.
    assert_ne!(connection.read(&mut [0; 1024]).expect("a request"), 0);
    client.close();
    answer.recv_timeout(PATIENCE).expect("the call ends").expect_err("no answer");
    assert_eq!(connection.read_to_end(&mut Vec::new()).expect("an end"), 0, "the server sees the end");
    client.send_once(&Call::get(&["queues"])).expect_err("a closed client");
}

#[test]
fn a_closed_client_ends_its_calls_and_makes_no_new_ones() {
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", tcp.local_addr().expect("an address"));
    check_closed(address, || tcp.accept().expect("a client").0);
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("socket");
    let socket = UnixListener::bind(&path).expect("a socket");
    check_closed(format!("unix:{}", path.display()), || socket.accept().expect("a client").0);
}
