//! Why a command is refused, with the facts it met.

use alloc::string::String;
use core::fmt;

use crate::{JobId, JobState};

/// Why a command is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A queue can't have this name.
    InvalidName {
        /// The name; its first 255 bytes when it is longer.
        name: String,
    },
    /// The token is not that of a lease that still holds: the job was finished, failed or leased anew, or the lease
    /// has run out. The worker should drop what it did, or do it in a way that bears repeating.
    StaleLease {
        /// The job.
        job: JobId,
        /// The state it is in.
        state: JobState,
    },
    /// There is no such job, or its history is trimmed.
    UnknownJob {
        /// The id that was asked for.
        job: JobId,
    },
    /// A number or a size is outside of what is allowed.
    OutOfRange {
        /// Which.
        limit: Limit,
        /// What was given.
        given: u64,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::InvalidName { name } => {
                write!(f, "a queue can't be named {name:?}: 1 to 255 of A-Z a-z 0-9 . _ - with single slashes between")
            }
            Refusal::StaleLease { job, state } => {
                write!(f, "the lease of job {job} no longer holds: the job is {state}")
            }
            Refusal::UnknownJob { job } => write!(f, "there is no job {job}"),
            Refusal::OutOfRange { limit, given } => {
                let (least, most) = limit.range();
                write!(f, "{limit} must be {least} to {most}, not {given}")
            }
        }
    }
}

impl core::error::Error for Refusal {}

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// How many queues there are.
    Queues,
    /// The bytes of a handler's name.
    KindBytes,
    /// How many attempts a job gets.
    AttemptsMax,
    /// How many tags a job has.
    Tags,
    /// The bytes of one tag.
    TagBytes,
    /// How many queues a fetch names.
    FetchQueues,
    /// How many jobs a fetch asks for.
    FetchCount,
    /// How long a lease lasts.
    LeaseMicros,
    /// The bytes of a worker's name.
    WorkerBytes,
    /// How many items an `AckMany` has.
    AckItems,
}

impl Limit {
    /// The least and the most that is allowed.
    pub const fn range(self) -> (u64, u64) {
        match self {
            Limit::Queues => (0, 65_536),
            Limit::KindBytes | Limit::WorkerBytes => (0, 255),
            Limit::AttemptsMax => (1, 65_535),
            Limit::Tags => (0, 32),
            Limit::TagBytes => (1, 255),
            Limit::FetchQueues => (1, 64),
            Limit::FetchCount => (1, 1_024),
            Limit::LeaseMicros => (1, 7 * 24 * 3_600 * 1_000_000),
            Limit::AckItems => (0, 1_024),
        }
    }

    /// Refuses what is outside.
    pub(crate) fn check(self, given: u64) -> Result<(), Refusal> {
        let (least, most) = self.range();
        if (least..=most).contains(&given) { Ok(()) } else { Err(Refusal::OutOfRange { limit: self, given }) }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Limit::Queues => "the number of queues",
            Limit::KindBytes => "the bytes of a kind",
            Limit::AttemptsMax => "the attempts of a job",
            Limit::Tags => "the tags of a job",
            Limit::TagBytes => "the bytes of a tag",
            Limit::FetchQueues => "the queues of a fetch",
            Limit::FetchCount => "the jobs of a fetch",
            Limit::LeaseMicros => "the microseconds of a lease",
            Limit::WorkerBytes => "the bytes of a worker's name",
            Limit::AckItems => "the items of an ack",
        })
    }
}
