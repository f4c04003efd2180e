//! Server processes on one database, and requests to them while they are killed and restarted.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, RwLock};

use serde_json::Value;
use tempfile::TempDir;

/// Servers on one directory.
pub(crate) struct Servers {
    folder: TempDir,
    children: Vec<Mutex<Child>>,
    /// The present address of each server.
    addresses: Vec<RwLock<String>>,
}

/// The result of a request.
#[derive(Debug)]
pub(crate) enum Answered {
    /// Status 200.
    Ok(Value),
    /// Another status, with its code.
    Refused(u16, String),
    /// No response: the request may have been carried out.
    Lost,
}

impl Servers {
    /// Starts `count` servers on a new database.
    pub(crate) fn start(count: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut servers = Servers { folder, children: Vec::new(), addresses: Vec::new() };
        for _ in 0..count {
            let (child, address) = servers.spawn();
            servers.children.push(Mutex::new(child));
            servers.addresses.push(RwLock::new(address));
        }
        servers
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn spawn(&self) -> (Child, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quire"));
        command.args([
            "serve",
            "--durability",
            "os",
            "--kafka",
            "127.0.0.1:0",
            "--http",
            "127.0.0.1:0",
            "--grpc",
            "127.0.0.1:0",
        ]);
        command.arg("--data").arg(self.data()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("it can be started");
        let mut address = None;
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        for line in lines.map(|line| line.expect("text")) {
            if let ["http", found] = line.split_whitespace().collect::<Vec<_>>()[..] {
                address = Some(found.to_owned());
            }
            if line == "serving until Ctrl-C" {
                break;
            }
        }
        (child, address.expect("it says where it listens"))
    }

    /// Kills a server, and starts it again.
    pub(crate) fn kill_and_start(&self, server: usize) {
        let mut child = self.child(server);
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        let (another, address) = self.spawn();
        *child = another;
        *self.addresses[server].write().expect("no panic") = address;
    }

    fn child(&self, server: usize) -> MutexGuard<'_, Child> {
        self.children[server].lock().expect("no panic")
    }

    /// Sends a request to a server once.
    pub(crate) fn ask(&self, server: usize, method: &str, path: &str, body: &Value) -> Answered {
        let address = self.addresses[server].read().expect("no panic").clone();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.0\r\nHost: {address}\r\n{kind}Content-Length: {length}\r\n\r\n");
        let exchange = || {
            let mut stream = TcpStream::connect(&address).ok()?;
            stream.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice()).ok()?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).ok()?;
            let (head, body) = answer.split_once("\r\n\r\n")?;
            let status: u16 = head.split(' ').nth(1)?.parse().ok()?;
            // An incomplete response does not count.
            Some((status, serde_json::from_str::<Value>(body).ok()?))
        };
        match exchange() {
            None => Answered::Lost,
            Some((200, body)) => Answered::Ok(body),
            Some((status, body)) => Answered::Refused(status, body["code"].as_str().unwrap_or_default().to_owned()),
        }
    }

    /// Repeats a request until there is a response.
    pub(crate) fn until_answered(&self, server: usize, method: &str, path: &str, body: &Value) -> Value {
        loop {
            match self.ask(server, method, path, body) {
                Answered::Ok(answer) => return answer,
                Answered::Lost => std::thread::yield_now(),
                Answered::Refused(status, code) => panic!("{status} {code}"),
            }
        }
    }

    /// The body of a query.
    pub(crate) fn get(&self, server: usize, path: &str) -> Value {
        self.until_answered(server, "GET", path, &Value::Null)
    }

    /// Appends, and returns whether the condition held. After a lost response it sends the same
    /// event id again.
    pub(crate) fn append(&self, server: usize, append: &Value) -> bool {
        loop {
            match self.ask(server, "POST", "/v1/events/checked/append", append) {
                Answered::Ok(_) => return true,
                Answered::Refused(409, code) if code == "condition_failed" => return false,
                Answered::Refused(status, code) => panic!("{status} {code}"),
                Answered::Lost => {
                    assert!(append["events"][0]["id"].is_string(), "nobody is killed here");
                    std::thread::yield_now();
                }
            }
        }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for child in &self.children {
            let mut child = child.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            // A process that has ended must be waited for, too.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
