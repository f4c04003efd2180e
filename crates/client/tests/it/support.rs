//! Servers for tests.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;

use quire::Database;
use quire_access::ListenAddress;
use quire_client::Client;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A server that runs until it is stopped.
pub(crate) struct TestServer {
    runtime: Runtime,
    running: JoinHandle<()>,
    stop: oneshot::Sender<()>,
    pub(crate) address: ListenAddress,
}

impl TestServer {
    /// Serves the database of a directory at an address.
    pub(crate) fn start(directory: &Path, address: ListenAddress) -> Self {
        let database = Database::builder(directory).create(true).open().expect("a database");
        let runtime = Runtime::new().expect("a runtime");
        let server = runtime.block_on(quire_http::Server::bind(database, address)).expect("it listens");
        let address = server.address().clone();
        let (stop, stopped) = oneshot::channel();
        let running = runtime.spawn(async {
            drop(server.run(async { drop(stopped.await) }).await);
        });
        TestServer { runtime, running, stop, address }
    }

    /// The same at any port.
    pub(crate) fn at_any_port(directory: &Path) -> Self {
        TestServer::start(directory, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())
    }

    /// Stops the server, and closes the database.
    pub(crate) fn stop(self) {
        self.stop.send(()).expect("the server runs");
        self.runtime.block_on(self.running).expect("the server does not panic");
    }

    /// Stops the server, and starts it again at its address.
    pub(crate) fn restart(self, directory: &Path) -> Self {
        let address = self.address.clone();
        self.stop();
        TestServer::start(directory, address)
    }

    pub(crate) fn client(&self) -> Client {
        let address = match &self.address {
            ListenAddress::Tcp(address) => format!("http://{address}"),
            socket @ ListenAddress::Unix(_) => socket.to_string(),
        };
        Client::builder(address).build().expect("a client")
    }
}

/// Runs `check` with a client of a server.
pub(crate) fn served(check: impl FnOnce(&Client)) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = TestServer::at_any_port(directory.path());
    check(&server.client());
    server.stop();
}

/// A request to a server that is faked.
#[derive(Debug)]
pub(crate) struct FakeRequest {
    /// The method and the path, with its query.
    pub(crate) target: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

/// Answers each request at the returned address with bytes, and closes its connection. Without
/// bytes, the connection stays open and silent.
pub(crate) fn faked(mut answer: impl FnMut(&FakeRequest) -> Option<String> + Send + 'static) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("it listens");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    // The threads end with the process.
    std::thread::spawn(move || {
        let mut silent = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            match answer(&FakeRequest::read(&mut stream)) {
                // A client may close a connection that it does not need.
                Some(answer) => drop(stream.write_all(answer.as_bytes())),
                None => silent.push(stream),
            }
        }
    });
    address
}

/// An answer with a body of JSON.
pub(crate) fn answer(body: &serde_json::Value) -> String {
    let body = body.to_string();
    format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

impl FakeRequest {
    fn read(stream: &mut impl Read) -> Self {
        let mut reader = BufReader::new(stream);
        let mut target = String::new();
        reader.read_line(&mut target).expect("a line");
        let target = target.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).expect("a line");
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let length = headers.get("content-length").map_or(0, |length| length.parse().expect("a length"));
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("the body");
        FakeRequest { target, headers, body }
    }
}

/// Reads a request, and returns its headers.
pub(crate) fn headers_of(stream: &mut impl Read) -> BTreeMap<String, String> {
    FakeRequest::read(stream).headers
}
