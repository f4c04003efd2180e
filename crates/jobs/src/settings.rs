//! The settings of a queue: whether it gives and takes jobs, and its limits.

use core::time::Duration;

use quire_model::micros_of;

/// The settings of a queue. A new queue has none of them set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueSettings {
    /// Gives no jobs to workers.
    pub paused: bool,
    /// Takes no new jobs.
    pub draining: bool,
    /// The maximum number of unfinished jobs. A full queue accepts no new, moved or retried jobs.
    pub jobs_max: Option<u32>,
    /// The maximum number of active jobs.
    pub active_max: Option<u32>,
    /// The maximum number of active jobs of one group.
    pub group_active_max: Option<u32>,
    /// The rate at which jobs may start.
    pub rate: Option<Rate>,
    /// The rate at which jobs of one group may start.
    pub group_rate: Option<Rate>,
    /// The time that a completed or cancelled job is found, in microseconds. Afterwards, the next
    /// compaction may remove it. `None`: as long as the database keeps history. Dead jobs stay
    /// until a client retries or deletes them.
    pub retention_micros: Option<u64>,
}

impl QueueSettings {
    /// The settings with which a queue begins.
    pub(crate) const NONE: QueueSettings = QueueSettings {
        paused: false,
        draining: false,
        jobs_max: None,
        active_max: None,
        group_active_max: None,
        rate: None,
        group_rate: None,
        retention_micros: None,
    };
}

/// A change of one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QueueChange {
    /// See [`QueueSettings::paused`]. Active jobs continue.
    Paused(bool),
    /// See [`QueueSettings::draining`].
    Draining(bool),
    /// See [`QueueSettings::jobs_max`]; at least 1. Jobs already in the queue stay.
    JobsMax(Option<u32>),
    /// See [`QueueSettings::active_max`]; at least 1.
    ActiveMax(Option<u32>),
    /// See [`QueueSettings::group_active_max`]; at least 1.
    GroupActiveMax(Option<u32>),
    /// See [`QueueSettings::rate`]. A new rate counts from when it was set.
    Rate(Option<Rate>),
    /// See [`QueueSettings::group_rate`]. A new rate counts from when it was set.
    GroupRate(Option<Rate>),
    /// See [`QueueSettings::retention_micros`]: 1 µs to a hundred years. Applies to jobs that end
    /// later.
    Retention(Option<u64>),
}

/// The rate at which jobs may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rate {
    /// `count` in each `per_micros`, evenly, and up to `burst` at once after a rest.
    TokenBucket {
        /// The number of jobs; 1 to 1,000,000.
        count: u32,
        /// In how many microseconds; 1 to a day.
        per_micros: u64,
        /// The most jobs at once; 1 to 1,000,000.
        burst: u32,
    },
    /// Never more than `count` within any `window_micros`.
    SlidingWindow {
        /// The number of jobs; 1 to 10,000, because the time of each start is remembered.
        count: u32,
        /// The length of the window, in microseconds; 1 to a day.
        window_micros: u64,
    },
}

impl Rate {
    /// Returns a rate of `count` starts in each `per`, evenly, and up to `burst` at once after a
    /// rest.
    pub fn token_bucket(count: u32, per: Duration, burst: u32) -> Self {
        Rate::TokenBucket { count, per_micros: micros_of(per), burst }
    }

    /// Returns a rate of at most `count` starts within any `window`.
    pub fn sliding_window(count: u32, window: Duration) -> Self {
        Rate::SlidingWindow { count, window_micros: micros_of(window) }
    }
}

impl QueueChange {
    /// Returns the change that keeps completed and cancelled jobs for this duration. `None` keeps
    /// them as long as the database keeps history.
    pub fn retention(kept: impl Into<Option<Duration>>) -> Self {
        QueueChange::Retention(kept.into().map(micros_of))
    }
}

impl QueueSettings {
    /// These settings with a change.
    #[must_use]
    pub(crate) fn with(mut self, change: QueueChange) -> Self {
        match change {
            QueueChange::Paused(paused) => self.paused = paused,
            QueueChange::Draining(draining) => self.draining = draining,
            QueueChange::JobsMax(most) => self.jobs_max = most,
            QueueChange::ActiveMax(most) => self.active_max = most,
            QueueChange::GroupActiveMax(most) => self.group_active_max = most,
            QueueChange::Rate(rate) => self.rate = rate,
            QueueChange::GroupRate(rate) => self.group_rate = rate,
            QueueChange::Retention(micros) => self.retention_micros = micros,
        }
        self
    }
}
