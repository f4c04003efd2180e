//! A job to enqueue.

use std::borrow::Cow;
use std::time::Duration;

use quire_model::{CowBytes, micros_of};

use super::words::TextList;
use crate::jobs::{Backoff, Clash, Priority, Unique, UniqueHold, UniqueScope};
use crate::time::DueTime;
use crate::{Timestamp, jobs};

/// A job to enqueue. Its text and bytes are borrowed or owned.
///
/// ```
/// use std::time::Duration;
///
/// use quire::NewJob;
/// use quire::jobs::Priority;
///
/// let order = 17;
/// let job = NewJob::new(format!("order {order} was placed"))
///     .kind("mail")
///     .priority(Priority::HIGH)
///     .unique(format!("mail:{order}"))
///     .timeout(Duration::from_secs(30));
/// ```
#[derive(Debug, Clone)]
pub struct NewJob<'c> {
    payload: Cow<'c, [u8]>,
    kind: Cow<'c, str>,
    group: Cow<'c, str>,
    tags: TextList<'c>,
    unique: Option<UniqueKey<'c>>,
    backoff: Backoff<Cow<'c, [u64]>>,
    priority: Priority,
    run_at: Option<DueTime>,
    expires_at: Option<DueTime>,
    timeout_micros: Option<u64>,
    attempts_max: u16,
    jitter_percent: u8,
    retention_micros: Option<u64>,
}

/// A key that at most one job has at a time.
///
/// ```
/// use std::time::Duration;
///
/// use quire::{NewJob, UniqueKey};
/// use quire::jobs::{Clash, UniqueHold};
///
/// let daily = UniqueKey::new("report:ann").hold(UniqueHold::UntilStarted).clash(Clash::Replace);
/// let job = NewJob::new("{}").unique(daily);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UniqueKey<'c> {
    key: Cow<'c, [u8]>,
    scope: UniqueScope,
    hold: UniqueHold,
    clash: Clash,
}

impl<'c> NewJob<'c> {
    /// Returns a job with this payload. It has no kind, normal priority, 5 attempts and no tags,
    /// and may run at once.
    pub fn new(payload: impl Into<CowBytes<'c>>) -> Self {
        NewJob::from(jobs::JobSpec::new(&[])).payload(payload)
    }

    /// Sets the payload that the worker gets: any bytes, JSON by convention.
    #[must_use]
    pub fn payload(mut self, payload: impl Into<CowBytes<'c>>) -> Self {
        self.payload = payload.into().into_cow();
        self
    }

    /// Sets the name of the handler: at most 255 bytes. Default: empty.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<Cow<'c, str>>) -> Self {
        self.kind = kind.into();
        self
    }

    /// Sets the group, such as a tenant: at most 255 bytes. The groups of a queue take turns.
    /// Default: empty.
    #[must_use]
    pub fn group(mut self, group: impl Into<Cow<'c, str>>) -> Self {
        self.group = group.into();
        self
    }

    /// Adds a tag to search the job by: at most 32 tags of 1 to 255 bytes.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<Cow<'c, str>>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// Sets the key that at most one job has at a time: 1 to 255 bytes. Text and bytes are a key
    /// within the queue that is held until the job is finished. Default: none.
    #[must_use]
    pub fn unique(mut self, key: impl Into<UniqueKey<'c>>) -> Self {
        self.unique = Some(key.into());
        self
    }

    /// Sets the wait between attempts. Default: exponential from 5 seconds to 1 hour.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use quire::NewJob;
    /// use quire::jobs::Backoff;
    ///
    /// let (first, longest) = (Duration::from_secs(1), Duration::from_secs(60));
    /// let job = NewJob::new("order 17").backoff(Backoff::exponential(first, longest));
    /// ```
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff<Cow<'c, [u64]>>) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets by how many percent a wait may be shorter than its backoff: 0 to 100. Default: 0.
    #[must_use]
    pub fn jitter_percent(mut self, percent: u8) -> Self {
        self.jitter_percent = percent;
        self
    }

    /// Sets the priority; the greater number goes first. Default: normal, 128.
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Sets the earliest time of the first attempt: a point in time, or a duration from the commit.
    /// Default: at once.
    #[must_use]
    pub fn run_at(mut self, time: impl Into<DueTime>) -> Self {
        self.run_at = Some(time.into());
        self
    }

    /// Sets the latest time to begin an attempt: a point in time, or a duration from the commit. A
    /// waiting job is dead from then on. Default: never.
    #[must_use]
    pub fn expires_at(mut self, time: impl Into<DueTime>) -> Self {
        self.expires_at = Some(time.into());
        self
    }

    /// Sets the longest duration of an attempt, whatever its heartbeats. Default: unbounded.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout_micros = Some(micros_of(timeout));
        self
    }

    /// Sets the number of attempts, at least 1. After the last failed attempt, the job is dead.
    /// Default: 5.
    #[must_use]
    pub fn attempts_max(mut self, attempts: u16) -> Self {
        self.attempts_max = attempts;
        self
    }

    /// Sets how long the job can be found after it was completed or cancelled. Default: the queue's
    /// setting.
    #[must_use]
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention_micros = Some(micros_of(retention));
        self
    }

    pub(crate) fn tags(&self) -> &TextList<'c> {
        &self.tags
    }

    /// Returns the job as the model takes it, for a commit at `now`. `tags` are those of
    /// [`NewJob::tags`], as one slice.
    pub(crate) fn view<'p>(&'p self, now: Timestamp, tags: &'p [&'p str]) -> jobs::JobSpec<'p> {
        jobs::JobSpec {
            payload: &self.payload,
            kind: &self.kind,
            priority: self.priority,
            run_at: self.run_at.map(|time| time.at(now)),
            expires_at: self.expires_at.map(|time| time.at(now)),
            timeout_micros: self.timeout_micros,
            attempts_max: self.attempts_max,
            backoff: match &self.backoff {
                Backoff::None => Backoff::None,
                Backoff::Fixed { micros } => Backoff::Fixed { micros: *micros },
                Backoff::Linear { base_micros, max_micros } => {
                    Backoff::Linear { base_micros: *base_micros, max_micros: *max_micros }
                }
                Backoff::Exponential { base_micros, max_micros } => {
                    Backoff::Exponential { base_micros: *base_micros, max_micros: *max_micros }
                }
                Backoff::List(waits) => Backoff::List(waits),
            },
            jitter_percent: self.jitter_percent,
            group: &self.group,
            unique: self.unique.as_ref().map(|unique| Unique {
                key: &unique.key,
                scope: unique.scope,
                hold: unique.hold,
                clash: unique.clash,
            }),
            retention_micros: self.retention_micros,
            tags,
        }
    }
}

impl<'c> UniqueKey<'c> {
    /// Returns a key within the queue that is held until the job is finished. A second job with the
    /// key is not enqueued; its producer gets the id of the first.
    pub fn new(key: impl Into<CowBytes<'c>>) -> Self {
        UniqueKey { key: key.into().into_cow(), ..UniqueKey::from(Unique::new(&[])) }
    }

    /// Sets among which jobs the key is unique. Default: those of the queue.
    #[must_use]
    pub fn scope(mut self, scope: UniqueScope) -> Self {
        self.scope = scope;
        self
    }

    /// Sets for how long the job has the key. Default: until it is finished.
    #[must_use]
    pub fn hold(mut self, hold: UniqueHold) -> Self {
        self.hold = hold;
        self
    }

    /// Sets what happens to a second job with the key. Default: it is not enqueued.
    #[must_use]
    pub fn clash(mut self, clash: Clash) -> Self {
        self.clash = clash;
        self
    }
}

impl<'c> From<Unique<'c>> for UniqueKey<'c> {
    fn from(unique: Unique<'c>) -> Self {
        let Unique { key, scope, hold, clash } = unique;
        UniqueKey { key: Cow::Borrowed(key), scope, hold, clash }
    }
}

impl<'c> From<&'c str> for UniqueKey<'c> {
    fn from(key: &'c str) -> Self {
        UniqueKey::new(key)
    }
}

impl<'c> From<&'c [u8]> for UniqueKey<'c> {
    fn from(key: &'c [u8]) -> Self {
        UniqueKey::new(key)
    }
}

impl From<String> for UniqueKey<'_> {
    fn from(key: String) -> Self {
        UniqueKey::new(key)
    }
}

impl From<Vec<u8>> for UniqueKey<'_> {
    fn from(key: Vec<u8>) -> Self {
        UniqueKey::new(key)
    }
}

impl<'c> From<jobs::JobSpec<'c>> for NewJob<'c> {
    fn from(job: jobs::JobSpec<'c>) -> Self {
        NewJob {
            payload: Cow::Borrowed(job.payload),
            kind: Cow::Borrowed(job.kind),
            group: Cow::Borrowed(job.group),
            tags: TextList::Slice(job.tags),
            unique: job.unique.map(UniqueKey::from),
            backoff: match job.backoff {
                Backoff::None => Backoff::None,
                Backoff::Fixed { micros } => Backoff::Fixed { micros },
                Backoff::Linear { base_micros, max_micros } => Backoff::Linear { base_micros, max_micros },
                Backoff::Exponential { base_micros, max_micros } => Backoff::Exponential { base_micros, max_micros },
                Backoff::List(waits) => Backoff::List(Cow::Borrowed(waits)),
            },
            priority: job.priority,
            run_at: job.run_at.map(DueTime::At),
            expires_at: job.expires_at.map(DueTime::At),
            timeout_micros: job.timeout_micros,
            attempts_max: job.attempts_max,
            jitter_percent: job.jitter_percent,
            retention_micros: job.retention_micros,
        }
    }
}
