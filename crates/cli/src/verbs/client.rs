//! A minimal HTTP client for a Quire server. It sends one request per connection, in HTTP/1.0: each
//! response ends with its connection, and nothing is chunked.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use quire_access::ListenAddress;
use serde_json::Value;

use super::exact;
use super::names::{self, ObjectName};
use crate::failure::{CommandError, Result};

/// Longer than any read takes. The client gives up on a server that is stuck for this time.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Sends requests to one server.
#[derive(Debug, Clone)]
pub struct HttpClient {
    address: ListenAddress,
    /// The limit of each read.
    timeout: Duration,
}

/// A connection to a server.
#[derive(Debug)]
enum ServerStream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl ServerStream {
    fn connect(address: &ListenAddress) -> std::io::Result<Self> {
        Ok(match address {
            ListenAddress::Tcp(address) => ServerStream::Tcp(TcpStream::connect(address)?),
            ListenAddress::Unix(path) => ServerStream::Unix(UnixStream::connect(path)?),
        })
    }

    fn set_read_timeout(&self, timeout: Option<Duration>) -> std::io::Result<()> {
        match self {
            ServerStream::Tcp(stream) => stream.set_read_timeout(timeout),
            ServerStream::Unix(stream) => stream.set_read_timeout(timeout),
        }
    }
}

impl Read for ServerStream {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        match self {
            ServerStream::Tcp(stream) => stream.read(bytes),
            ServerStream::Unix(stream) => stream.read(bytes),
        }
    }
}

impl Write for ServerStream {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            ServerStream::Tcp(stream) => stream.write(bytes),
            ServerStream::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            ServerStream::Tcp(stream) => stream.flush(),
            ServerStream::Unix(stream) => stream.flush(),
        }
    }
}

impl HttpClient {
    /// A client of the server at this address. It does not connect yet.
    pub fn new(address: impl Into<ListenAddress>) -> Self {
        HttpClient { address: address.into(), timeout: TIMEOUT }
    }

    /// The address, as `--http` takes it.
    pub(crate) fn address(&self) -> String {
        match &self.address {
            ListenAddress::Tcp(address) => format!("http://{address}"),
            socket @ ListenAddress::Unix(_) => socket.to_string(),
        }
    }

    /// Sends a GET request.
    ///
    /// # Errors
    /// When the server can't be reached, or responds with an error. The message is the server's.
    pub fn get(&self, path: &Path) -> Result<Value> {
        self.get_bytes(path).and_then(|body| self.json(&body))
    }

    /// Sends a GET request. Returns the server's error with its facts as a value.
    ///
    /// # Errors
    /// When the server can't be reached.
    pub(super) fn try_get(&self, path: &Path) -> Result<Result<Value, Value>> {
        self.try_ask("GET", path, b"")
    }

    /// Sends a GET request whose response is not JSON.
    ///
    /// # Errors
    /// As [`HttpClient::get`].
    pub(crate) fn get_bytes(&self, path: &Path) -> Result<Vec<u8>> {
        self.ask("GET", path, b"")
    }

    /// Sends a POST request with a JSON body.
    ///
    /// # Errors
    /// As [`HttpClient::get`].
    pub fn post(&self, path: &Path, body: &Value) -> Result<Value> {
        let answer = self.exchange("POST", path, exact::text(body).as_bytes())?;
        let body = self.parsed(&answer, || path.named.iter().cloned().chain(ObjectName::in_parts(body)).collect())?;
        self.json(&body)
    }

    /// Sends a POST request without a body, and waits for the response without a limit.
    ///
    /// # Errors
    /// As [`HttpClient::get`].
    pub(super) fn post_patiently(&self, path: &Path) -> Result<Value> {
        let failed = |error| CommandError::at(format_args!("ask the server at {}", self.address), error);
        let mut stream = self.send("POST", path, b"")?;
        stream.set_read_timeout(None).map_err(failed)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).map_err(failed)?;
        self.json(&self.parsed(&answer, || path.names())?)
    }

    /// Sends a DELETE request.
    ///
    /// # Errors
    /// As [`HttpClient::get`].
    pub(super) fn delete(&self, path: &Path) -> Result<Value> {
        self.ask("DELETE", path, b"").and_then(|body| self.json(&body))
    }

    /// Sends a POST request with a JSON body. Returns the server's error with its facts as a value.
    ///
    /// # Errors
    /// When the server can't be reached.
    pub(super) fn try_post(&self, path: &Path, body: &Value) -> Result<Result<Value, Value>> {
        self.try_ask("POST", path, exact::text(body).as_bytes())
    }

    fn try_ask(&self, method: &str, path: &Path, body: &[u8]) -> Result<Result<Value, Value>> {
        match parse(&self.exchange(method, path, body)?) {
            Ok(body) => self.json(&body).map(Ok),
            Err(ResponseProblem::Told(problem)) => Ok(Err(problem)),
            Err(ResponseProblem::Odd(what)) => Err(self.odd(what)),
            Err(ResponseProblem::Cut) => Err(self.cut()),
        }
    }

    /// Sends a GET request and passes each line of the response to `line` as it arrives. Stops when
    /// `line` returns false or the server ends the response. Returns whether `line` ended it.
    ///
    /// # Errors
    /// As [`HttpClient::get`], when no line arrives for a minute, and the errors of `line`.
    pub(super) fn lines(&self, path: &Path, line: impl FnMut(&str) -> Result<bool>) -> Result<bool> {
        self.lines_of("GET", path, b"", line)
    }

    /// As [`HttpClient::lines`], for a POST request with a body of bytes.
    ///
    /// # Errors
    /// As [`HttpClient::lines`].
    pub(super) fn post_lines(&self, path: &Path, body: &[u8], line: impl FnMut(&str) -> Result<bool>) -> Result<bool> {
        self.lines_of("POST", path, body, line)
    }

    /// Sends a GET request, and returns the body of the response as it arrives. It waits without a
    /// limit: a backup waits for its turn, and for memory.
    ///
    /// # Errors
    /// As [`HttpClient::get`].
    pub(crate) fn stream(&self, path: &Path) -> Result<impl Read + use<>> {
        self.begin("GET", path, b"", None)
    }

    fn lines_of(
        &self,
        method: &str,
        path: &Path,
        body: &[u8],
        mut line: impl FnMut(&str) -> Result<bool>,
    ) -> Result<bool> {
        let failed = |error| CommandError::at(format_args!("ask the server at {}", self.address), error);
        let mut stream = self.begin(method, path, body, Some(self.timeout))?;
        loop {
            let mut text = String::new();
            stream.read_line(&mut text).map_err(failed)?;
            // A line without an end is incomplete: the server closed the connection.
            let Some(whole) = text.strip_suffix('\n') else { return Ok(false) };
            if !line(whole.strip_suffix('\r').unwrap_or(whole))? {
                return Ok(true);
            }
        }
    }

    /// Sends a request, and reads the head of a response with status 200. `timeout` limits each
    /// read.
    fn begin(
        &self,
        method: &str,
        path: &Path,
        body: &[u8],
        timeout: Option<Duration>,
    ) -> Result<BufReader<ServerStream>> {
        let failed = |error| CommandError::at(format_args!("ask the server at {}", self.address), error);
        let stream = self.send(method, path, body)?;
        stream.set_read_timeout(timeout).map_err(failed)?;
        let mut stream = BufReader::new(stream);
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if stream.read_until(b'\n', &mut head).map_err(failed)? == 0 {
                break;
            }
        }
        if head.starts_with(b"HTTP/1.0 200") || head.starts_with(b"HTTP/1.1 200") {
            return Ok(stream);
        }
        stream.read_to_end(&mut head).map_err(failed)?;
        Err(match self.parsed(&head, || path.names()) {
            Ok(_) => self.odd("a response without its status"),
            Err(failure) => failure,
        })
    }

    /// Parses a part of a response.
    ///
    /// # Errors
    /// When it is not JSON.
    pub(super) fn json(&self, body: &[u8]) -> Result<Value> {
        str::from_utf8(body).ok().and_then(|body| exact::parse(body).ok()).ok_or_else(|| self.odd("no JSON"))
    }

    fn odd(&self, what: &str) -> CommandError {
        CommandError::new(format!("{} does not respond like a Quire server: {what}", self.address))
    }

    fn cut(&self) -> CommandError {
        let address = &self.address;
        CommandError::new(format!(
            "the server at {address} closed the connection in the middle of its answer; it may have done what was asked"
        ))
    }

    /// Sends a request, and returns the body of its response.
    fn ask(&self, method: &str, path: &Path, body: &[u8]) -> Result<Vec<u8>> {
        self.parsed(&self.exchange(method, path, body)?, || path.names())
    }

    /// Sends a request, and returns its response.
    fn exchange(&self, method: &str, path: &Path, body: &[u8]) -> Result<Vec<u8>> {
        let mut answer = Vec::new();
        let read = self.send(method, path, body)?.read_to_end(&mut answer);
        read.map_err(|error| CommandError::at(format_args!("ask the server at {}", self.address), error))?;
        Ok(answer)
    }

    /// Sends a request. The caller reads the response.
    fn send(&self, method: &str, path: &Path, body: &[u8]) -> Result<ServerStream> {
        let HttpClient { address, timeout } = self;
        let failed = |error: std::io::Error| CommandError::at(format_args!("ask the server at {address}"), error);
        let mut stream = ServerStream::connect(address).map_err(failed)?;
        stream.set_read_timeout(Some(*timeout)).map_err(failed)?;
        let (path, length) = (&path.text, body.len());
        let host = address.tcp().map_or("localhost".to_owned(), |address| address.to_string());
        let request = format!(
            "{method} {path} HTTP/1.0\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).map_err(failed)?;
        match stream.write_all(body) {
            // A server that responds before it has read the body may close the connection. The
            // response gives the reason.
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => Ok(stream),
            sent => sent.map(|()| stream).map_err(failed),
        }
    }

    /// The body of a response. The message of an error has a hint for an unknown object of `named`.
    fn parsed(&self, answer: &[u8], named: impl FnOnce() -> Vec<ObjectName>) -> Result<Vec<u8>> {
        parse(answer).map_err(|problem| match problem {
            ResponseProblem::Odd(what) => self.odd(what),
            ResponseProblem::Cut => self.cut(),
            ResponseProblem::Told(problem) => CommandError::new(names::with_hint(self, &named(), &problem)),
        })
    }
}

/// A percent-encoded path with its query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    text: String,
    /// The object that the path names.
    named: Option<ObjectName>,
}

impl Path {
    /// `/v1`, followed by these segments.
    pub fn new(segments: &[&str]) -> Self {
        let mut path = "/v1".to_owned();
        for segment in segments {
            path.push('/');
            path.push_str(&encoded(segment));
        }
        Path { text: path, named: ObjectName::in_path(segments) }
    }

    /// The objects that it names.
    fn names(&self) -> Vec<ObjectName> {
        self.named.iter().cloned().collect()
    }

    /// A path that is not part of `/v1`.
    pub(crate) fn root(path: &str) -> Self {
        Path { text: path.to_owned(), named: None }
    }

    /// Adds a query parameter.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: impl ToString) -> Self {
        let separator = if self.text.contains('?') { '&' } else { '?' };
        self.text.push(separator);
        self.text.push_str(&format!("{name}={}", encoded(&value.to_string())));
        self
    }

    /// Adds a query parameter for each value.
    #[must_use]
    pub(super) fn with_all(self, name: &str, values: &[String]) -> Self {
        values.iter().fold(self, |path, value| path.with(name, value))
    }
}

/// Percent-encodes all but the unreserved characters (RFC 3986).
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// The reason why there is no response.
#[derive(Debug, PartialEq, Eq)]
enum ResponseProblem {
    /// The response is not that of a Quire server.
    Odd(&'static str),
    /// The response is incomplete.
    Cut,
    /// An error from the server: a detail, and facts.
    Told(Value),
}

fn parse(answer: &[u8]) -> Result<Vec<u8>, ResponseProblem> {
    let begun = answer.is_empty() || answer.starts_with(b"HTTP/");
    let no_end = if begun { ResponseProblem::Cut } else { ResponseProblem::Odd("no end of headers") };
    let head_end = answer.windows(4).position(|window| window == b"\r\n\r\n").ok_or(no_end)?;
    let head = str::from_utf8(&answer[..head_end]).map_err(|_| ResponseProblem::Odd("headers that are not text"))?;
    let body = &answer[head_end + 4..];
    let status = head.split(' ').nth(1).ok_or(ResponseProblem::Odd("no status"))?;
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    };
    if head.lines().find_map(header).is_some_and(|length| length != body.len()) {
        return Err(ResponseProblem::Cut);
    }
    if status == "200" {
        return Ok(body.to_vec());
    }
    let body: Value = serde_json::from_slice(body).map_err(|_| ResponseProblem::Odd("no JSON"))?;
    match body["detail"].is_string() {
        true => Err(ResponseProblem::Told(body)),
        false => Err(ResponseProblem::Odd("an error without a detail")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded_in_paths_and_queries() {
        let path = Path::new(&["events", "air/flights"]).with("tag", "plane:N1&x").with("limit", 5);
        assert_eq!(path.text, "/v1/events/air%2Fflights?tag=plane%3AN1%26x&limit=5");
    }

    #[test]
    fn a_response_is_its_body_and_an_error_its_message() {
        let answer = b"HTTP/1.0 200 OK\r\ncontent-length: 9\r\n\r\n{\"a\": 1}\n";
        assert_eq!(parse(answer), Ok(b"{\"a\": 1}\n".to_vec()));
        let refused = b"HTTP/1.0 404 Not Found\r\n\r\n{\"code\":\"not_found\",\"detail\":\"there is none\"}";
        let problem = serde_json::json!({ "code": "not_found", "detail": "there is none" });
        assert_eq!(parse(refused), Err(ResponseProblem::Told(problem)));
    }

    #[test]
    fn an_invalid_response_names_its_problem() {
        for (answer, problem) in [
            (&b"SSH-2.0"[..], "no end of headers"),
            (b"HTTP/1.0 404 Not Found\r\n\r\nhello", "no JSON"),
            (b"HTTP/1.0 500 Oh\r\n\r\n{}", "an error without a detail"),
        ] {
            assert_eq!(parse(answer), Err(ResponseProblem::Odd(problem)));
        }
        for answer in [&b""[..], b"HTTP/1.0 200 OK\r\n", b"HTTP/1.0 200 OK\r\ncontent-length: 9\r\n\r\n{}"] {
            assert_eq!(parse(answer), Err(ResponseProblem::Cut));
        }
    }

    #[test]
    fn an_incomplete_line_of_a_response_is_dropped() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let client = HttpClient::new(listener.local_addr().expect("an address"));
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut asked = BufReader::new(stream.try_clone().expect("a stream")).lines();
            while asked.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n{\"imported\":0}\n{\"impo").expect("taken");
        });
        let mut lines = Vec::new();
        let enough = client.post_lines(&Path::new(&["graphs"]), b"", |line| {
            lines.push(line.to_owned());
            Ok(true)
        });
        assert!(!enough.expect("an answer"));
        assert_eq!(lines, ["{\"imported\":0}"]);
        server.join().expect("served");
    }

    #[test]
    fn a_stream_waits_for_its_turn_beyond_the_timeout_of_other_requests() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let client = HttpClient { timeout: Duration::from_millis(1), ..HttpClient::new(address) };
        let (arrived, backup_arrived) = std::sync::mpsc::channel();
        let (may_answer, told) = std::sync::mpsc::channel();
        let server = std::thread::spawn(move || {
            let (backup, _) = listener.accept().expect("a client");
            let mut backup = BufReader::new(backup);
            while backup.by_ref().lines().next().is_some_and(|line| !line.expect("a line").is_empty()) {}
            arrived.send(()).expect("it waits");
            told.recv().expect("told");
            backup.get_mut().write_all(b"HTTP/1.0 200 OK\r\n\r\narchive").expect("taken");
        });
        let path = Path::new(&["backup"]);
        let backup = std::thread::spawn({
            let (client, path) = (client.clone(), path.clone());
            move || client.stream(&path).map(|mut archive| std::io::read_to_string(&mut archive).expect("read"))
        });
        backup_arrived.recv().expect("told");
        // Nobody answers this request: it ends by the timeout, which is over for the backup, too.
        assert!(client.get_bytes(&path).is_err());
        may_answer.send(()).expect("it waits");
        assert_eq!(backup.join().expect("no panic").expect("an answer"), "archive");
        server.join().expect("served");
    }
}
