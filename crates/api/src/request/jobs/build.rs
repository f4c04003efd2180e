//! Builders of the usual commands, for clients.

use quire::jobs::{JobId, LeaseToken};

use super::{
    Ack, ClashRequest, Enqueue, Fail, Fetch, Heartbeat, PriorityRequest, RetryRequest, Snooze, UniqueRequest,
    UniqueScopeName, count_default, lease_ms_default,
};
use crate::bytes::{ParsedText, Text, text_or_base64};

impl<'r> Enqueue<'r> {
    /// A job with this payload: text, JSON or any other bytes.
    pub fn new(queue: impl Into<Text<'r>>, payload: impl AsRef<[u8]>) -> Self {
        let (payload_text, payload_base64) = text_or_base64(payload);
        Enqueue {
            queue: queue.into(),
            payload: None,
            payload_text,
            payload_base64,
            kind: None,
            priority: None,
            run_at_ms: None,
            delay_ms: None,
            expires_at_ms: None,
            expires_in_ms: None,
            timeout_ms: None,
            attempts_max: None,
            backoff: None,
            backoff_base_ms: None,
            backoff_max_ms: None,
            backoff_list_ms: None,
            jitter_percent: 0,
            group: None,
            unique: None,
            retention_ms: None,
            tags: Vec::new(),
        }
    }

    setters! {
        /// Sets the kind.
        kind: impl Into<Text<'r>>;
        /// Sets the group, whose jobs share limits.
        group: impl Into<Text<'r>>;
        /// Sets the time when the job becomes pending, in milliseconds since 1970.
        run_at_ms: u64;
        /// Sets the time from now when the job becomes pending.
        delay_ms: u64;
        /// Sets the time from now when a job that has not started expires.
        expires_in_ms: u64;
        /// Sets the longest duration of an attempt.
        timeout_ms: u64;
        /// Sets the most attempts.
        attempts_max: u16;
        /// Sets the wait before each attempt after the first.
        backoff_list_ms: Vec<u64>;
        /// Sets how long the finished job is kept.
        retention_ms: u64;
    }

    /// Sets the priority: 0 to 255, and a lower number is more urgent.
    #[must_use]
    pub fn priority(mut self, priority: u8) -> Self {
        self.priority = Some(PriorityRequest::Number(priority));
        self
    }

    /// Adds a tag.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<Text<'r>>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// Keeps the other job of the queue that has this key, if there is one that has not finished.
    #[must_use]
    pub fn unique_key(mut self, key: impl Into<Text<'r>>) -> Self {
        let (scope, clash) = (UniqueScopeName::Queue, ClashRequest::Keep);
        self.unique = Some(UniqueRequest { key: key.into(), scope, hold: None, hold_ms: None, clash });
        self
    }
}

impl Fetch<'_> {
    /// A fetch of one job from a queue.
    pub fn one<'r>(queue: impl Into<Text<'r>>) -> Fetch<'r> {
        let (count, lease_ms) = (count_default(), lease_ms_default());
        Fetch { queues: vec![queue.into()], count, lease_ms, worker: None, weights: Vec::new() }
    }
}

impl Ack<'_> {
    /// Completes this job.
    pub fn new(job: JobId, token: LeaseToken) -> Self {
        let (job, token) = (Some(ParsedText(job)), ParsedText(token));
        Ack { job, token, result: None, result_text: None, result_base64: None }
    }

    /// Sets the result: text, JSON or any other bytes.
    #[must_use]
    pub fn result(mut self, result: impl AsRef<[u8]>) -> Self {
        (self.result_text, self.result_base64) = text_or_base64(result);
        self
    }
}

impl<'r> Fail<'r> {
    /// Ends the attempt with this error. The backoff of the job decides when the next one starts.
    pub fn new(job: JobId, token: LeaseToken, error: impl Into<Text<'r>>) -> Self {
        let (job, token, error) = (Some(ParsedText(job)), ParsedText(token), error.into());
        Fail { job, token, error, retry: None, retry_at_ms: None, retry_delay_ms: None }
    }

    /// Ends the job: there is no other attempt.
    #[must_use]
    pub fn never_retry(mut self) -> Self {
        self.retry = Some(RetryRequest::Never);
        self
    }

    setters! {
        /// Sets the time from now when the next attempt may start.
        retry_delay_ms: u64;
    }
}

impl Snooze {
    /// Returns the job to its queue for this time. The attempt does not count.
    pub fn new(job: JobId, token: LeaseToken, delay_ms: u64) -> Self {
        Snooze { job: Some(ParsedText(job)), token: ParsedText(token), until_ms: None, delay_ms: Some(delay_ms) }
    }
}

impl Heartbeat<'_> {
    /// Extends the lease of a job.
    pub fn new(job: JobId, token: LeaseToken, lease_ms: u64) -> Self {
        Heartbeat {
            job: Some(ParsedText(job)),
            token: ParsedText(token),
            lease_ms: Some(lease_ms),
            progress: None,
            progress_text: None,
            progress_base64: None,
            checkpoint: None,
            checkpoint_text: None,
            checkpoint_base64: None,
        }
    }

    /// Stores the progress: text, JSON or any other bytes.
    #[must_use]
    pub fn progress(mut self, progress: impl AsRef<[u8]>) -> Self {
        (self.progress_text, self.progress_base64) = text_or_base64(progress);
        self
    }

    /// Stores the checkpoint, which the next attempt gets.
    #[must_use]
    pub fn checkpoint(mut self, checkpoint: impl AsRef<[u8]>) -> Self {
        (self.checkpoint_text, self.checkpoint_base64) = text_or_base64(checkpoint);
        self
    }
}
