//! A request, below the typed methods.

use std::fmt::Write;
use std::time::Duration;

use quire_api::request::CommitRequest;
use serde::Serialize;

use crate::{ClientError, FailureKind};

/// A request to a route, as [`Client::send`](crate::Client::send) takes it. The typed methods of a
/// client make their calls.
///
/// ```no_run
/// use quire_client::{Call, Client};
///
/// let client = Client::builder("http://127.0.0.1:7070").build()?;
/// let answer = client.send(&Call::get(&["queues"]).query("as", "text"))?;
/// println!("{}", String::from_utf8_lossy(&answer));
/// # Ok::<(), quire_client::ClientError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Call {
    pub(crate) method: CallMethod,
    pub(crate) path: String,
    pub(crate) body: Vec<u8>,
    pub(crate) content_type: String,
    pub(crate) key: Option<String>,
    pub(crate) last_event_id: Option<String>,
    /// The time that the server may wait before it answers.
    pub(crate) wait: Duration,
    /// The limit of the call with its retries, instead of that of the client.
    pub(crate) limit: Option<Duration>,
    pub(crate) is_patient: bool,
    pub(crate) is_read: bool,
}

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallMethod {
    Get,
    Post,
    Delete,
}

impl Call {
    fn new(method: CallMethod, path: String) -> Self {
        let (body, content_type) = (Vec::new(), "application/json".to_owned());
        let (key, last_event_id, wait, limit) = (None, None, Duration::ZERO, None);
        let is_read = method == CallMethod::Get;
        Call { method, path, body, content_type, key, last_event_id, wait, limit, is_patient: false, is_read }
    }

    /// Reads `/v1`, followed by these segments.
    pub fn get(segments: &[&str]) -> Self {
        Call::new(CallMethod::Get, path(segments))
    }

    /// Posts to `/v1`, followed by these segments.
    pub fn post(segments: &[&str]) -> Self {
        Call::new(CallMethod::Post, path(segments))
    }

    /// Deletes `/v1`, followed by these segments.
    pub fn delete(segments: &[&str]) -> Self {
        Call::new(CallMethod::Delete, path(segments))
    }

    /// Reads a path outside of `/v1`, such as `/readyz`.
    pub fn get_root(path: &str) -> Self {
        Call::new(CallMethod::Get, path.to_owned())
    }

    /// Commits, with an idempotency key.
    pub(crate) fn commit(commit: &CommitRequest<'_>, key: &str) -> Result<Self, ClientError> {
        Ok(Call::post(&["commit"]).json(commit)?.idempotency_key(key))
    }

    /// Adds a query parameter.
    #[must_use]
    pub fn query(mut self, name: &str, value: impl ToString) -> Self {
        self.path.push(if self.path.contains('?') { '&' } else { '?' });
        encode(&mut self.path, name);
        self.path.push('=');
        encode(&mut self.path, &value.to_string());
        self
    }

    /// Adds query parameters.
    pub(crate) fn queries(self, query: &[(&str, &str)]) -> Self {
        query.iter().fold(self, |call, (name, value)| call.query(name, value))
    }

    /// Sets the body, as JSON.
    ///
    /// # Errors
    /// When the body has no JSON, for example because it has a map without texts for keys.
    pub fn json(self, body: &impl Serialize) -> Result<Self, ClientError> {
        let unwritable = |error| ClientError::new(FailureKind::Invalid, format!("can't write the request: {error}"));
        Ok(self.body("application/json", serde_json::to_vec(body).map_err(unwritable)?))
    }

    /// Sets the body and its type.
    #[must_use]
    pub fn body(mut self, content_type: impl Into<String>, body: impl Into<Vec<u8>>) -> Self {
        (self.content_type, self.body) = (content_type.into(), body.into());
        self
    }

    /// Sets the idempotency key. A request with a key, like one that reads, is repeated when its
    /// answer is lost.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Declares that a posted request only reads, so that it is repeated when its answer is lost.
    #[must_use]
    pub fn reading(mut self) -> Self {
        self.is_read = true;
        self
    }

    /// Extends the limit of the call by the time that the server may wait.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Sets the limit of the call with its retries, instead of the timeout of the client.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.limit = Some(timeout);
        self
    }

    /// Waits for the answer without a limit.
    #[must_use]
    pub fn patiently(mut self) -> Self {
        self.is_patient = true;
        self
    }

    /// Whether the server does nothing twice when the request arrives twice.
    pub(crate) fn is_repeatable(&self) -> bool {
        self.is_read || self.key.is_some()
    }
}

fn path(segments: &[&str]) -> String {
    let mut path = "/v1".to_owned();
    for segment in segments {
        path.push('/');
        encode(&mut path, segment);
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
        let call = Call::get(&["events", "air/flights"]).query("as", "base64").query("tag", "plane:N1&x");
        assert_eq!(call.path, "/v1/events/air%2Fflights?as=base64&tag=plane%3AN1%26x");
    }
}
