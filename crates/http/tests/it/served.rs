//! A server over a fresh database, and the plainest of clients: one request a connection, written
//! and read by hand.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use quire::{AccessControl, Builder, Database, Durability, NewApiKey};
use quire_access::ConnectionCounters;
use quire_http::{Server, Settings};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::described;

/// A server that runs until it is dropped.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) database: Option<Database>,
    pub(crate) connections: Arc<ConnectionCounters>,
    /// The API key of each request.
    key: Option<String>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    directory: tempfile::TempDir,
}

/// The response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) text: String,
}

/// A list on one page.
pub(crate) fn whole(data: Value) -> Value {
    serde_json::json!({"data": data, "next_cursor": null, "has_more": false})
}

impl Answer {
    /// The body as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let kind = if self.status < 400 { "application/json" } else { "application/problem+json" };
        assert!(self.head.contains(&format!("content-type: {kind}\r\n")), "{self:?}");
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Served {
    pub(crate) fn new() -> Self {
        Served::with(|builder| builder)
    }

    /// A server over a database that is opened like this.
    pub(crate) fn with(settings: impl FnOnce(Builder) -> Builder) -> Self {
        Served::with_settings(Settings::default(), settings)
    }

    /// A server with settings of its own.
    pub(crate) fn with_settings(server: Settings, settings: impl FnOnce(Builder) -> Builder) -> Self {
        Served::with_client(server, settings, |_| ()).0
    }

    /// A server that runs once a client has connected and sent what it sends first. So no deadline
    /// of the server depends on when this test gets a processor.
    pub(crate) fn with_client<T>(
        server: Settings,
        settings: impl FnOnce(Builder) -> Builder,
        client: impl FnOnce(SocketAddr) -> T,
    ) -> (Self, T) {
        Served::begin(server, settings, |server| server, client)
    }

    /// A server with other components.
    pub(crate) fn configured(
        settings: impl FnOnce(Builder) -> Builder,
        components: impl FnOnce(Server) -> Server,
    ) -> Self {
        Served::begin(Settings::default(), settings, components, |_| ()).0
    }

    fn begin<T>(
        server: Settings,
        settings: impl FnOnce(Builder) -> Builder,
        components: impl FnOnce(Server) -> Server,
        client: impl FnOnce(SocketAddr) -> T,
    ) -> (Self, T) {
        let directory = tempfile::tempdir().expect("a directory");
        let builder =
            Database::builder(directory.path().join("data")).durability(Durability::Os).segment_bytes(1 << 20);
        let database = settings(builder).open().expect("a database");
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("tokio");
        let any = "127.0.0.1:0".parse().expect("an address");
        // Tests compare the positions of the log.
        let server =
            runtime.block_on(Server::bind_with(database.clone(), any, server)).expect("a port").without_audit();
        let server = components(server);
        let connections = server.connections();
        let address = server.address().tcp().expect("it is bound to TCP");
        let client = client(address);
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let shutdown = async { drop(stopped.await) };
            runtime.block_on(server.run(shutdown)).expect("it serves");
        });
        let thread = Some(thread);
        let database = Some(database);
        (Served { address, database, connections, key: None, stop: Some(stop), thread, directory }, client)
    }

    /// A server with access control. `client` creates the user `client` and its rights. Each
    /// request presents a key of this user.
    pub(crate) fn with_access(client: impl FnOnce(&AccessControl<'_>)) -> Self {
        let mut served = Served::new();
        let access = served.database.as_ref().expect("open").access();
        access.init("root").expect("enabled");
        client(&access);
        let lifetime = Some(Duration::from_secs(3_600));
        let key = access.create_key("client", NewApiKey { lifetime, ..NewApiKey::default() }).expect("created");
        served.key = Some(key.reveal().to_owned());
        served
    }

    /// Stops the server, and waits until it has.
    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server ends well");
        }
    }

    /// Seals what is full, and damages the first segment 100 bytes behind where this text stands.
    /// Of a database whose caller does what else the background does.
    #[track_caller]
    pub(crate) fn damage(&self, text: &str) {
        let database = self.database.as_ref().expect("it is open");
        database.sync().expect("synced");
        while database.carry_out(quire::Duty::Seal).expect("sealed") {}
        let segment = self.path().join("shard-0000/00000000000000000001.log");
        let bytes = std::fs::read(&segment).expect("readable");
        let at = bytes.windows(text.len()).position(|window| window == text.as_bytes()).expect("it stands there");
        let file = std::fs::File::options().write(true).open(&segment).expect("opened");
        std::os::unix::fs::FileExt::write_all_at(&file, b"?", at as u64 + 100).expect("written");
    }

    /// Where the database is.
    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.directory.path().join("data")
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "")
    }

    #[track_caller]
    pub(crate) fn post(&self, path: &str, body: impl ToString) -> Answer {
        self.ask("POST", path, &body.to_string())
    }

    /// The JSON of a read that has to work.
    #[track_caller]
    pub(crate) fn read(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }

    /// The JSON of a request that has to work.
    #[track_caller]
    pub(crate) fn write(&self, path: &str, body: impl ToString) -> Value {
        let answer = self.post(path, body);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }

    /// A request that fails with this status and code; the answer's JSON.
    #[track_caller]
    pub(crate) fn fails(&self, method: &str, path: &str, body: &str, status: u16, code: &str) -> Value {
        let answer = self.ask(method, path, body);
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        let json = answer.json();
        assert_eq!(json["code"], code, "{path}: {answer:?}");
        assert!(json["detail"].as_str().is_some_and(|message| !message.is_empty()), "{answer:?}");
        assert_eq!((&json["type"], &json["status"]), (&format!("/errors/{code}").into(), &status.into()), "{answer:?}");
        assert!(json["title"].as_str().is_some_and(|title| title.ends_with('.')), "{answer:?}");
        let id = json["request_id"].as_str().expect("an id");
        assert!(answer.head.contains(&format!("x-request-id: {id}\r\n")), "{answer:?}");
        json
    }

    #[track_caller]
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> Answer {
        let head = self.head(method, path, body.len(), "Connection: close\r\n");
        let answer = self.send(&[head.as_bytes(), body.as_bytes()].concat());
        described::check(method, path, body, &answer);
        answer
    }

    /// The head of a request, with further headers.
    pub(crate) fn head(&self, method: &str, path: &str, body_bytes: usize, headers: &str) -> String {
        let kind = if body_bytes > 0 { "Content-Type: application/json\r\n" } else { "" };
        let address = self.address;
        let key = self.key.as_ref().map_or_else(String::new, |key| format!("Authorization: Bearer {key}\r\n"));
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\n{key}{kind}Content-Length: {body_bytes}\r\n{headers}\r\n"
        )
    }

    /// Sends these bytes as they are, and reads the answer.
    #[track_caller]
    pub(crate) fn send(&self, request: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        // A server that answers early may close before it has read everything.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        // A backup is the only answer that is not text.
        let answer = String::from_utf8(answer).unwrap_or_else(|error| {
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            assert!(text.contains("content-type: application/x-tar"), "answers are text");
            text
        });
        let (head, text) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        Answer { status, head: head.to_ascii_lowercase(), text: text.to_owned() }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && !std::thread::panicking()
        {
            thread.join().expect("the server ends well");
        }
    }
}
