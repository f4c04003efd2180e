//! The JSON form of the commands of queues. Times and durations are in milliseconds.

mod build;

use quire::Timestamp;
use quire::jobs::{
    BACKOFF_FIRST_MICROS, BACKOFF_MAX_MICROS, Backoff, Clash, Command, JobId, JobSpec, LeaseToken, Order, Priority,
    Retry, Unique, UniqueHold, UniqueScope,
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::Failure;
use crate::bytes::{Base64, ParsedText, Text, from_text, given};
use crate::schema::inline_schema;

/// Enqueues a job.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Enqueue<'r> {
    #[serde(borrow)]
    queue: Text<'r>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'r RawValue>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_text: Option<Text<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<Base64>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<Text<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<PriorityRequest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_in_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts_max: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff: Option<BackoffShape>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff_base_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff_max_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff_list_ms: Option<Vec<u64>>,
    #[serde(default)]
    jitter_percent: u8,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<Text<'r>>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    unique: Option<UniqueRequest<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retention_ms: Option<u64>,
    #[serde(borrow, deserialize_with = "crate::meter::list", default)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tags: Vec<Text<'r>>,
}

/// A priority, by number or by name.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a priority must be a number from 0 to 255, or critical, high, normal or low")]
pub enum PriorityRequest {
    /// A number.
    Number(u8),
    /// A name.
    Name(NamedPriority),
}

/// A priority given by its name.
#[derive(Debug, Clone, Copy)]
pub struct NamedPriority(Priority);

impl Serialize for NamedPriority {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(self.0.get())
    }
}

inline_schema!(NamedPriority, "NamedPriority", {"type": "string", "enum": ["critical", "high", "normal", "low"]});

impl<'de> Deserialize<'de> for NamedPriority {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_text(deserializer, |name| {
            Priority::from_name(name).map(NamedPriority).ok_or_else(|| format!("unknown priority {name:?}"))
        })
    }
}

impl PriorityRequest {
    pub(super) fn priority(self) -> Priority {
        match self {
            PriorityRequest::Number(number) => Priority::new(number),
            PriorityRequest::Name(NamedPriority(priority)) => priority,
        }
    }
}

/// The named shapes of a backoff; a list of waits is another shape.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum BackoffShape {
    None,
    Fixed,
    Linear,
    Exponential,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UniqueRequest<'r> {
    #[serde(borrow)]
    key: Text<'r>,
    #[serde(default, skip_serializing_if = "UniqueScopeName::is_default")]
    scope: UniqueScopeName,
    #[serde(skip_serializing_if = "Option::is_none")]
    hold: Option<Hold>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hold_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "ClashRequest::is_default")]
    clash: ClashRequest,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum UniqueScopeName {
    #[default]
    Queue,
    Everywhere,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Hold {
    UntilFinished,
    UntilStarted,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ClashRequest {
    Reject,
    #[default]
    Keep,
    Replace,
    Extend,
}

impl UniqueScopeName {
    fn is_default(&self) -> bool {
        matches!(self, UniqueScopeName::Queue)
    }
}

impl ClashRequest {
    fn is_default(&self) -> bool {
        matches!(self, ClashRequest::Keep)
    }
}

/// Leases jobs to a worker.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fetch<'r> {
    /// The queues.
    #[serde(borrow, deserialize_with = "crate::meter::list")]
    pub queues: Vec<Text<'r>>,
    /// The most jobs.
    #[serde(default = "count_default")]
    pub count: u32,
    /// The duration of the leases.
    #[serde(default = "lease_ms_default")]
    pub lease_ms: u64,
    /// The name of the worker.
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<Text<'r>>,
    /// The weight of each queue; empty to use the queues in their order.
    #[serde(default)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(!skip_serializing_if)]
    pub weights: Vec<u32>,
}

/// Completes a job. In this and the next three commands, a path may name the job instead.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ack<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<ParsedText<JobId>>,
    token: ParsedText<LeaseToken>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'r RawValue>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    result_text: Option<Text<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_base64: Option<Base64>,
}

/// Ends an attempt with an error.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fail<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<ParsedText<JobId>>,
    token: ParsedText<LeaseToken>,
    #[serde(borrow)]
    error: Text<'r>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<RetryRequest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_delay_ms: Option<u64>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum RetryRequest {
    Backoff,
    Never,
}

/// Returns a job to the queue for later.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Snooze {
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<ParsedText<JobId>>,
    token: ParsedText<LeaseToken>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u64>,
}

/// Extends a lease to `lease_ms` from now, if given, and stores the progress.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<ParsedText<JobId>>,
    token: ParsedText<LeaseToken>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_ms: Option<u64>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<&'r RawValue>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    progress_text: Option<Text<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress_base64: Option<Base64>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint: Option<&'r RawValue>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint_text: Option<Text<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint_base64: Option<Base64>,
}

/// The parameters of a fetch from the queue in the path.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "a comment would be in the description; docs/http.md explains the fields")]
pub struct FetchRequest<'r> {
    #[serde(default = "count_default")]
    pub count: u32,
    #[serde(default = "lease_ms_default")]
    pub lease_ms: u64,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub worker: Option<Text<'r>>,
    #[serde(default)]
    pub wait_ms: u64,
}

impl Default for FetchRequest<'_> {
    fn default() -> Self {
        FetchRequest { count: count_default(), lease_ms: lease_ms_default(), worker: None, wait_ms: 0 }
    }
}

/// Applies state changes that are due.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tick {}

/// The default number of jobs of a fetch.
pub const fn count_default() -> u32 {
    1
}

/// The default lease of a fetch, in milliseconds.
pub const fn lease_ms_default() -> u64 {
    30_000
}

/// Converts the duration `name` from milliseconds to microseconds.
///
/// # Errors
/// When the result exceeds the range of durations.
pub(super) fn micros(name: &str, ms: u64) -> Result<u64, Failure> {
    let too_long = || Failure::invalid(format!("{name} exceeds the range of durations: {ms} ms"));
    ms.checked_mul(1_000).ok_or_else(too_long)
}

/// Adds milliseconds to a time in microseconds.
fn time_micros(name: &str, from_micros: u64, ms: u64) -> Result<u64, Failure> {
    let micros = ms.checked_mul(1_000).and_then(|micros| micros.checked_add(from_micros));
    micros.ok_or_else(|| Failure::invalid(format!("{name} exceeds the range of times: {ms} ms from now")))
}

/// A time given directly, or as a delay from now.
pub(super) fn time(
    name: &str,
    at_ms: Option<u64>,
    delay_ms: Option<u64>,
    now: Timestamp,
) -> Result<Option<Timestamp>, Failure> {
    match (at_ms, delay_ms) {
        (None, None) => Ok(None),
        (Some(at_ms), None) => Ok(Some(Timestamp::from_micros(time_micros(name, 0, at_ms)?))),
        (None, Some(delay_ms)) => Ok(Some(Timestamp::from_micros(time_micros(name, now.as_micros(), delay_ms)?))),
        (Some(_), Some(_)) => Err(Failure::invalid(format!("give {name} as a time or as a delay, not both"))),
    }
}

impl Enqueue<'_> {
    /// The waits of its backoff, in microseconds.
    pub(super) fn waits(&self) -> Result<Vec<u64>, Failure> {
        self.backoff_list_ms.iter().flatten().map(|ms| micros("a wait of backoff_list_ms", *ms)).collect()
    }

    /// Builds the command.
    ///
    /// # Errors
    /// When a field is invalid, or two fields exclude each other.
    pub fn command<'c>(
        &'c self,
        tags: &'c [&'c str],
        waits: &'c [u64],
        now: Timestamp,
    ) -> Result<Command<'c>, Failure> {
        let payload = given("payload", self.payload, self.payload_text.as_ref(), self.payload_base64.as_ref())?;
        let JobSpec { priority, attempts_max, .. } = JobSpec::new(&[]);
        let job = JobSpec {
            payload: payload.unwrap_or_default(),
            kind: self.kind.as_deref().unwrap_or_default(),
            priority: self.priority.map_or(priority, PriorityRequest::priority),
            run_at: time("run_at", self.run_at_ms, self.delay_ms, now)?,
            expires_at: time("expires_at", self.expires_at_ms, self.expires_in_ms, now)?,
            timeout_micros: self.timeout_ms.map(|ms| micros("timeout_ms", ms)).transpose()?,
            attempts_max: self.attempts_max.unwrap_or(attempts_max),
            backoff: self.backoff(waits)?,
            jitter_percent: self.jitter_percent,
            group: self.group.as_deref().unwrap_or_default(),
            unique: self.unique.as_ref().map(UniqueRequest::unique).transpose()?,
            retention_micros: self.retention_ms.map(|ms| micros("retention_ms", ms)).transpose()?,
            tags,
        };
        Ok(Command::Enqueue { queue: &self.queue, job })
    }

    fn backoff<'c>(&self, waits: &'c [u64]) -> Result<Backoff<&'c [u64]>, Failure> {
        if self.backoff_list_ms.is_some() {
            return match (self.backoff, self.backoff_base_ms, self.backoff_max_ms) {
                (None, None, None) => Ok(Backoff::List(waits)),
                _ => Err(Failure::invalid("give backoff_list_ms, or the other fields of a backoff, not both")),
            };
        }
        let shape = self.backoff.unwrap_or(BackoffShape::Exponential);
        match (shape, self.backoff_base_ms, self.backoff_max_ms) {
            _ if matches!(shape, BackoffShape::None) && self.jitter_percent > 0 => {
                return Err(Failure::invalid("jitter_percent requires a backoff"));
            }
            (BackoffShape::None, Some(_), _) => return Err(Failure::invalid("backoff_base_ms requires a backoff")),
            (BackoffShape::None | BackoffShape::Fixed, _, Some(_)) => {
                return Err(Failure::invalid("backoff_max_ms requires a linear or exponential backoff"));
            }
            _ => {}
        }
        let given_or = |name: &str, ms: Option<u64>, default| ms.map_or(Ok(default), |ms| micros(name, ms));
        let base_micros = given_or("backoff_base_ms", self.backoff_base_ms, BACKOFF_FIRST_MICROS)?;
        let max_micros = given_or("backoff_max_ms", self.backoff_max_ms, BACKOFF_MAX_MICROS)?;
        Ok(match shape {
            BackoffShape::None => Backoff::None,
            BackoffShape::Fixed => Backoff::Fixed { micros: base_micros },
            BackoffShape::Linear => Backoff::Linear { base_micros, max_micros },
            BackoffShape::Exponential => Backoff::Exponential { base_micros, max_micros },
        })
    }
}

impl UniqueRequest<'_> {
    fn unique(&self) -> Result<Unique<'_>, Failure> {
        Ok(Unique {
            key: self.key.as_bytes(),
            scope: match self.scope {
                UniqueScopeName::Queue => UniqueScope::Queue,
                UniqueScopeName::Everywhere => UniqueScope::Everywhere,
            },
            hold: match (self.hold_ms, self.hold) {
                (Some(ms), None) => UniqueHold::For(micros("hold_ms", ms)?),
                (None, None | Some(Hold::UntilFinished)) => UniqueHold::UntilFinished,
                (None, Some(Hold::UntilStarted)) => UniqueHold::UntilStarted,
                (Some(_), Some(_)) => return Err(Failure::invalid("give hold or hold_ms, not both")),
            },
            clash: match self.clash {
                ClashRequest::Reject => Clash::Reject,
                ClashRequest::Keep => Clash::Keep,
                ClashRequest::Replace => Clash::Replace,
                ClashRequest::Extend => Clash::Extend,
            },
        })
    }
}

impl Fetch<'_> {
    /// Builds the command.
    ///
    /// # Errors
    /// When a field is invalid, or two fields exclude each other.
    pub fn command<'c>(&'c self, queues: &'c [&'c str]) -> Result<Command<'c>, Failure> {
        let worker = self.worker.as_deref().unwrap_or_default();
        let order = if self.weights.is_empty() { Order::Strict } else { Order::Weighted(&self.weights) };
        let lease_micros = micros("lease_ms", self.lease_ms)?;
        Ok(Command::Fetch { queues, order, count: self.count, lease_micros, worker })
    }
}

/// The job that a command names.
fn job(given: Option<ParsedText<JobId>>) -> Result<JobId, Failure> {
    given.map(|job| job.0).ok_or_else(|| Failure::invalid("missing field `job`"))
}

/// A command on one job, which the path of its request can name.
pub trait OnJob {
    /// The field with the job.
    fn job_mut(&mut self) -> &mut Option<ParsedText<JobId>>;

    /// Sets the job.
    ///
    /// # Errors
    /// When the command already names one.
    fn name_job(&mut self, id: JobId) -> Result<(), Failure> {
        match self.job_mut().replace(ParsedText(id)) {
            None => Ok(()),
            Some(_) => Err(Failure::invalid("the path names the job: leave it out of the body")),
        }
    }
}

impl OnJob for Ack<'_> {
    fn job_mut(&mut self) -> &mut Option<ParsedText<JobId>> {
        &mut self.job
    }
}

impl OnJob for Fail<'_> {
    fn job_mut(&mut self) -> &mut Option<ParsedText<JobId>> {
        &mut self.job
    }
}

impl OnJob for Heartbeat<'_> {
    fn job_mut(&mut self) -> &mut Option<ParsedText<JobId>> {
        &mut self.job
    }
}

impl OnJob for Snooze {
    fn job_mut(&mut self) -> &mut Option<ParsedText<JobId>> {
        &mut self.job
    }
}

impl Ack<'_> {
    /// Builds the command.
    ///
    /// # Errors
    /// When a field is invalid, or two fields exclude each other.
    pub fn command(&self) -> Result<Command<'_>, Failure> {
        let result = given("result", self.result, self.result_text.as_ref(), self.result_base64.as_ref())?;
        Ok(Command::Ack { job: job(self.job)?, token: self.token.0, result: result.unwrap_or_default() })
    }
}

impl Snooze {
    /// Builds the command.
    ///
    /// # Errors
    /// When a field is invalid, or two fields exclude each other.
    pub fn command(&self, now: Timestamp) -> Result<Command<'_>, Failure> {
        let until = time("until", self.until_ms, self.delay_ms, now)?;
        let until = until.ok_or_else(|| Failure::invalid("missing field `until_ms` or `delay_ms`"))?;
        Ok(Command::Snooze { job: job(self.job)?, token: self.token.0, until })
    }
}

impl Fail<'_> {
    /// Builds the command.
    ///
    /// # Errors
    /// When a field is invalid, or two fields exclude each other.
    pub fn command(&self, now: Timestamp) -> Result<Command<'_>, Failure> {
        let retry = match (self.retry, time("retry", self.retry_at_ms, self.retry_delay_ms, now)?) {
            (None | Some(RetryRequest::Backoff), None) => Retry::Backoff,
            (Some(RetryRequest::Never), None) => Retry::Never,
            (None, Some(at)) => Retry::At(at),
            (Some(_), Some(_)) => return Err(Failure::invalid("give retry or a time, not both")),
        };
        Ok(Command::Fail { job: job(self.job)?, token: self.token.0, error: &self.error, retry })
    }
}

impl Heartbeat<'_> {
    /// Builds the command.
    ///
    /// # Errors
    /// When a field is invalid, or two fields exclude each other.
    pub fn command(&self) -> Result<Command<'_>, Failure> {
        let progress = given("progress", self.progress, self.progress_text.as_ref(), self.progress_base64.as_ref())?;
        let checkpoint =
            given("checkpoint", self.checkpoint, self.checkpoint_text.as_ref(), self.checkpoint_base64.as_ref())?;
        let lease_micros = self.lease_ms.map(|ms| micros("lease_ms", ms)).transpose()?;
        Ok(Command::Heartbeat { job: job(self.job)?, token: self.token.0, lease_micros, progress, checkpoint })
    }
}
