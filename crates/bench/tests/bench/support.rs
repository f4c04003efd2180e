//! Runs the program: to its end, or as a server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The program, without arguments.
fn bench() -> Command {
    Command::new(env!("CARGO_BIN_EXE_quire-bench"))
}

/// The result of a finished run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the program to its end.
pub(crate) fn run(arguments: &[&str]) -> Run {
    let output = bench().args(arguments).output().expect("the program can be started");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the program writes text");
    Run { status: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

impl Run {
    /// Checks for status 0, and returns the output.
    #[track_caller]
    pub(crate) fn succeeded(self) -> String {
        assert_eq!(self.status, Some(0), "{self:?}");
        self.stdout
    }

    /// Checks for status 1 and one line for the user that contains `message`.
    #[track_caller]
    pub(crate) fn failed_with(self, message: &str) {
        assert_eq!(self.status, Some(1), "{self:?}");
        let lines: Vec<&str> = self.stderr.lines().filter(|line| line.starts_with("quire: ")).collect();
        assert!(matches!(lines[..], [line] if line.contains(message)), "{self:?}");
    }
}

/// A server on free ports. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct LoadedServer {
    child: Child,
    pub(crate) kafka: String,
    http: String,
}

impl LoadedServer {
    /// Serves a directory, and waits until it serves.
    #[track_caller]
    pub(crate) fn start(data: &Path) -> Self {
        let mut command = bench();
        command.args(["serve", "--durability", "os", "--data"]).arg(data);
        command.args(["--kafka", "127.0.0.1:0", "--http", "localhost:0", "--grpc", "localhost:0"]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program can be started");
        let (mut kafka, mut http) = (String::new(), String::new());
        let lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        for line in lines.map(|line| line.expect("text")) {
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["kafka", address] => kafka = address.to_owned(),
                ["http", address] => http = address.to_owned(),
                ["serving", ..] => break,
                _ => {}
            }
        }
        LoadedServer { child, kafka, http }
    }

    /// The body of the response to a GET request.
    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> serde_json::Value {
        let mut stream = TcpStream::connect(&self.http).expect("it listens");
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.http).expect("it reads");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("it responds");
        let (_, body) = response.split_once("\r\n\r\n").expect("headers and a body");
        serde_json::from_str(body).expect("JSON")
    }
}

impl Drop for LoadedServer {
    fn drop(&mut self) {
        // The server may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
