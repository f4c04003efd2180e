//! Runs the command: to its end, or as a server that is known by its output.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

/// Longer than any step takes, also on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The command, without arguments.
pub(crate) fn quire() -> Command {
    Command::new(env!("CARGO_BIN_EXE_quire"))
}

/// The database of an earlier version in the corpus of the crate `quire`: objects share topic
/// names, and names have control characters.
pub(crate) fn earlier() -> tempfile::TempDir {
    let corpus = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../quire/tests/corpus/names"));
    let directory = tempfile::tempdir().expect("a directory");
    let shard = directory.path().join("shard-0000");
    fs::create_dir(&shard).expect("a directory");
    fs::copy(corpus.join("quire.meta"), directory.path().join("quire.meta")).expect("copied");
    let log = "00000000000000000001.log";
    fs::copy(corpus.join(log), shard.join(log)).expect("copied");
    let segment = fs::OpenOptions::new().write(true).open(shard.join(log)).expect("a segment");
    segment.set_len(4 << 20).expect("as long as it was");
    directory
}

/// The result of a finished run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the command to its end.
pub(crate) fn run(arguments: &[&str]) -> Ran {
    ran(quire().args(arguments).output().expect("the command can be started"))
}

/// Runs a command on the database in a directory.
pub(crate) fn run_on(data: &Path, arguments: &[&str]) -> Ran {
    ran(quire().args(arguments).arg("--data").arg(data).output().expect("the command can be started"))
}

pub(crate) fn ran(output: Output) -> Ran {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the command writes text");
    Ran { status: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

impl Ran {
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

/// The number after a label at the start of a line of a report.
#[track_caller]
pub(crate) fn number(report: &str, label: &str) -> u64 {
    let labelled = |line: &str| line.trim_start().strip_prefix(label)?.split_whitespace().next().map(str::to_owned);
    let found = report.lines().find_map(labelled).unwrap_or_else(|| panic!("no {label} in\n{report}"));
    found.replace(',', "").parse().unwrap_or_else(|_| panic!("{label} {found}"))
}

/// A command that serves until a signal. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    lines: Receiver<String>,
    pub(crate) kafka: String,
    pub(crate) http: String,
    pub(crate) grpc: String,
    /// The output until it served.
    pub(crate) report: String,
}

impl Server {
    /// `quire serve` on a directory, on free ports.
    #[track_caller]
    pub(crate) fn start(data: &Path) -> Self {
        Server::spawn(quire().arg("serve").arg("--durability").arg("os").arg("--data").arg(data))
    }

    /// A command that serves, on free ports.
    #[track_caller]
    pub(crate) fn spawn(command: &mut Command) -> Self {
        Server::spawn_at("127.0.0.1:0", command)
    }

    /// As [`Server::spawn`], with standard error written to a file.
    #[track_caller]
    pub(crate) fn logging(command: &mut Command, log: &Path) -> Self {
        Server::logging_at("127.0.0.1:0", command, log)
    }

    /// As [`Server::logging`], with this address for the Kafka protocol.
    #[track_caller]
    pub(crate) fn logging_at(kafka: &str, command: &mut Command, log: &Path) -> Self {
        let log = std::fs::File::create(log).expect("a file");
        Server::spawn_with(kafka, command, "serving until Ctrl-C", log.into())
    }

    /// As [`Server::spawn`], with this address for the Kafka protocol.
    #[track_caller]
    pub(crate) fn spawn_at(kafka: &str, command: &mut Command) -> Self {
        Server::spawn_until(kafka, command, "serving until Ctrl-C")
    }

    /// A command that serves on free ports, and does other work too.
    #[track_caller]
    pub(crate) fn at_work(command: &mut Command) -> Self {
        Server::spawn_until("127.0.0.1:0", command, "grpc ")
    }

    /// Waits for the line that starts with `last`.
    #[track_caller]
    fn spawn_until(kafka: &str, command: &mut Command, last: &str) -> Self {
        Server::spawn_with(kafka, command, last, Stdio::null())
    }

    #[track_caller]
    fn spawn_with(kafka: &str, command: &mut Command, last: &str, stderr: Stdio) -> Self {
        let prefix = if kafka.starts_with("plain://") { "plain://" } else { "" };
        let other = format!("{prefix}localhost:0");
        let command = command.args(["--kafka", kafka, "--http", &other, "--grpc", &other]);
        let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().expect("the command can be started");
        let lines = lines_of(child.stdout.take().expect("stdout is piped"));
        let mut server = Server {
            child,
            lines,
            kafka: String::new(),
            http: String::new(),
            grpc: String::new(),
            report: String::new(),
        };
        while !server.report.lines().last().is_some_and(|line| line.starts_with(last)) {
            let line = server.lines.recv_timeout(PATIENCE).expect("it says that it is serving");
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["kafka", address] => server.kafka = address.to_owned(),
                ["http", address] => server.http = address.to_owned(),
                ["grpc", address] => server.grpc = address.to_owned(),
                _ => {}
            }
            server.report.push_str(&line);
            server.report.push('\n');
        }
        server
    }

    /// The memory of the process without files, in bytes.
    #[cfg(target_os = "linux")]
    #[track_caller]
    pub(crate) fn memory_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        number(&status, "RssAnon:") << 10
    }

    /// Sends a signal.
    #[track_caller]
    pub(crate) fn signal(&self, signal: &str) {
        let process = self.child.id().to_string();
        let sent = Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", signal, &process]).status();
        assert!(sent.expect("there is a shell").success());
    }

    /// Sends a signal, and waits for the end. Returns the status, and the output in the meantime.
    #[track_caller]
    pub(crate) fn stop_by(self, signal: &str) -> (Option<i32>, String) {
        self.signal(signal);
        self.ended()
    }

    /// Waits for the end. Returns the status, and the output in the meantime.
    #[track_caller]
    pub(crate) fn ended(mut self) -> (Option<i32>, String) {
        let mut printed = String::new();
        // Its standard output closes at its end.
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => printed.extend([&line, "\n"]),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("it goes on"),
            }
        }
        (self.child.wait().expect("it can be waited for").code(), printed)
    }

    /// The response to a Kafka request, without its length.
    #[track_caller]
    pub(crate) fn ask_kafka(&self, request: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(&self.kafka).expect("a connection");
        stream.write_all(&[&(request.len() as u32).to_be_bytes()[..], request].concat()).expect("taken");
        let mut length = [0; 4];
        stream.read_exact(&mut length).expect("an answer");
        let mut answer = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut answer).expect("an answer");
        answer
    }

    /// The body of a response with status 200.
    #[track_caller]
    pub(crate) fn text(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.http).expect("it listens");
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.http).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        assert!(answer.starts_with("HTTP/1.0 200") || answer.starts_with("HTTP/1.1 200"), "{answer}");
        answer.split_once("\r\n\r\n").expect("headers and a body").1.to_owned()
    }

    /// The status and the body of the response to a request.
    #[track_caller]
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> (u16, serde_json::Value) {
        self.ask_with(method, path, body, "")
    }

    /// The same, for a request with more header lines.
    #[track_caller]
    pub(crate) fn ask_with(&self, method: &str, path: &str, body: &str, lines: &str) -> (u16, serde_json::Value) {
        let answer = self.raw(method, path, body, lines);
        let (head, body) = answer.split_once("\r\n\r\n").expect("headers and a body");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        (status, serde_json::from_str(body).expect("JSON"))
    }

    /// The whole response to a request.
    #[track_caller]
    pub(crate) fn raw(&self, method: &str, path: &str, body: &str, lines: &str) -> String {
        let mut stream = TcpStream::connect(&self.http).expect("it listens");
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{lines}\r\n{body}",
            self.http
        )
        .expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended already in every test that passes.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command that prints lines over time. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    #[track_caller]
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut child = quire().args(arguments).stdout(Stdio::piped()).spawn().expect("the command can be started");
        let lines = lines_of(child.stdout.take().expect("stdout is piped"));
        Running { child, lines }
    }

    /// The next line of output.
    #[track_caller]
    pub(crate) fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("it prints a line")
    }

    /// Waits for the end, without further output.
    #[track_caller]
    pub(crate) fn ends(mut self) -> Option<i32> {
        assert_eq!(self.lines.recv_timeout(PATIENCE), Err(mpsc::RecvTimeoutError::Disconnected));
        self.child.wait().expect("it can be waited for").code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already in every test that passes.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines_of(stdout: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
