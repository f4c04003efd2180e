//! Why a command is refused, with the facts that conflict.

use alloc::string::String;
use core::fmt;

use quire_model::{ClaimRefusal, PermissionRefusal, Stop};

use crate::{JobId, JobState};

/// Why a command is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A queue can't have this name.
    InvalidName {
        /// The name; its first 255 bytes when it is longer.
        name: String,
    },
    /// The token belongs to a lease that no longer holds: the job is finished, failed, cancelled or
    /// leased again, or the lease has expired. The worker should discard its work, or make it safe
    /// to repeat.
    StaleLease {
        /// The job.
        job: JobId,
        /// The state it is in.
        state: JobState,
    },
    /// No job has this id, or its history was trimmed.
    UnknownJob {
        /// The requested id.
        job: JobId,
    },
    /// No queue has this name.
    UnknownQueue {
        /// The requested name.
        queue: String,
    },
    /// A job in this state does not allow this change. See the transition table.
    WrongState {
        /// The job.
        job: JobId,
        /// The state it is in.
        state: JobState,
    },
    /// Another job has the key.
    Duplicate {
        /// The job that has the key.
        job: JobId,
    },
    /// The queue is draining: it takes no new jobs.
    QueueDraining {
        /// The queue.
        queue: String,
    },
    /// The queue has as many unfinished jobs as it may: see
    /// [`QueueSettings::jobs_max`](crate::QueueSettings::jobs_max). Nothing is wrong with the job:
    /// enqueue it again later.
    Overloaded {
        /// The queue.
        queue: String,
        /// The most unfinished jobs of the queue.
        jobs_max: u32,
        /// After how many microseconds to try again.
        retry_after_micros: u64,
    },
    /// The target queue has reached its limit of active jobs, in total or for the job's group. An
    /// active job can't be moved there until it is no longer active.
    TooManyActive {
        /// The queue.
        queue: String,
        /// The setting: `active_max` or `group_active_max`.
        setting: &'static str,
        /// The most active jobs.
        most: u32,
    },
    /// The job has started more attempts than the requested limit, or waits for a later one.
    TooFewAttempts {
        /// The job.
        job: JobId,
        /// The lowest possible limit.
        least: u16,
    },
    /// The weights of a fetch are not one for each queue, all at least 1.
    InvalidWeights,
    /// An `Each` within an `Each`.
    NestedEach,
    /// A number or a size is outside its allowed range.
    OutOfRange {
        /// The exceeded limit.
        limit: JobLimit,
        /// The value.
        given: u64,
    },
    /// A name has a control character.
    ControlCharacter {
        /// The field with the name: `kind`, `group`, `tag` or `worker`.
        field: &'static str,
        /// The name.
        name: String,
    },
    /// Another object has the topic name of the queue, or the database has as many queues as it
    /// may.
    Claim(ClaimRefusal),
    /// The client may not change the queue in this way. For a command in an
    /// [`Each`](crate::Command::Each); any other command is refused with its commit.
    NotPermitted(PermissionRefusal),
}

impl From<ClaimRefusal> for Refusal {
    fn from(refusal: ClaimRefusal) -> Self {
        Refusal::Claim(refusal)
    }
}

impl From<Refusal> for Stop<Refusal> {
    fn from(refusal: Refusal) -> Self {
        Stop::Refused(refusal)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::InvalidName { name } => {
                write!(
                    f,
                    "invalid queue name {name:?}: use 1 to 255 characters of A-Z a-z 0-9 . _ - in segments joined by \
                     single slashes; . and .. are not allowed"
                )
            }
            Refusal::StaleLease { job, state } => {
                write!(f, "the lease of job {job} is stale: the job is {state}")
            }
            Refusal::UnknownJob { job } => write!(f, "unknown job {job}"),
            Refusal::UnknownQueue { queue } => write!(f, "unknown queue {queue:?}"),
            Refusal::WrongState { job, state } => write!(f, "cannot change job {job} in this way: it is {state}"),
            Refusal::Duplicate { job } => write!(f, "the unique key already exists: job {job} has it"),
            Refusal::QueueDraining { queue } => {
                write!(f, "queue {queue:?} is unavailable for new jobs: it is draining")
            }
            Refusal::Overloaded { queue, jobs_max, retry_after_micros } => {
                let after_ms = retry_after_micros / 1_000;
                write!(f, "jobs_max of queue {queue:?} is exceeded: the limit is {jobs_max}; retry in {after_ms} ms")
            }
            Refusal::TooManyActive { queue, setting, most } => {
                write!(
                    f,
                    "{setting} of queue {queue:?} is exceeded: the limit is {most}; move the job when it is not active"
                )
            }
            Refusal::TooFewAttempts { job, least } => {
                write!(
                    f,
                    "attempts_max of job {job} must be at least {least}, the number of its current or next attempt"
                )
            }
            Refusal::InvalidWeights => {
                f.write_str("invalid weights: a weighted fetch needs one weight per queue, each at least 1")
            }
            Refusal::NestedEach => f.write_str("invalid command: an `each` cannot contain another `each`"),
            Refusal::OutOfRange { limit, given } => {
                let (least, most) = limit.range();
                write!(f, "{limit} must be between {least} and {most}, got {given}")
            }
            Refusal::ControlCharacter { field, name } => {
                write!(f, "invalid {field} {name:?}: it has a control character")
            }
            Refusal::Claim(refusal) => refusal.fmt(f),
            Refusal::NotPermitted(refusal) => refusal.fmt(f),
        }
    }
}

impl core::error::Error for Refusal {}

/// A limited number or size. Its number is part of stored replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobLimit {
    /// The bytes of a handler's name.
    KindBytes = 0,
    /// The bytes of a group's name.
    GroupBytes = 1,
    /// The bytes of a unique key.
    KeyBytes = 2,
    /// The time that a unique key is held.
    KeyMicros = 3,
    /// The number of attempts of a job.
    AttemptsMax = 4,
    /// The longest duration of an attempt.
    TimeoutMicros = 5,
    /// The number of waits of a backoff.
    BackoffWaits = 6,
    /// The wait between attempts.
    BackoffMicros = 7,
    /// The percentage by which a wait may be shorter.
    JitterPercent = 8,
    /// The number of tags of a job.
    Tags = 9,
    /// The bytes of one tag.
    TagBytes = 10,
    /// The number of queues of a fetch.
    FetchQueues = 11,
    /// The number of jobs of a fetch.
    FetchCount = 12,
    /// The duration of a lease.
    LeaseMicros = 13,
    /// The bytes of a worker's name.
    WorkerBytes = 14,
    /// The bytes of a heartbeat's progress.
    ProgressBytes = 15,
    /// The bytes of a heartbeat's checkpoint.
    CheckpointBytes = 16,
    /// The bytes of a reason.
    ReasonBytes = 17,
    /// The number of unfinished jobs.
    JobsMax = 18,
    /// The number of active jobs.
    ActiveMax = 19,
    /// The number of jobs that may start within a period, or at once.
    RateCount = 20,
    /// The number of jobs that may start within a sliding window.
    WindowCount = 21,
    /// The period of a rate.
    RateMicros = 22,
    /// The number of commands in an `Each`.
    EachCommands = 23,
    /// The number of running bulk changes.
    Bulks = 24,
    /// The number of jobs in a filter.
    FilterJobs = 25,
    /// The time that a finished job is found.
    RetentionMicros = 26,
    /// When something is to happen to a job, since 1970: to the end of the year 9999.
    TimeMicros = 27,
}

const DAY_MICROS: u64 = 24 * 3_600 * 1_000_000;

/// The most queues of a fetch.
pub(crate) const FETCH_QUEUES_MAX: usize = 64;

impl JobLimit {
    /// All of them, in the order of their numbers.
    pub const ALL: [JobLimit; 28] = [
        JobLimit::KindBytes,
        JobLimit::GroupBytes,
        JobLimit::KeyBytes,
        JobLimit::KeyMicros,
        JobLimit::AttemptsMax,
        JobLimit::TimeoutMicros,
        JobLimit::BackoffWaits,
        JobLimit::BackoffMicros,
        JobLimit::JitterPercent,
        JobLimit::Tags,
        JobLimit::TagBytes,
        JobLimit::FetchQueues,
        JobLimit::FetchCount,
        JobLimit::LeaseMicros,
        JobLimit::WorkerBytes,
        JobLimit::ProgressBytes,
        JobLimit::CheckpointBytes,
        JobLimit::ReasonBytes,
        JobLimit::JobsMax,
        JobLimit::ActiveMax,
        JobLimit::RateCount,
        JobLimit::WindowCount,
        JobLimit::RateMicros,
        JobLimit::EachCommands,
        JobLimit::Bulks,
        JobLimit::FilterJobs,
        JobLimit::RetentionMicros,
        JobLimit::TimeMicros,
    ];

    /// The least and the most that is allowed. Durations are in microseconds.
    pub const fn range(self) -> (u64, u64) {
        match self {
            JobLimit::KindBytes | JobLimit::WorkerBytes | JobLimit::GroupBytes => (0, 255),
            JobLimit::KeyBytes | JobLimit::TagBytes => (1, 255),
            JobLimit::KeyMicros => (1, 366 * DAY_MICROS),
            JobLimit::AttemptsMax => (1, 65_535),
            JobLimit::TimeoutMicros => (1, 366 * DAY_MICROS),
            JobLimit::BackoffWaits => (1, 64),
            JobLimit::BackoffMicros => (0, 366 * DAY_MICROS),
            JobLimit::JitterPercent => (0, 100),
            JobLimit::Tags => (0, 32),
            JobLimit::FetchQueues => (1, FETCH_QUEUES_MAX as u64),
            JobLimit::FetchCount => (1, 1_024),
            JobLimit::LeaseMicros => (1, 7 * DAY_MICROS),
            JobLimit::ProgressBytes => (0, 64 << 10),
            JobLimit::CheckpointBytes => (0, 1 << 20),
            JobLimit::ReasonBytes => (0, 1_024),
            JobLimit::JobsMax | JobLimit::ActiveMax => (1, 4_294_967_295),
            JobLimit::RateCount => (1, 1_000_000),
            JobLimit::WindowCount => (1, 10_000),
            JobLimit::RateMicros => (1, DAY_MICROS),
            JobLimit::EachCommands => (0, 1_024),
            JobLimit::Bulks => (0, 64),
            JobLimit::FilterJobs => (0, 10_000),
            JobLimit::RetentionMicros => (1, 36_600 * DAY_MICROS),
            // The days from 1970-01-01 to 9999-12-31.
            JobLimit::TimeMicros => (0, 2_932_897 * DAY_MICROS - 1),
        }
    }

    /// Whether the number is in microseconds: front ends with milliseconds convert it.
    pub const fn is_micros(self) -> bool {
        use JobLimit::{BackoffMicros, KeyMicros, LeaseMicros, RateMicros, RetentionMicros, TimeMicros, TimeoutMicros};
        matches!(
            self,
            BackoffMicros | KeyMicros | TimeoutMicros | LeaseMicros | RateMicros | RetentionMicros | TimeMicros
        )
    }

    /// Refuses a value outside the range.
    pub(crate) fn check(self, given: u64) -> Result<(), Refusal> {
        let (least, most) = self.range();
        if (least..=most).contains(&given) { Ok(()) } else { Err(Refusal::OutOfRange { limit: self, given }) }
    }
}

impl fmt::Display for JobLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            JobLimit::KindBytes => "kind length in bytes",
            JobLimit::GroupBytes => "group length in bytes",
            JobLimit::KeyBytes => "unique key length in bytes",
            JobLimit::KeyMicros => "unique key hold in microseconds",
            JobLimit::AttemptsMax => "attempts_max",
            JobLimit::TimeoutMicros => "timeout in microseconds",
            JobLimit::BackoffWaits => "number of backoff waits",
            JobLimit::BackoffMicros => "backoff in microseconds",
            JobLimit::JitterPercent => "jitter_percent",
            JobLimit::Tags => "number of tags",
            JobLimit::TagBytes => "tag length in bytes",
            JobLimit::FetchQueues => "number of queues in a fetch",
            JobLimit::FetchCount => "number of jobs in a fetch",
            JobLimit::LeaseMicros => "lease in microseconds",
            JobLimit::WorkerBytes => "worker length in bytes",
            JobLimit::ProgressBytes => "progress length in bytes",
            JobLimit::CheckpointBytes => "checkpoint length in bytes",
            JobLimit::ReasonBytes => "reason length in bytes",
            JobLimit::JobsMax => "jobs_max",
            JobLimit::ActiveMax => "active_max",
            JobLimit::RateCount => "number of starts of a rate",
            JobLimit::WindowCount => "number of starts of a sliding window",
            JobLimit::RateMicros => "rate period in microseconds",
            JobLimit::EachCommands => "number of commands in an each",
            JobLimit::Bulks => "number of running bulk changes",
            JobLimit::FilterJobs => "number of jobs in a filter",
            JobLimit::RetentionMicros => "retention in microseconds",
            JobLimit::TimeMicros => "time in microseconds since 1970",
        })
    }
}
