//! The commands of queues as a client writes them. Times and durations are in milliseconds.

use quire::Timestamp;
use quire::jobs::{AckItem, Backoff, Command, JobId, LeaseToken, NewJob, Priority, Retry};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::bytes::{Base64, Parsed, Text, given};
use crate::error::Problem;

/// How long a lease lasts when a fetch does not say, in milliseconds.
pub(crate) const LEASE_MS_DEFAULT: u64 = 30_000;

/// Enqueues a job.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Enqueue<'r> {
    #[serde(borrow)]
    queue: Text<'r>,
    #[serde(borrow)]
    payload: Option<&'r RawValue>,
    #[serde(borrow)]
    payload_text: Option<Text<'r>>,
    payload_base64: Option<Base64>,
    #[serde(borrow)]
    kind: Option<Text<'r>>,
    priority: Option<u8>,
    run_at_ms: Option<u64>,
    delay_ms: Option<u64>,
    attempts_max: Option<u16>,
    backoff_base_ms: Option<u64>,
    backoff_max_ms: Option<u64>,
    #[serde(borrow, default)]
    pub(super) tags: Vec<Text<'r>>,
}

/// Leases jobs to a worker.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fetch<'r> {
    #[serde(borrow)]
    pub(super) queues: Vec<Text<'r>>,
    #[serde(default = "one")]
    count: u32,
    #[serde(default = "lease_ms_default")]
    lease_ms: u64,
    #[serde(borrow)]
    worker: Option<Text<'r>>,
}

/// Completes a job. In this and the next two, a path may name the job instead.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ack<'r> {
    job: Option<Parsed<JobId>>,
    token: Parsed<LeaseToken>,
    #[serde(borrow)]
    result: Option<&'r RawValue>,
    #[serde(borrow)]
    result_text: Option<Text<'r>>,
    result_base64: Option<Base64>,
}

/// Completes jobs, each by itself.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AckMany<'r> {
    #[serde(borrow)]
    items: Vec<Ack<'r>>,
}

/// Ends an attempt with an error.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fail<'r> {
    job: Option<Parsed<JobId>>,
    token: Parsed<LeaseToken>,
    #[serde(borrow)]
    error: Text<'r>,
    retry: Option<RetryRequest>,
    retry_at_ms: Option<u64>,
    retry_delay_ms: Option<u64>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RetryRequest {
    Backoff,
    Never,
}

/// Makes a lease last so long from now on.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Heartbeat {
    job: Option<Parsed<JobId>>,
    token: Parsed<LeaseToken>,
    #[serde(default = "lease_ms_default")]
    lease_ms: u64,
}

/// Takes in what time has brought.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tick {}

const fn one() -> u32 {
    1
}

const fn lease_ms_default() -> u64 {
    LEASE_MS_DEFAULT
}

/// Milliseconds as microseconds; what is too much stays too much.
const fn micros(ms: u64) -> u64 {
    ms.saturating_mul(1_000)
}

/// A time that is given as such, or as a distance from now.
fn time(name: &str, at_ms: Option<u64>, delay_ms: Option<u64>, now: Timestamp) -> Result<Option<Timestamp>, Problem> {
    match (at_ms, delay_ms) {
        (None, None) => Ok(None),
        (Some(at_ms), None) => Ok(Some(Timestamp::from_millis(at_ms))),
        (None, Some(delay_ms)) => Ok(Some(now.plus_micros(micros(delay_ms)))),
        (Some(_), Some(_)) => Err(Problem::invalid(format!("give {name} as a time or as a delay, not as both"))),
    }
}

impl Enqueue<'_> {
    pub(crate) fn command<'c>(&'c self, tags: &'c [&'c str], now: Timestamp) -> Result<Command<'c>, Problem> {
        let payload = given("payload", self.payload, self.payload_text.as_ref(), self.payload_base64.as_ref())?;
        let NewJob { priority, attempts_max, backoff, .. } = NewJob::new(&[]);
        let job = NewJob {
            payload: payload.unwrap_or_default(),
            kind: self.kind.as_deref().unwrap_or_default(),
            priority: self.priority.map_or(priority, Priority::new),
            run_at: time("run_at", self.run_at_ms, self.delay_ms, now)?,
            attempts_max: self.attempts_max.unwrap_or(attempts_max),
            backoff: Backoff {
                base_micros: self.backoff_base_ms.map_or(backoff.base_micros, micros),
                max_micros: self.backoff_max_ms.map_or(backoff.max_micros, micros),
            },
            tags,
        };
        Ok(Command::Enqueue { queue: &self.queue, job })
    }
}

impl<'r> Fetch<'r> {
    /// A fetch from one queue.
    pub(crate) fn of(queue: Text<'r>, count: Option<u32>, lease_ms: Option<u64>, worker: Option<Text<'r>>) -> Self {
        let (count, lease_ms) = (count.unwrap_or(one()), lease_ms.unwrap_or(LEASE_MS_DEFAULT));
        Fetch { queues: vec![queue], count, lease_ms, worker }
    }

    pub(crate) fn command<'c>(&'c self, queues: &'c [&'c str]) -> Command<'c> {
        let worker = self.worker.as_deref().unwrap_or_default();
        Command::Fetch { queues, count: self.count, lease_micros: micros(self.lease_ms), worker }
    }
}

/// The job that a command names.
fn job(given: Option<Parsed<JobId>>) -> Result<JobId, Problem> {
    given.map(|job| job.0).ok_or_else(|| Problem::invalid("missing field `job`"))
}

/// A command on one job, which the path of its request can name.
pub(crate) trait OnJob {
    /// Where the command has the job.
    fn job_mut(&mut self) -> &mut Option<Parsed<JobId>>;

    /// Names the job.
    ///
    /// # Errors
    /// When the command names one already.
    fn name_job(&mut self, id: JobId) -> Result<(), Problem> {
        match self.job_mut().replace(Parsed(id)) {
            None => Ok(()),
            Some(_) => Err(Problem::invalid("the path names the job, so leave it out of the body")),
        }
    }
}

impl OnJob for Ack<'_> {
    fn job_mut(&mut self) -> &mut Option<Parsed<JobId>> {
        &mut self.job
    }
}

impl OnJob for Fail<'_> {
    fn job_mut(&mut self) -> &mut Option<Parsed<JobId>> {
        &mut self.job
    }
}

impl OnJob for Heartbeat {
    fn job_mut(&mut self) -> &mut Option<Parsed<JobId>> {
        &mut self.job
    }
}

impl Ack<'_> {
    pub(crate) fn command(&self) -> Result<Command<'_>, Problem> {
        let AckItem { job, token, result } = self.item()?;
        Ok(Command::Ack { job, token, result })
    }

    fn item(&self) -> Result<AckItem<'_>, Problem> {
        let result = given("result", self.result, self.result_text.as_ref(), self.result_base64.as_ref())?;
        Ok(AckItem { job: job(self.job)?, token: self.token.0, result: result.unwrap_or_default() })
    }
}

impl AckMany<'_> {
    pub(super) fn acks(&self) -> Result<Vec<AckItem<'_>>, Problem> {
        self.items.iter().map(Ack::item).collect()
    }
}

impl Fail<'_> {
    pub(crate) fn command(&self, now: Timestamp) -> Result<Command<'_>, Problem> {
        let retry = match (self.retry, time("retry", self.retry_at_ms, self.retry_delay_ms, now)?) {
            (None | Some(RetryRequest::Backoff), None) => Retry::Backoff,
            (Some(RetryRequest::Never), None) => Retry::Never,
            (None, Some(at)) => Retry::At(at),
            (Some(_), Some(_)) => return Err(Problem::invalid("give retry, or a time for it, not both")),
        };
        Ok(Command::Fail { job: job(self.job)?, token: self.token.0, error: &self.error, retry })
    }
}

impl Heartbeat {
    pub(crate) fn command(&self) -> Result<Command<'_>, Problem> {
        Ok(Command::Heartbeat { job: job(self.job)?, token: self.token.0, lease_micros: micros(self.lease_ms) })
    }
}
