//! The specification of a job by its producer: payload, priority, times, attempts, backoff and
//! uniqueness.
//!
//! Plain data with defaults; limits are checked when the command is decided.

use core::time::Duration;

use quire_model::{Timestamp, micros_of};

use crate::Backoff;

/// The default number of attempts.
pub const ATTEMPTS_MAX_DEFAULT: u16 = 5;

/// The priority of a job: higher numbers go first. The names are a convention over the whole range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(u8);

impl Priority {
    /// 255: before everything else.
    pub const CRITICAL: Priority = Priority(255);
    /// 192.
    pub const HIGH: Priority = Priority(192);
    /// 128: the default.
    pub const NORMAL: Priority = Priority(128);
    /// 64.
    pub const LOW: Priority = Priority(64);

    /// The priority of this number; the greater number goes first.
    pub const fn new(number: u8) -> Self {
        Priority(number)
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The priority of this name: `critical`, `high`, `normal` or `low`.
    ///
    /// # Example
    /// ```
    /// use quire_jobs::Priority;
    /// assert_eq!(Priority::from_name("high"), Some(Priority::HIGH));
    /// assert_eq!(Priority::from_name("urgent"), None);
    /// ```
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "critical" => Some(Priority::CRITICAL),
            "high" => Some(Priority::HIGH),
            "normal" => Some(Priority::NORMAL),
            "low" => Some(Priority::LOW),
            _ => None,
        }
    }
}

impl Default for Priority {
    fn default() -> Self {
        Priority::NORMAL
    }
}

/// A key that at most one job has at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Unique<'c> {
    /// The key: 1 to 255 bytes.
    pub key: &'c [u8],
    /// Among which jobs.
    pub scope: UniqueScope,
    /// How long the job holds the key.
    pub hold: UniqueHold,
    /// The treatment of a second job with the key.
    pub clash: Clash,
}

impl<'c> Unique<'c> {
    /// This key within the queue, until the job is finished. A second job is not enqueued; its
    /// producer gets the id of the first.
    pub fn new(key: &'c [u8]) -> Self {
        Unique { key, scope: UniqueScope::Queue, hold: UniqueHold::UntilFinished, clash: Clash::Keep }
    }
}

/// Among which jobs a key is unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UniqueScope {
    /// The key is unique in the queue into which the job was enqueued.
    Queue,
    /// The key is unique among the jobs of all queues with this scope.
    Everywhere,
}

/// The time that a job holds its key. Cancelling or deleting the job frees its key at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UniqueHold {
    /// Until it is completed, cancelled, dead or deleted.
    UntilFinished,
    /// Until a worker gets it for the first time: then the next may wait.
    UntilStarted,
    /// For this many microseconds after the enqueue, even when the job is finished earlier: at most
    /// one job in that time.
    For(u64),
}

impl UniqueHold {
    /// Returns a hold for this duration after the enqueue, even when the job is finished earlier.
    pub fn for_duration(duration: Duration) -> Self {
        UniqueHold::For(micros_of(duration))
    }
}

/// The treatment of a job whose key another job holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Clash {
    /// The enqueue is refused.
    Reject,
    /// The job that has the key stays, and is the answer.
    Keep,
    /// The job that has the key is cancelled, and the new one takes its place. One that is being
    /// worked on stays instead.
    Replace,
    /// The job that has the key stays, and is the answer. If it still waits for its time, it gets
    /// the new one's; a key that is held for a time is held for that time from now.
    Extend,
}

/// A job to be enqueued.
#[derive(Debug, Clone, Copy, Hash)]
pub struct JobSpec<'c> {
    /// The payload: bytes, JSON by convention. Only the log's record limit bounds them.
    pub payload: &'c [u8],
    /// The name of the handler, apart from the queue; may be empty; at most 255 bytes.
    pub kind: &'c str,
    /// The priority.
    pub priority: Priority,
    /// When it may run: `None`, or a time that is past, is at once.
    pub run_at: Option<Timestamp>,
    /// The time after which the job must not begin: a job that is not active by then becomes dead.
    pub expires_at: Option<Timestamp>,
    /// The longest duration of an attempt in microseconds, regardless of heartbeats; at least 1.
    pub timeout_micros: Option<u64>,
    /// The largest number of attempts, at least 1. When the last fails, the job is dead.
    pub attempts_max: u16,
    /// The waits between attempts; each is at most 366 days.
    pub backoff: Backoff<&'c [u64]>,
    /// The percentage by which a wait may be shorter than its backoff, at most 100. The record
    /// determines the actual reduction.
    pub jitter_percent: u8,
    /// The job's group: groups of a queue take turns, and the group limits of the queue count each
    /// group by itself. At most 255 bytes; the empty name is a group like every other.
    pub group: &'c str,
    /// The key that prevents a second job.
    pub unique: Option<Unique<'c>>,
    /// How long the job is kept after it completed or was cancelled, in microseconds; overrides the
    /// queue's [`QueueSettings::retention_micros`](crate::QueueSettings::retention_micros).
    pub retention_micros: Option<u64>,
    /// Words to find it by: at most 32, each of 1 to 255 bytes. One given twice counts once.
    pub tags: &'c [&'c str],
}

impl<'c> JobSpec<'c> {
    /// A job of this payload, everything else by default: no kind, normal priority, at once,
    /// [`ATTEMPTS_MAX_DEFAULT`] attempts, no tags.
    pub fn new(payload: &'c [u8]) -> Self {
        JobSpec {
            payload,
            kind: "",
            priority: Priority::default(),
            run_at: None,
            expires_at: None,
            timeout_micros: None,
            attempts_max: ATTEMPTS_MAX_DEFAULT,
            backoff: Backoff::default(),
            jitter_percent: 0,
            group: "",
            unique: None,
            retention_micros: None,
            tags: &[],
        }
    }
}
