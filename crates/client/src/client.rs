//! The client: it sends requests, and repeats the ones without an answer.

use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use quire_api::reply::CommitReply;
use quire_api::request::CommitRequest;
use serde::de::DeserializeOwned;
use ureq::Agent;

use crate::{ClientError, FailureKind, PageItems};

/// The default limit of a call with its retries.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The pause after the first attempt, without jitter.
const PAUSE_FIRST: Duration = Duration::from_millis(50);

/// The largest answer, in bytes. Pages of a server are smaller.
const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// The longest pause that the client chooses.
const PAUSE_MAX: Duration = Duration::from_secs(5);

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
    shared: Arc<ClientParts>,
}

/// The settings of a client.
#[derive(Debug, Clone)]
pub struct ClientBuilder {
    url: String,
    api_key: Option<String>,
    timeout: Duration,
    pause: Duration,
}

/// The parts that clones of a client share.
struct ClientParts {
    agent: Agent,
    settings: ClientBuilder,
    /// The random start of each idempotency key.
    key_start: String,
    keys: AtomicU64,
}

impl std::fmt::Debug for ClientParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientParts").field("url", &self.settings.url).finish_non_exhaustive()
    }
}

impl ClientBuilder {
    /// Sends this key with each request, as a bearer token.
    #[must_use]
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.api_key = Some(key.into());
        self
    }

    /// Sets the limit of a call with its retries, 30 seconds by default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the pause before the first retry, 50 ms by default. Later pauses double, up to 5
    /// seconds. A pause that the server asks for takes precedence.
    #[must_use]
    pub fn retry_pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// Makes the client. It does not connect yet.
    ///
    /// # Errors
    /// When the URL does not begin with `http://`.
    pub fn build(mut self) -> Result<Client, ClientError> {
        if !self.url.starts_with("http://") {
            let message = format!("the URL of a server must begin with http://, got {:?}", self.url);
            return Err(ClientError::new(FailureKind::Invalid, message));
        }
        self.url.truncate(self.url.trim_end_matches('/').len());
        let agent = Agent::config_builder().http_status_as_error(false).proxy(None).build().into();
        let random = || RandomState::new().hash_one(std::process::id());
        let key_start = format!("{:016x}{:016x}", random(), random());
        let shared = ClientParts { agent, settings: self, key_start, keys: AtomicU64::new(0) };
        Ok(Client { shared: Arc::new(shared) })
    }
}

impl Client {
    /// The settings of a client of the server at this URL.
    pub fn builder(url: impl Into<String>) -> ClientBuilder {
        ClientBuilder { url: url.into(), api_key: None, timeout: TIMEOUT, pause: PAUSE_FIRST }
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
        let number = self.shared.keys.fetch_add(1, Ordering::Relaxed);
        self.commit_with_key(commit, &format!("{}-{number}", self.shared.key_start))
    }

    /// Commits as [`Client::commit`], with an idempotency key of the caller. A later call with the
    /// same key and commit, also of another process, gets the first answer.
    ///
    /// # Errors
    /// As [`Client::commit`], and when another commit has the key.
    pub fn commit_with_key(&self, commit: &CommitRequest<'_>, key: &str) -> Result<CommitReply<'static>, ClientError> {
        let unwritable = |error| ClientError::new(FailureKind::Invalid, format!("can't write the commit: {error}"));
        let body = serde_json::to_string(commit).map_err(unwritable)?;
        read(&self.call(&path(&["commit"], &[]), Some((&body, key)))?)
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
        read(&self.call(&path(segments, query), None)?)
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

    /// Sends a request until it has an answer that a retry would not change, or the time is up.
    #[expect(clippy::disallowed_methods, reason = "the deadline and the pauses of a client are real time")]
    fn call(&self, path: &str, commit: Option<(&str, &str)>) -> Result<Vec<u8>, ClientError> {
        let ClientBuilder { timeout, mut pause, .. } = self.shared.settings;
        let begin = Instant::now();
        loop {
            let error = match self.attempt(path, commit, timeout.saturating_sub(begin.elapsed())) {
                Ok(body) => return Ok(body),
                Err(error) => error,
            };
            // Half of the pause is random, so that clients do not return together.
            let wait = error.retry_after().unwrap_or_else(|| pause.mul_f64(0.5 + fastrand::f64() / 2.0));
            if !error.is_passing() || begin.elapsed() + wait >= timeout {
                return Err(error);
            }
            std::thread::sleep(wait);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn attempt(&self, path: &str, commit: Option<(&str, &str)>, left: Duration) -> Result<Vec<u8>, ClientError> {
        let ClientParts { agent, settings, .. } = &*self.shared;
        let unanswered = |error: ureq::Error| {
            let kind = match error {
                ureq::Error::BadUri(_) | ureq::Error::Http(_) => FailureKind::Invalid,
                ureq::Error::BodyExceedsLimit(_) => FailureKind::Foreign,
                _ => FailureKind::Unanswered,
            };
            ClientError::new(kind, format!("can't ask the server at {}: {error}", settings.url))
        };
        let url = format!("{}{path}", settings.url);
        let token = settings.api_key.as_ref().map(|key| format!("Bearer {key}"));
        let sent = match commit {
            Some((body, key)) => {
                let mut request = agent.post(url).config().timeout_global(Some(left)).build();
                if let Some(token) = token {
                    request = request.header("authorization", token);
                }
                request.header("content-type", "application/json").header("idempotency-key", key).send(body)
            }
            None => {
                let mut request = agent.get(url).config().timeout_global(Some(left)).build();
                if let Some(token) = token {
                    request = request.header("authorization", token);
                }
                request.call()
            }
        };
        let mut response = sent.map_err(unanswered)?;
        let status = response.status().as_u16();
        let retry_after = response.headers().get("retry-after").and_then(|seconds| seconds.to_str().ok()?.parse().ok());
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec().map_err(unanswered)?;
        match status {
            200 => Ok(body),
            _ => Err(ClientError::of_response(status, &body, retry_after.map(Duration::from_secs))),
        }
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, ClientError> {
    serde_json::from_slice(body)
        .map_err(|error| ClientError::new(FailureKind::Foreign, format!("unexpected answer: {error}")))
}

/// The path of a request, with its query.
fn path(segments: &[&str], query: &[(&str, &str)]) -> String {
    let mut path = "/v1".to_owned();
    for segment in segments {
        path.push('/');
        encode(&mut path, segment);
    }
    path.push_str("?as=base64");
    for (name, value) in query {
        path.push('&');
        encode(&mut path, name);
        path.push('=');
        encode(&mut path, value);
    }
    path
}

/// Percent-encodes all except the unreserved characters (RFC 3986).
fn encode(path: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            path.push(char::from(byte));
        } else {
            write!(path, "%{byte:02X}").expect("a string takes everything");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded_in_paths_and_queries() {
        let path = path(&["events", "air/flights"], &[("tag", "plane:N1&x")]);
        assert_eq!(path, "/v1/events/air%2Fflights?as=base64&tag=plane%3AN1%26x");
    }
}
