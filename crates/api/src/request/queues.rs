//! The JSON form of the commands that change jobs administratively, and of commands on whole
//! queues.

use quire::Timestamp;
use quire::jobs::{Change, Command, Filter, JobId, JobState, QueueChange, Rate, States};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::jobs::{PriorityRequest, micros, time};
use crate::Failure;
use crate::bytes::{Base64, ParsedText, Text, from_text, given};
use crate::schema::inline_schema;

/// Changes a job.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeJob<'r> {
    job: ParsedText<JobId>,
    #[serde(borrow)]
    change: ChangeRequest<'r>,
}

/// The change of a job: `{"cancel": {"reason": "..."}}`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields, remote = "Self")]
pub enum ChangeRequest<'r> {
    /// Cancels the job.
    #[serde(borrow)]
    Cancel(ReasonRequest<'r>),
    /// Puts the job on hold.
    #[serde(borrow)]
    Hold(ReasonRequest<'r>),
    /// Releases the job from hold.
    Release {},
    /// Runs the job at another time.
    Reschedule {
        /// The time.
        #[serde(skip_serializing_if = "Option::is_none")]
        run_at_ms: Option<u64>,
        /// In place of the time, the delay.
        #[serde(skip_serializing_if = "Option::is_none")]
        delay_ms: Option<u64>,
    },
    /// Retries a dead job.
    #[serde(borrow)]
    Retry(PayloadRequest<'r>),
    /// Deletes the job.
    Delete {},
    /// Moves the job to another queue.
    Move {
        /// The other queue.
        #[serde(borrow)]
        queue: Text<'r>,
    },
    /// Changes the priority.
    Priority(PriorityRequest),
    /// Changes the number of attempts.
    AttemptsMax(u16),
    /// Replaces the payload.
    #[serde(borrow)]
    Payload(PayloadRequest<'r>),
}

/// The reason of a change.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReasonRequest<'r> {
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Text<'r>>,
}

/// A new payload.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PayloadRequest<'r> {
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'r RawValue>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_text: Option<Text<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<Base64>,
}

/// Changes one setting of a queue.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetQueue<'r> {
    #[serde(borrow)]
    queue: Text<'r>,
    set: SettingRequest,
}

/// A setting; `null` removes a limit.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", remote = "Self")]
pub enum SettingRequest {
    /// Whether no job is leased.
    Paused(bool),
    /// Whether no job is accepted.
    Draining(bool),
    /// The most unfinished jobs.
    JobsMax(Option<u32>),
    /// The most active jobs.
    ActiveMax(Option<u32>),
    /// The most active jobs of each group.
    GroupActiveMax(Option<u32>),
    /// The most starts in a time.
    Rate(Option<RateRequest>),
    /// The most starts of each group in a time.
    GroupRate(Option<RateRequest>),
    /// How long a completed or cancelled job can be found.
    RetentionMs(Option<u64>),
}

/// The fields of several settings.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("minProperties" = 1))]
struct SettingsFields {
    paused: Option<bool>,
    draining: Option<bool>,
    #[serde(deserialize_with = "given_or_null")]
    jobs_max: Option<Option<u32>>,
    #[serde(deserialize_with = "given_or_null")]
    active_max: Option<Option<u32>>,
    #[serde(deserialize_with = "given_or_null")]
    group_active_max: Option<Option<u32>>,
    #[serde(deserialize_with = "given_or_null", skip_serializing_if = "Option::is_none")]
    rate: Option<Option<RateRequest>>,
    #[serde(deserialize_with = "given_or_null", skip_serializing_if = "Option::is_none")]
    group_rate: Option<Option<RateRequest>>,
    #[serde(deserialize_with = "given_or_null")]
    retention_ms: Option<Option<u64>>,
}

/// Several settings, in one object.
#[derive(Debug)]
pub struct SettingsChange(pub Vec<SettingRequest>);

impl JsonSchema for SettingsChange {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SettingsChange".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        SettingsFields::json_schema(generator)
    }
}

impl<'de> Deserialize<'de> for SettingsChange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = SettingsFields::deserialize(deserializer)?;
        let settings = [
            fields.paused.map(SettingRequest::Paused),
            fields.draining.map(SettingRequest::Draining),
            fields.jobs_max.map(SettingRequest::JobsMax),
            fields.active_max.map(SettingRequest::ActiveMax),
            fields.group_active_max.map(SettingRequest::GroupActiveMax),
            fields.rate.map(SettingRequest::Rate),
            fields.group_rate.map(SettingRequest::GroupRate),
            fields.retention_ms.map(SettingRequest::RetentionMs),
        ];
        let settings: Vec<SettingRequest> = settings.into_iter().flatten().collect();
        if settings.is_empty() {
            return Err(serde::de::Error::custom("give at least one setting"));
        }
        Ok(SettingsChange(settings))
    }
}

/// A field that is present, possibly as `null`; an absent field leaves the setting unchanged.
fn given_or_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// The rate of a queue.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields, remote = "Self")]
pub enum RateRequest {
    /// `count` starts in each `per_ms`, and up to `burst` at once.
    TokenBucket {
        /// The number of starts.
        count: u32,
        /// The time.
        per_ms: u64,
        /// The most starts at once.
        burst: u32,
    },
    /// `count` starts in any `window_ms`.
    SlidingWindow {
        /// The number of starts.
        count: u32,
        /// The time.
        window_ms: u64,
    },
}

/// Names a whole queue.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WholeQueue<'r> {
    #[serde(borrow)]
    pub(super) queue: Text<'r>,
}

/// Changes every job that a filter matches.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkRequest<'r> {
    #[serde(borrow)]
    pub(super) filter: FilterRequest<'r>,
    #[serde(borrow)]
    change: ChangeRequest<'r>,
}

/// Selects jobs.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FilterRequest<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    jobs: Option<JobIds>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<Text<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    states: Option<Vec<StateName>>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<Text<'r>>,
    #[serde(borrow, deserialize_with = "crate::meter::list")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tags: Vec<Text<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if)]
    enqueued_from_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if)]
    enqueued_before_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if)]
    finished_from_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if)]
    finished_before_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if)]
    attempts_min: Option<u16>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Text<'r>>,
}

/// Ids of jobs.
#[derive(Debug, Deserialize)]
#[serde(from = "Vec<ParsedText<JobId>>")]
struct JobIds(Vec<JobId>);

inline_schema!(JobIds, "JobIds", {"type": "array", "items": {"type": "string"}});

impl Serialize for JobIds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|id| ParsedText(*id)))
    }
}

impl From<Vec<ParsedText<JobId>>> for JobIds {
    fn from(ids: Vec<ParsedText<JobId>>) -> Self {
        JobIds(ids.into_iter().map(|id| id.0).collect())
    }
}

#[derive(Debug, Clone, Copy)]
struct StateName(JobState);

impl Serialize for StateName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name())
    }
}

inline_schema!(StateName, "JobState", {"type": "string", "enum": (JobState::ALL.map(JobState::name))});

impl<'de> Deserialize<'de> for StateName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_text(deserializer, |name| {
            JobState::from_name(name).map(StateName).ok_or_else(|| format!("unknown state {name:?}"))
        })
    }
}

impl PayloadRequest<'_> {
    fn bytes(&self) -> Result<Option<&[u8]>, Failure> {
        given("payload", self.payload, self.payload_text.as_ref(), self.payload_base64.as_ref())
    }
}

impl ChangeRequest<'_> {
    /// Builds the change. Relative times count from `now`.
    pub fn change(&self, now: Timestamp) -> Result<Change<'_>, Failure> {
        Ok(match self {
            ChangeRequest::Cancel(why) => Change::Cancel { reason: why.reason.as_deref().unwrap_or_default() },
            ChangeRequest::Hold(why) => Change::Hold { reason: why.reason.as_deref().unwrap_or_default() },
            ChangeRequest::Release {} => Change::Release,
            ChangeRequest::Reschedule { run_at_ms, delay_ms } => {
                Change::Reschedule { run_at: time("run_at", *run_at_ms, *delay_ms, now)?.unwrap_or(now) }
            }
            ChangeRequest::Retry(payload) => Change::Retry { payload: payload.bytes()? },
            ChangeRequest::Delete {} => Change::Delete,
            ChangeRequest::Move { queue } => Change::Move { queue },
            ChangeRequest::Priority(priority) => Change::Priority(priority.priority()),
            ChangeRequest::AttemptsMax(attempts) => Change::AttemptsMax(*attempts),
            ChangeRequest::Payload(payload) => Change::Payload(payload.bytes()?.unwrap_or_default()),
        })
    }
}

impl ChangeJob<'_> {
    /// Builds the command.
    ///
    /// # Errors
    /// When a field is invalid, or two fields exclude each other.
    pub fn command(&self, now: Timestamp) -> Result<Command<'_>, Failure> {
        Ok(Command::Change { job: self.job.0, change: self.change.change(now)? })
    }
}

impl SettingRequest {
    /// Builds the change.
    ///
    /// # Errors
    /// When a field is invalid, or two fields exclude each other.
    pub fn change(self) -> Result<QueueChange, Failure> {
        let rate = |rate: Option<RateRequest>| rate.map(RateRequest::rate).transpose();
        Ok(match self {
            SettingRequest::Paused(paused) => QueueChange::Paused(paused),
            SettingRequest::Draining(draining) => QueueChange::Draining(draining),
            SettingRequest::JobsMax(most) => QueueChange::JobsMax(most),
            SettingRequest::ActiveMax(most) => QueueChange::ActiveMax(most),
            SettingRequest::GroupActiveMax(most) => QueueChange::GroupActiveMax(most),
            SettingRequest::Rate(given) => QueueChange::Rate(rate(given)?),
            SettingRequest::GroupRate(given) => QueueChange::GroupRate(rate(given)?),
            SettingRequest::RetentionMs(ms) => {
                QueueChange::Retention(ms.map(|ms| micros("retention_ms", ms)).transpose()?)
            }
        })
    }
}

impl RateRequest {
    fn rate(self) -> Result<Rate, Failure> {
        Ok(match self {
            RateRequest::TokenBucket { count, per_ms, burst } => {
                Rate::TokenBucket { count, per_micros: micros("per_ms", per_ms)?, burst }
            }
            RateRequest::SlidingWindow { count, window_ms } => {
                Rate::SlidingWindow { count, window_micros: micros("window_ms", window_ms)? }
            }
        })
    }
}

impl SetQueue<'_> {
    /// Builds the command.
    ///
    /// # Errors
    /// When a field is invalid, or two fields exclude each other.
    pub fn command(&self) -> Result<Command<'_>, Failure> {
        Ok(Command::SetQueue { queue: &self.queue, change: self.set.change()? })
    }
}

impl FilterRequest<'_> {
    fn filter<'c>(&'c self, tags: &'c [&'c str]) -> Filter<'c> {
        let states = self.states.as_ref().map(|states| States::of(states.iter().map(|state| state.0)));
        Filter {
            jobs: self.jobs.as_ref().map(|ids| &*ids.0),
            queue: self.queue.as_deref(),
            states: states.unwrap_or_default(),
            kind: self.kind.as_deref(),
            tags,
            enqueued_from: self.enqueued_from_ms.map(Timestamp::from_millis),
            enqueued_before: self.enqueued_before_ms.map(Timestamp::from_millis),
            finished_from: self.finished_from_ms.map(Timestamp::from_millis),
            finished_before: self.finished_before_ms.map(Timestamp::from_millis),
            attempts_min: self.attempts_min,
            error: self.error.as_deref(),
        }
    }
}

impl BulkRequest<'_> {
    /// Builds the command.
    ///
    /// # Errors
    /// When a field is invalid, or two fields exclude each other.
    pub fn command<'c>(&'c self, tags: &'c [&'c str], now: Timestamp) -> Result<Command<'c>, Failure> {
        Ok(Command::Bulk { filter: self.filter.filter(tags), change: self.change.change(now)? })
    }
}
