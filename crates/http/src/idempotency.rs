//! The header `Idempotency-Key`, by which a request that is sent again gets its first answer.
//!
//! A route either passes the key with its commit, or refuses it: a key is never ignored where a
//! request commits.

use axum::extract::FromRequestParts;
use axum::http::HeaderName;
use axum::http::request::Parts;
use quire::{Commit, Database, Timestamp};
use quire_api::Code;

use crate::error::Problem;

/// The header of the key.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The header of a response that is the first answer to an earlier copy.
pub(crate) const IDEMPOTENT_REPLAY: HeaderName = HeaderName::from_static("idempotent-replay");

/// The idempotency key of a request, if it has one.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestKey(Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for RequestKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let mut keys = parts.headers.get_all(IDEMPOTENCY_KEY).iter();
        let Some(key) = keys.next() else { return Ok(RequestKey(None)) };
        if keys.next().is_some() {
            return Err(Problem::new(Code::InvalidIdempotencyKey, "give one header `Idempotency-Key`, not several"));
        }
        let text = str::from_utf8(key.as_bytes());
        let text =
            text.map_err(|_| Problem::new(Code::InvalidIdempotencyKey, "`Idempotency-Key` must be UTF-8 text"))?;
        Ok(RequestKey(Some(text.to_owned())))
    }
}

impl RequestKey {
    /// Makes a commit, with the key. `make` turns delays into times, from the time that it gets. A
    /// copy is the same request later, so the fingerprint is that of the commit from time zero.
    pub(crate) fn commit<'c>(
        &self,
        database: &Database,
        make: impl Fn(Timestamp) -> Result<Commit<'c>, Problem>,
    ) -> Result<Commit<'c>, Problem> {
        let commit = make(database.now())?;
        let Some(key) = &self.0 else { return Ok(commit) };
        let fingerprint = database.fingerprint(&make(Timestamp::ZERO)?)?;
        Ok(commit.idempotency_key(key.clone()).fingerprint(fingerprint))
    }
}

/// Refuses an idempotency key, on routes whose answer is not that of one commit.
#[derive(Debug)]
pub(crate) struct NoRequestKey;

impl<S: Send + Sync> FromRequestParts<S> for NoRequestKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        match parts.headers.contains_key(IDEMPOTENCY_KEY) {
            false => Ok(NoRequestKey),
            true => Err(Problem::new(Code::InvalidIdempotencyKey, "this route takes no `Idempotency-Key`")),
        }
    }
}
