//! The client: it sends requests, and repeats the ones without an answer.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use quire_api::reply::{CommitReply, DryRunReply};
use quire_api::request::CommitRequest;
use serde::de::DeserializeOwned;
use ureq::Agent;
use ureq::http::{HeaderMap, HeaderValue, Method, Request, Response};

use crate::call::CallMethod;
use crate::leader::KnownLeader;
use crate::local::{LocalReads, QUIRE_READ};
use crate::pause::RetryPauses;
use crate::{Call, ClientBuilder, ClientError, FailureKind, PageItems, SubscriptionFeed};

/// The largest problem, in bytes.
const PROBLEM_BYTES_MAX: u64 = 16 << 20;

/// The longest limit that is passed on: a clock can't count to the end of all times.
const LIMIT_MAX: Duration = Duration::from_secs(100 * 365 * 86_400);

/// A client of one server. Clones share its connections.
///
/// ```no_run
/// use std::time::Duration;
///
/// use quire_client::Client;
///
/// let client = Client::builder("http://127.0.0.1:7070").timeout(Duration::from_secs(5)).build()?;
/// # Ok::<(), quire_client::ClientError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Client {
    pub(crate) parts: Arc<ClientParts>,
    /// Set when the server answers reads from its own records.
    pub(crate) local: Option<LocalReads>,
}

/// The parts that clones of a client share.
pub(crate) struct ClientParts {
    pub(crate) agent: Agent,
    /// The start of each URL.
    pub(crate) base: String,
    /// Where the leader of a cluster is another server.
    pub(crate) leader: KnownLeader,
    pub(crate) authorization: Option<HeaderValue>,
    pub(crate) settings: ClientBuilder,
    /// The random start of each idempotency key.
    pub(crate) key_start: String,
    pub(crate) keys: AtomicU64,
}

impl fmt::Debug for ClientParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientParts").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Client {
    /// The settings of a client of the server at this address: `http://HOST:PORT`, or `unix:PATH`
    /// for a Unix socket.
    pub fn builder(address: impl Into<String>) -> ClientBuilder {
        ClientBuilder::new(address.into())
    }

    /// The address of the server, as the builder got it.
    pub fn address(&self) -> &str {
        &self.parts.settings.address
    }

    /// Commits all parts or none. The call has an idempotency key, so a retry after a lost answer
    /// gets the first answer.
    ///
    /// # Errors
    /// When the server refuses the commit, or does not answer in time.
    ///
    /// ```no_run
    /// use quire_client::Client;
    /// use quire_client::request::{CommitRequest, Produce};
    ///
    /// let client = Client::builder("http://127.0.0.1:7070").build()?;
    /// let done = client.commit(&CommitRequest::of(Produce::new("orders", r#"{"id": 17}"#)))?;
    /// println!("committed at {}", done.position);
    /// # Ok::<(), quire_client::ClientError>(())
    /// ```
    pub fn commit(&self, commit: &CommitRequest<'_>) -> Result<CommitReply<'static>, ClientError> {
        self.commit_with_key(commit, &self.new_key())
    }

    /// Commits as [`Client::commit`], with an idempotency key of the caller. A later call with the
    /// same key and commit, also of another process, gets the first answer.
    ///
    /// # Errors
    /// As [`Client::commit`], and when another commit has the key.
    pub fn commit_with_key(&self, commit: &CommitRequest<'_>, key: &str) -> Result<CommitReply<'static>, ClientError> {
        self.committed(Call::commit(commit, key)?)
    }

    /// Decides a commit as [`Client::commit`] does, and commits nothing. The answer is the one that
    /// the commit would get, with the entries that it would append. Another commit may come first.
    ///
    /// # Errors
    /// As [`Client::commit`].
    ///
    /// ```no_run
    /// use quire_client::Client;
    /// use quire_client::request::{CommitRequest, Produce};
    ///
    /// let client = Client::builder("http://127.0.0.1:7070").build()?;
    /// let tried = client.dry_run(&CommitRequest::of(Produce::new("orders", r#"{"id": 17}"#)))?;
    /// println!("it would append {} entries", tried.entries.len());
    /// # Ok::<(), quire_client::ClientError>(())
    /// ```
    pub fn dry_run(&self, commit: &CommitRequest<'_>) -> Result<DryRunReply<'static>, ClientError> {
        // Nothing is stored under the key. With it, a lost answer is asked for again.
        self.dry_run_with_key(commit, &self.new_key())
    }

    /// Decides a commit with an idempotency key of the caller, and commits nothing. If an earlier
    /// commit has the key, the answer is that to the earlier commit, without entries.
    ///
    /// # Errors
    /// As [`Client::commit_with_key`].
    pub fn dry_run_with_key(&self, commit: &CommitRequest<'_>, key: &str) -> Result<DryRunReply<'static>, ClientError> {
        self.read(Call::commit(commit, key)?.query("dry_run", true))
    }

    /// The answer to a commit.
    pub(crate) fn committed(&self, commit: Call) -> Result<CommitReply<'static>, ClientError> {
        self.read(commit)
    }

    /// Reads the object at `/v1`, followed by these segments, with these query parameters. Values
    /// arrive in base64, as the types of [`reply`](crate::reply) read them.
    ///
    /// # Errors
    /// When the server answers with a problem, or does not answer in time.
    ///
    /// ```no_run
    /// use quire_client::Client;
    /// use quire_client::reply::JobWithHistory;
    ///
    /// let client = Client::builder("http://127.0.0.1:7070").build()?;
    /// let found: JobWithHistory = client.get(&["jobs", "17-0"], &[])?;
    /// println!("{}: {}", found.job.state, found.job.payload.text().unwrap_or("bytes"));
    /// # Ok::<(), quire_client::ClientError>(())
    /// ```
    pub fn get<T: DeserializeOwned>(&self, segments: &[&str], query: &[(&str, &str)]) -> Result<T, ClientError> {
        self.read(Call::get(segments).queries(query))
    }

    /// Iterates over the items of a list, which it reads page by page.
    ///
    /// ```no_run
    /// use quire_client::Client;
    /// use quire_client::reply::EventReply;
    ///
    /// let client = Client::builder("http://127.0.0.1:7070").build()?;
    /// for event in client.list::<EventReply<'static>>(&["events", "orders"], &[("type", "Placed")]) {
    ///     println!("{}", event?.position);
    /// }
    /// # Ok::<(), quire_client::ClientError>(())
    /// ```
    pub fn list<T: DeserializeOwned>(&self, segments: &[&str], query: &[(&str, &str)]) -> PageItems<T> {
        PageItems::new(self.clone(), segments, query)
    }

    /// Subscribes to events, changes or jobs: past items, then new ones. The path is that of the
    /// route without `subscribe`. The subscription resumes after a lost connection, also over
    /// restarts of the server: no item is lost or repeated.
    ///
    /// ```no_run
    /// use quire_client::Client;
    /// use quire_client::reply::EventReply;
    ///
    /// let client = Client::builder("http://127.0.0.1:7070").build()?;
    /// for event in client.subscribe::<EventReply<'static>>(&["events", "orders"], &[("type", "Placed")]).after(17) {
    ///     println!("{}", event?.position);
    /// }
    /// # Ok::<(), quire_client::ClientError>(())
    /// ```
    pub fn subscribe<T: DeserializeOwned>(&self, segments: &[&str], query: &[(&str, &str)]) -> SubscriptionFeed<T> {
        let segments: Vec<&str> = segments.iter().copied().chain(["subscribe"]).collect();
        SubscriptionFeed::new(self.clone(), Call::get(&segments).query("as", "base64").queries(query))
    }

    /// Sends a request, and returns the body of the answer. A request that reads or has an
    /// idempotency key is repeated until it has an answer that a retry would not change, or the
    /// time is up.
    ///
    /// # Errors
    /// When the server answers with a problem, or does not answer in time.
    pub fn send(&self, call: &Call) -> Result<Vec<u8>, ClientError> {
        self.answer(call).map(|(_, body)| body)
    }

    /// Sends a request as [`Client::send`], and returns the headers of the answer and its body.
    #[expect(clippy::disallowed_methods, reason = "the deadline and the pauses of a client are real time")]
    pub(crate) fn answer(&self, call: &Call) -> Result<(HeaderMap, Vec<u8>), ClientError> {
        let settings = &self.parts.settings;
        let timeout = call.limit.unwrap_or(settings.timeout).saturating_add(call.wait);
        let (begin, mut pauses) = (Instant::now(), self.pauses());
        loop {
            let left = timeout.saturating_sub(begin.elapsed());
            let answer = self.attempt(call, (!call.is_patient).then_some(left), None).and_then(|mut response| {
                let body = self.body(&mut response)?;
                Ok((std::mem::take(response.headers_mut()), body))
            });
            let error = match answer {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let wait = pauses.after(Some(&error));
            let may_repeat = settings.is_repeating && call.is_repeatable() && error.is_passing();
            if !may_repeat || begin.elapsed().saturating_add(wait) >= timeout {
                return Err(error);
            }
            std::thread::sleep(wait);
        }
    }

    /// Sends a request once, and returns the body of the answer. The whole answer has no limit of
    /// time; each part of it has, as in [`Client::stream`].
    ///
    /// # Errors
    /// As [`Client::stream`], when the answer is cut, and when it is longer than
    /// [`ClientBuilder::answer_bytes_max`].
    pub fn send_once(&self, call: &Call) -> Result<Vec<u8>, ClientError> {
        self.body(&mut self.attempt(call, None, self.silence(call))?)
    }

    /// Sends a request once, writes the body of the answer as it arrives, and returns its bytes. A
    /// long answer, such as an export or a backup, takes no memory.
    ///
    /// # Errors
    /// As [`Client::stream`], when the answer is cut, and when `out` fails. A part of the answer
    /// may be written by then.
    ///
    /// ```no_run
    /// use quire_client::{Call, Client};
    ///
    /// let client = Client::builder("http://127.0.0.1:7070").build()?;
    /// let mut file = std::fs::File::create("shop.jsonl").expect("a new file");
    /// client.download(&Call::get(&["graphs", "shop", "export"]), &mut file)?;
    /// # Ok::<(), quire_client::ClientError>(())
    /// ```
    pub fn download(&self, call: &Call, out: &mut impl Write) -> Result<u64, ClientError> {
        let mut body = self.stream(call)?;
        let (mut chunk, mut bytes) = (vec![0; 64 << 10], 0);
        loop {
            let count = match body.read(&mut chunk) {
                Ok(0) => return out.flush().map(|()| bytes).map_err(ClientError::of_writer),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.unanswered(error.into())),
            };
            out.write_all(&chunk[..count]).map_err(ClientError::of_writer)?;
            bytes += count as u64;
        }
    }

    /// Sends a request once, and returns the body of the answer as it arrives. Reading fails when
    /// nothing arrives for a [time](ClientBuilder::silence), unless the call is
    /// [patient](Call::patiently).
    ///
    /// # Errors
    /// When the server answers with a problem, or does not begin its answer in time.
    pub fn stream(&self, call: &Call) -> Result<impl Read + Send + use<>, ClientError> {
        let response = self.attempt(call, None, self.silence(call))?;
        Ok(response.into_body().into_with_config().limit(u64::MAX).reader())
    }

    /// Closes the connections of the client and of its clones. Calls of other threads fail, also
    /// while they read an answer, and later calls fail. A server ends the work of a read soon after
    /// its connection is closed. A commit happens or not, as when an answer is lost.
    ///
    /// ```no_run
    /// use std::{thread, time::Duration};
    ///
    /// use quire_client::{Call, Client};
    ///
    /// let client = Client::builder("http://127.0.0.1:7070").build()?;
    /// let reader = client.clone();
    /// let reading = thread::spawn(move || reader.send(&Call::get(&["queues"])));
    /// client.close();
    /// drop(reading.join());
    /// # Ok::<(), quire_client::ClientError>(())
    /// ```
    pub fn close(&self) {
        self.parts.agent.clone().shutdown();
    }

    /// Sends a request as [`Client::send`], and reads the answer, a type of
    /// [`reply`](crate::reply).
    ///
    /// # Errors
    /// As [`Client::send`], and when the answer is of another type.
    pub fn read<T: DeserializeOwned>(&self, call: Call) -> Result<T, ClientError> {
        let body = self.send(&call.query("as", "base64"))?;
        serde_json::from_slice(&body).map_err(|error| ClientError::foreign(self.address(), error))
    }

    /// An idempotency key that no other call has.
    pub fn new_key(&self) -> String {
        let number = self.parts.keys.fetch_add(1, Ordering::Relaxed);
        format!("{}-{number}", self.parts.key_start)
    }

    pub(crate) fn pauses(&self) -> RetryPauses {
        RetryPauses::new(self.parts.settings.pause)
    }

    /// The limit of each read of a streamed answer.
    fn silence(&self, call: &Call) -> Option<Duration> {
        (!call.is_patient).then_some(self.parts.settings.silence)
    }

    /// Reads the whole body of an answer.
    fn body(&self, response: &mut Response<ureq::Body>) -> Result<Vec<u8>, ClientError> {
        let bytes_max = self.parts.settings.answer_bytes_max;
        let body = response.body_mut().with_config().limit(bytes_max).read_to_vec();
        body.map_err(|error| self.unanswered(error))
    }

    /// Sends a request, and reads the head of its answer. `whole` limits the call, and `silence`
    /// each read.
    fn attempt(
        &self,
        call: &Call,
        whole: Option<Duration>,
        silence: Option<Duration>,
    ) -> Result<Response<ureq::Body>, ClientError> {
        let ClientParts { base: own, leader, .. } = &*self.parts;
        if let Some(local) = self.local.as_ref().filter(|_| call.is_read) {
            let response = self.attempt_at(own, call, whole, silence)?;
            local.note(response.headers());
            return Ok(response);
        }
        let base = leader.base(own);
        match self.attempt_at(&base, call, whole, silence) {
            Err(error) if leader.learn(own, &base, &error) => self.attempt_at(&leader.base(own), call, whole, silence),
            answer => answer,
        }
    }

    /// Sends a request to the server whose URLs begin with `base`.
    fn attempt_at(
        &self,
        base: &str,
        call: &Call,
        whole: Option<Duration>,
        silence: Option<Duration>,
    ) -> Result<Response<ureq::Body>, ClientError> {
        let ClientParts { agent, authorization, .. } = &*self.parts;
        let (whole, silence) = (whole.map(|limit| limit.min(LIMIT_MAX)), silence.map(|limit| limit.min(LIMIT_MAX)));
        let method = match call.method {
            CallMethod::Get => Method::GET,
            CallMethod::Post => Method::POST,
            CallMethod::Delete => Method::DELETE,
        };
        let mut request = Request::builder().method(method).uri(format!("{base}{}", call.path));
        if let Some(authorization) = authorization {
            request = request.header("authorization", authorization);
        }
        if let Some(id) = &call.last_event_id {
            request = request.header("last-event-id", id);
        }
        if let Some(key) = &call.key {
            request = request.header("idempotency-key", key);
        }
        if let Some(local) = self.local.as_ref().filter(|_| call.is_read) {
            request = request.header(QUIRE_READ, &local.field);
        }
        let sent = if call.method == CallMethod::Post {
            request = request.header("content-type", &call.content_type);
            let request = request.body(&*call.body).map_err(|error| self.unanswered(error.into()))?;
            let request = agent.configure_request(request).timeout_global(whole).timeout_per_read(silence).build();
            agent.run(request)
        } else {
            let request = request.body(()).map_err(|error| self.unanswered(error.into()))?;
            let request = agent.configure_request(request).timeout_global(whole).timeout_per_read(silence).build();
            agent.run(request)
        };
        let mut response = sent.map_err(|error| self.unanswered(error))?;
        let status = response.status().as_u16();
        if status == 200 {
            return Ok(response);
        }
        let retry_after = response.headers().get("retry-after").and_then(|seconds| seconds.to_str().ok()?.parse().ok());
        let body = response.body_mut().with_config().limit(PROBLEM_BYTES_MAX).read_to_vec();
        let body = body.map_err(|error| self.unanswered(error))?;
        Err(ClientError::of_response(self.address(), status, &body, retry_after.map(Duration::from_secs)))
    }

    /// The error of a call without a whole answer.
    pub(crate) fn unanswered(&self, error: ureq::Error) -> ClientError {
        let address = self.address();
        let cut = |kind| matches!(kind, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe);
        #[cfg(feature = "tls")]
        if let Some(reason) = crate::tls::lasting_failure(&error) {
            return ClientError::new(FailureKind::Untrusted, format!("no TLS with the server at {address}: {reason}"));
        }
        match error {
            ureq::Error::BodyExceedsLimit(bytes_max) => {
                let message = format!(
                    "the answer of the server at {address} is longer than {bytes_max} bytes: ask for less, or use a \
                     download, which has no limit"
                );
                ClientError::new(FailureKind::TooLong, message)
            }
            ureq::Error::Protocol(_) => ClientError::foreign(address, error),
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => {
                ClientError::new(FailureKind::Invalid, format!("can't send the request: {error}"))
            }
            ureq::Error::Io(error) if cut(error.kind()) => {
                let message = format!(
                    "the server at {address} closed the connection in the middle of its answer; it may have done what \
                     was asked"
                );
                ClientError::new(FailureKind::Unanswered, message)
            }
            ureq::Error::Io(error) => {
                ClientError::new(FailureKind::Unanswered, format!("can't ask the server at {address}: {error}"))
            }
            error => ClientError::new(FailureKind::Unanswered, format!("can't ask the server at {address}: {error}")),
        }
    }
}
