//! What holds for a queue as a whole: whether it gives and takes jobs, and its limits.

/// The settings of a queue. A queue begins with none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueSettings {
    /// Gives no jobs to workers.
    pub paused: bool,
    /// Takes no new jobs.
    pub draining: bool,
    /// At most so many jobs are not finished: then it takes no more, neither new ones nor moved or retried ones.
    pub jobs_max: Option<u32>,
    /// At most so many jobs are active at a time.
    pub active_max: Option<u32>,
    /// At most so many jobs of one group are active at a time.
    pub group_active_max: Option<u32>,
    /// How often jobs may start.
    pub rate: Option<Rate>,
    /// How often jobs of one group may start.
    pub group_rate: Option<Rate>,
    /// For how many microseconds a job is found once it is completed or cancelled: from then on it may go with the next compaction. `None`:
    /// as long as the database keeps what only tells how things came to be. Dead jobs stay until somebody retries or deletes them.
    pub retention_micros: Option<u64>,
}

/// A change of one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueChange {
    /// See [`QueueSettings::paused`]. What is being worked on goes on.
    Paused(bool),
    /// See [`QueueSettings::draining`].
    Draining(bool),
    /// See [`QueueSettings::jobs_max`]; at least 1. What is there already stays.
    JobsMax(Option<u32>),
    /// See [`QueueSettings::active_max`]; at least 1.
    ActiveMax(Option<u32>),
    /// See [`QueueSettings::group_active_max`]; at least 1.
    GroupActiveMax(Option<u32>),
    /// See [`QueueSettings::rate`]. A new rate counts from when it was set.
    Rate(Option<Rate>),
    /// See [`QueueSettings::group_rate`]. A new rate counts from when it was set.
    GroupRate(Option<Rate>),
    /// See [`QueueSettings::retention_micros`]: 1 µs to a hundred years. Of jobs that end from then on.
    Retention(Option<u64>),
}

/// How often jobs may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// `count` in each `per_micros`, evenly, and up to `burst` at once after a rest.
    TokenBucket {
        /// How many; 1 to 1,000,000.
        count: u32,
        /// In how many microseconds; 1 to a day.
        per_micros: u64,
        /// How many at once; 1 to 1,000,000.
        burst: u32,
    },
    /// Never more than `count` within any `window_micros`.
    SlidingWindow {
        /// How many; 1 to 10,000, for the time of each start is remembered.
        count: u32,
        /// How long the window is, in microseconds; 1 to a day.
        window_micros: u64,
    },
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
