//! Requests of commands to a server, over `quire-client`.
//!
//! A command sends each request once, and reports a lost answer: the user decides what to do. User
//! data in answers stays byte for byte, as [`exact`] reads it, and an unknown name gets a hint.

use std::error::Error as _;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};

use quire_access::LocalRead;
use quire_client::{Call, Client, ClientBuilder, ClientError, FailureKind};
use serde_json::{Value, json};

use super::exact;
use super::key_file::KeyFile;
use super::names::{self, ObjectName};
use super::print::word;
use crate::failure::{CommandError, Result};
use crate::server_address::ServerAddress;

/// The longest line of a response, in bytes. Those of a server are smaller.
const LINE_BYTES_MAX: u64 = 256 << 20;

/// Sends requests to one server.
#[derive(Debug, Clone)]
pub(crate) struct HttpClient {
    client: Client,
    builder: ClientBuilder,
    /// Set when the server answers reads from its own records.
    read: Option<LocalRead>,
}

impl HttpClient {
    /// A client of the server at this address. It does not connect yet. The variables `QUIRE_KEY`
    /// and `QUIRE_CA` have its API key and its trusted roots.
    ///
    /// # Errors
    /// When the key can't be sent, or the roots can't be read.
    pub(crate) fn new(address: &ServerAddress) -> Result<Self> {
        HttpClient::with_key(address, &KeyFile::default())
    }

    /// The same, with the API key of a file, if there is one.
    ///
    /// # Errors
    /// As [`HttpClient::new`], and when the file can't be read.
    pub(crate) fn with_key(address: &ServerAddress, key: &KeyFile) -> Result<Self> {
        let builder = Client::builder(address.as_str()).of_environment().without_retries();
        HttpClient::build(key.read()?.into_iter().fold(builder, ClientBuilder::api_key))
    }

    /// A client of the server that this process runs for itself. It sends no credential.
    ///
    /// # Errors
    /// When the address is invalid.
    pub(super) fn of_owner(address: &ServerAddress) -> Result<Self> {
        HttpClient::build(Client::builder(address.as_str()).without_retries())
    }

    fn build(builder: ClientBuilder) -> Result<Self> {
        let client = builder.clone().build().map_err(|error| CommandError::new(error.to_string()))?;
        Ok(HttpClient { client, builder, read: None })
    }

    /// Ends the calls of this client, also those of other threads.
    pub(super) fn close(&self) {
        self.client.close();
    }

    /// A client of the same server in the place of a closed one.
    ///
    /// # Errors
    /// When the trusted roots can no longer be read.
    pub(super) fn renewed(&self) -> Result<Self> {
        Ok(HttpClient::build(self.builder.clone())?.reading(self.read))
    }

    /// The same client, whose server answers reads from its own records if `read` is given.
    #[must_use]
    pub(super) fn reading(self, read: Option<LocalRead>) -> Self {
        let client = match read {
            None => self.client,
            Some(LocalRead::Now) => self.client.local(),
            Some(LocalRead::At(position)) => self.client.local_at(position.get()),
        };
        HttpClient { client, read, ..self }
    }

    /// The address, as `--http` takes it.
    pub(crate) fn address(&self) -> String {
        self.client.address().to_owned()
    }

    /// An idempotency key that no other request has.
    pub(super) fn new_key(&self) -> String {
        self.client.new_key()
    }

    /// Sends a GET request.
    ///
    /// # Errors
    /// When the server can't be reached, or responds with an error. The message is the server's.
    pub(crate) fn get(&self, path: &Path) -> Result<Value> {
        self.get_bytes(path).and_then(|body| self.json(&body))
    }

    /// Sends a GET request. Returns the server's error with its facts as a value.
    ///
    /// # Errors
    /// When the server can't be reached.
    pub(super) fn try_get(&self, path: &Path) -> Result<Result<Value, Value>> {
        self.attempt(&path.call(Call::get))
    }

    /// Sends a GET request whose response is not JSON.
    ///
    /// # Errors
    /// As [`HttpClient::get`].
    pub(crate) fn get_bytes(&self, path: &Path) -> Result<Vec<u8>> {
        self.bytes(&path.call(Call::get)).map_err(|error| self.failure(&error, || path.names()))
    }

    /// Sends a POST request with a JSON body.
    ///
    /// # Errors
    /// As [`HttpClient::get`].
    pub(crate) fn post(&self, path: &Path, body: &Value) -> Result<Value> {
        let names = || path.names().into_iter().chain(ObjectName::in_parts(body)).collect();
        let answer = self.bytes(&path.post(body)).map_err(|error| self.failure(&error, names))?;
        self.json(&answer)
    }

    /// Sends a POST request with a JSON body that the server parses.
    ///
    /// # Errors
    /// As [`HttpClient::get`].
    pub(super) fn post_bytes(&self, path: &Path, body: &[u8]) -> Result<Value> {
        let answer = self.bytes(&path.call(Call::post).body("application/json", body));
        self.json(&answer.map_err(|error| self.failure(&error, Vec::new))?)
    }

    /// Sends a POST request without a body, and waits for the response without a limit.
    ///
    /// # Errors
    /// As [`HttpClient::get`].
    pub(super) fn post_patiently(&self, path: &Path) -> Result<Value> {
        let answer = self.bytes(&path.call(Call::post).patiently());
        self.json(&answer.map_err(|error| self.failure(&error, || path.names()))?)
    }

    /// Sends a DELETE request.
    ///
    /// # Errors
    /// As [`HttpClient::get`].
    pub(super) fn delete(&self, path: &Path) -> Result<Value> {
        let answer = self.bytes(&path.call(Call::delete));
        self.json(&answer.map_err(|error| self.failure(&error, || path.names()))?)
    }

    /// Sends a POST request with a JSON body. Returns the server's error with its facts as a value.
    ///
    /// # Errors
    /// When the server can't be reached.
    pub(super) fn try_post(&self, path: &Path, body: &Value) -> Result<Result<Value, Value>> {
        self.attempt(&path.post(body))
    }

    /// Sends a POST request without a body, and waits for the response without a limit. Returns the
    /// server's error with its facts as a value.
    ///
    /// # Errors
    /// When the server can't be reached.
    pub(super) fn try_post_patiently(&self, path: &Path) -> Result<Result<Value, Value>> {
        self.attempt(&path.call(Call::post).patiently())
    }

    /// Sends a request. Returns the server's error with its facts as a value.
    ///
    /// # Errors
    /// When the server can't be reached.
    fn attempt(&self, call: &Call) -> Result<Result<Value, Value>> {
        match self.bytes(call) {
            Ok(body) => self.json(&body).map(Ok),
            Err(error) if error.kind() == FailureKind::Problem => Ok(Err(problem(&error))),
            Err(error) => Err(self.failure(&error, Vec::new)),
        }
    }

    /// Sends a GET request to a subscription, and passes the name and the data of each server-sent
    /// event to `event` as it arrives. Stops when `event` returns false or the server ends the
    /// response. Returns whether `event` ended it.
    ///
    /// # Errors
    /// As [`HttpClient::get`], when no line arrives for a minute, an error that the server sends,
    /// and the errors of `event`.
    pub(super) fn follow(&self, path: &Path, mut event: impl FnMut(&str, Value) -> Result<bool>) -> Result<bool> {
        let mut name = String::new();
        self.lines_of(&path.call(Call::get), path, |line| {
            // A line names the kind of the data on the next line.
            match line.split_once(": ") {
                Some(("event", event)) => event.clone_into(&mut name),
                Some(("data", data)) if name == "error" => {
                    return Err(CommandError::new(word(&self.json(data.as_bytes())?, "detail")));
                }
                Some(("data", data)) => return event(&name, self.json(data.as_bytes())?),
                _ => {}
            }
            Ok(true)
        })
    }

    /// Sends a POST request with a body of bytes, and passes each line of the response to `line` as
    /// it arrives. Stops when `line` returns false or the server ends the response. Returns whether
    /// `line` ended it.
    ///
    /// # Errors
    /// As [`HttpClient::get`], when no line arrives for a minute, and the errors of `line`.
    pub(super) fn post_lines(&self, path: &Path, body: &[u8], line: impl FnMut(&str) -> Result<bool>) -> Result<bool> {
        self.lines_of(&path.call(Call::post).body("application/json", body), path, line)
    }

    fn lines_of(&self, call: &Call, path: &Path, mut line: impl FnMut(&str) -> Result<bool>) -> Result<bool> {
        let stream = self.client.stream(call).map_err(|error| self.failure(&error, || path.names()))?;
        let mut stream = BufReader::new(stream);
        loop {
            let mut text = String::new();
            match stream.by_ref().take(LINE_BYTES_MAX).read_line(&mut text) {
                Ok(count) if count as u64 == LINE_BYTES_MAX && !text.ends_with('\n') => {
                    return Err(self.foreign(&format!("a line is longer than {LINE_BYTES_MAX} bytes")));
                }
                // The server was killed.
                Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
                    return Ok(false);
                }
                Err(error) => {
                    return Err(CommandError::at(format_args!("ask the server at {}", self.address()), error));
                }
                Ok(_) => {}
            }
            // A line without an end is incomplete: the server closed the connection.
            let Some(whole) = text.strip_suffix('\n') else { return Ok(false) };
            if !line(whole.strip_suffix('\r').unwrap_or(whole))? {
                return Ok(true);
            }
        }
    }

    /// Sends a GET request, and returns the body of the response as it arrives. It waits without a
    /// limit: a backup waits for its turn, and for memory.
    ///
    /// # Errors
    /// As [`HttpClient::get`].
    pub(crate) fn stream(&self, path: &Path) -> Result<impl Read + use<>> {
        let call = path.call(Call::get).patiently();
        self.client.stream(&call).map_err(|error| self.failure(&error, || path.names()))
    }

    /// Sends a GET request, and writes the body of the response as it arrives.
    ///
    /// # Errors
    /// As [`HttpClient::get`], and when the response is cut or `out` fails.
    pub(super) fn download(&self, path: &Path, mut out: &mut dyn Write) -> Result {
        let downloaded = self.client.download(&path.call(Call::get), &mut out);
        downloaded.map(drop).map_err(|error| {
            match error.source().and_then(|source| source.downcast_ref::<io::Error>()) {
                Some(source) => io::Error::new(source.kind(), source.to_string()).into(),
                None => self.failure(&error, || path.names()),
            }
        })
    }

    /// Parses a part of a response.
    ///
    /// # Errors
    /// When it is not JSON.
    pub(super) fn json(&self, body: &[u8]) -> Result<Value> {
        str::from_utf8(body).ok().and_then(|body| exact::parse(body).ok()).ok_or_else(|| self.foreign("no JSON"))
    }

    /// Sends a request, and returns the body of its response. Each read has a limit, not the whole.
    fn bytes(&self, call: &Call) -> Result<Vec<u8>, ClientError> {
        self.client.send_once(call)
    }

    fn foreign(&self, what: &str) -> CommandError {
        CommandError::new(format!("{} does not respond like a Quire server: {what}", self.address()))
    }

    /// The error of a command. It has a hint for an unknown object of `named`.
    fn failure(&self, error: &ClientError, named: impl FnOnce() -> Vec<ObjectName>) -> CommandError {
        match error.kind() {
            FailureKind::Problem => CommandError::new(names::with_hint(self, &named(), &problem(error))),
            _ => CommandError::new(error.to_string()),
        }
    }
}

/// The problem of an error: its facts, its code and its detail.
fn problem(error: &ClientError) -> Value {
    let mut problem = error.facts().clone();
    problem.insert("code".to_owned(), json!(error.code_name()));
    problem.insert("detail".to_owned(), json!(error.to_string()));
    Value::Object(problem)
}

/// A path with its query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    /// Below `/v1`; none for a path outside of it.
    segments: Option<Vec<String>>,
    root: &'static str,
    query: Vec<(String, String)>,
    key: Option<String>,
}

impl Path {
    /// `/v1`, followed by these segments.
    pub(crate) fn new(segments: &[&str]) -> Self {
        let segments = segments.iter().map(|segment| (*segment).to_owned()).collect();
        Path { segments: Some(segments), root: "", query: Vec::new(), key: None }
    }

    /// A path that is not part of `/v1`.
    pub(crate) fn root(path: &'static str) -> Self {
        Path { segments: None, root: path, query: Vec::new(), key: None }
    }

    /// The objects that it names.
    fn names(&self) -> Vec<ObjectName> {
        let segments: Vec<&str> = self.segments.iter().flatten().map(String::as_str).collect();
        ObjectName::in_path(&segments).into_iter().collect()
    }

    /// Adds a query parameter.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.query.push((name.to_owned(), value.to_string()));
        self
    }

    /// Adds a query parameter for each value.
    #[must_use]
    pub(super) fn with_all(self, name: &str, values: &[String]) -> Self {
        values.iter().fold(self, |path, value| path.with(name, value))
    }

    /// Adds an idempotency key: a repeated request gets the first answer.
    #[must_use]
    pub(super) fn with_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// A request with this path, and without a body.
    fn call(&self, method: fn(&[&str]) -> Call) -> Call {
        let call = match &self.segments {
            Some(segments) => method(&segments.iter().map(String::as_str).collect::<Vec<_>>()),
            None => Call::get_root(self.root),
        };
        let call = self.query.iter().fold(call, |call, (name, value)| call.query(name, value));
        self.key.iter().fold(call, |call, key| call.idempotency_key(key))
    }

    /// A POST request with a body.
    fn post(&self, body: &Value) -> Call {
        self.call(Call::post).body("application/json", exact::text(body))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;

    /// Answers the first request at any port with these bytes.
    fn answered(answer: &'static [u8]) -> HttpClient {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let client = HttpClient::new(&listener.local_addr().expect("an address").into()).expect("a client");
        std::thread::spawn(move || {
            let (stream, _) = listener.accept().expect("a client");
            let mut stream = BufReader::new(stream);
            while stream.by_ref().lines().next().is_some_and(|line| !line.expect("a line").is_empty()) {}
            stream.get_mut().write_all(answer).expect("the client reads");
        });
        client
    }

    #[test]
    fn an_error_has_the_problem_of_the_server_or_describes_the_failure() {
        let refused = b"HTTP/1.1 409 No\r\nconnection: close\r\n\r\n\
            {\"type\":\"x\",\"title\":\"x\",\"status\":409,\"code\":\"stale_lease\",\"detail\":\"the lease was lost\",\"job\":\"7-0\",\"a\":1}";
        let problem = answered(refused).try_get(&Path::new(&["jobs"])).expect("an answer").expect_err("a refusal");
        assert_eq!((&problem["code"], &problem["job"]), (&json!("stale_lease"), &json!("7-0")));
        for (answer, message) in [
            (&b"SSH-2.0\r\n\r\n"[..], "does not respond like a Quire server"),
            (b"HTTP/1.1 404 No\r\ncontent-length: 5\r\n\r\nhello", "does not respond like a Quire server"),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", "does not respond like a Quire server: no JSON"),
            (b"HTTP/1.1 200 OK\r\n", "it may have done what was asked"),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}", "it may have done what was asked"),
        ] {
            match answered(answer).get(&Path::new(&["jobs"])) {
                Err(CommandError::Message(found)) => assert!(found.contains(message), "{found}"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn an_incomplete_line_of_a_response_is_dropped() {
        for answer in [
            &b"HTTP/1.0 200 OK\r\n\r\n{\"imported\":0}\n{\"impo"[..],
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n15\r\n{\"imported\":0}\n{\"impo\r\n",
        ] {
            let mut lines = Vec::new();
            let enough = answered(answer).post_lines(&Path::new(&["graphs"]), b"", |line| {
                lines.push(line.to_owned());
                Ok(true)
            });
            assert!(!enough.expect("an answer"));
            assert_eq!(lines, ["{\"imported\":0}"]);
        }
    }
}
