//! What a producer says of a job: payload, urgency, when, how often, how far apart.
//!
//! Plain data with defaults; limits are checked when the command is decided.

use quire_model::Timestamp;

/// How often a job is tried when its producer does not say.
pub const ATTEMPTS_MAX_DEFAULT: u16 = 5;

/// How urgent a job is: the greater number goes first. The names are a convention over the whole range.
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
}

impl Default for Priority {
    fn default() -> Self {
        Priority::NORMAL
    }
}

/// How long a job waits after a failed attempt: twice as long after each, up to a maximum. No jitter: the same log
/// gives the same times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The wait after the first failed attempt, in microseconds.
    pub base_micros: u64,
    /// The longest wait, in microseconds.
    pub max_micros: u64,
}

impl Backoff {
    /// The wait after attempt number `attempt` (from 1) failed: `base × 2^(attempt − 1)`, at most the maximum.
    pub fn delay_micros(self, attempt: u16) -> u64 {
        let factor = 1u64.checked_shl(u32::from(attempt.saturating_sub(1))).unwrap_or(u64::MAX);
        self.base_micros.saturating_mul(factor).min(self.max_micros)
    }
}

impl Default for Backoff {
    /// From 5 seconds up to 1 hour.
    fn default() -> Self {
        Backoff { base_micros: 5_000_000, max_micros: 3_600_000_000 }
    }
}

/// A job to be enqueued.
#[derive(Debug, Clone, Copy)]
pub struct NewJob<'c> {
    /// What the worker gets: bytes, JSON by convention. Only the log's record limit bounds them.
    pub payload: &'c [u8],
    /// The name of the handler, apart from the queue; may be empty; at most 255 bytes.
    pub kind: &'c str,
    /// How urgent it is.
    pub priority: Priority,
    /// When it may run: `None`, or a time that is past, is at once.
    pub run_at: Option<Timestamp>,
    /// How many attempts it gets, at least 1. When the last fails, the job is dead.
    pub attempts_max: u16,
    /// How long it waits between attempts.
    pub backoff: Backoff,
    /// Words to find it by: at most 32, each of 1 to 255 bytes. One given twice counts once.
    pub tags: &'c [&'c str],
}

impl<'c> NewJob<'c> {
    /// A job of this payload, everything else by default: no kind, normal priority, at once,
    /// [`ATTEMPTS_MAX_DEFAULT`] attempts, no tags.
    pub fn new(payload: &'c [u8]) -> Self {
        NewJob {
            payload,
            kind: "",
            priority: Priority::default(),
            run_at: None,
            attempts_max: ATTEMPTS_MAX_DEFAULT,
            backoff: Backoff::default(),
            tags: &[],
        }
    }
}
