//! Commits that report whether their answer is that to an earlier copy.

use quire_api::reply::CommitReply;
use quire_api::request::CommitRequest;

use crate::{Call, Client, ClientError};

impl Client {
    /// Commits as [`Client::commit_with_key`], and returns whether the answer is that to an earlier
    /// commit with the key. That commit may be another attempt of this call.
    ///
    /// # Errors
    /// As [`Client::commit_with_key`].
    ///
    /// ```no_run
    /// use quire_client::Client;
    /// use quire_client::request::{CommitRequest, Produce};
    ///
    /// let client = Client::builder("http://127.0.0.1:7070").build()?;
    /// let commit = CommitRequest::of(Produce::new("orders", "17"));
    /// let (first, _) = client.commit_or_replay(&commit, "order-17")?;
    /// let (again, is_replay) = client.commit_or_replay(&commit, "order-17")?;
    /// assert!(is_replay && again.position == first.position);
    /// # Ok::<(), quire_client::ClientError>(())
    /// ```
    pub fn commit_or_replay(
        &self,
        commit: &CommitRequest<'_>,
        key: &str,
    ) -> Result<(CommitReply<'static>, bool), ClientError> {
        let call = Call::post(&["commit"]).json(commit)?.idempotency_key(key).query("as", "base64");
        let (headers, body) = self.answer(&call)?;
        let reply = serde_json::from_slice(&body).map_err(|error| ClientError::foreign(self.address(), error))?;
        Ok((reply, headers.get("idempotent-replay").is_some_and(|value| value == "true")))
    }
}
