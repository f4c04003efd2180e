//! One queue: its jobs in order, its groups, its rates, and how many jobs it has in each state.

mod group;
mod indexes;
mod rate;
mod stats;

pub(crate) use group::{PendingKey, QueueGroup, ReadyKey};
pub(crate) use indexes::{JobsByTime, Queue, QueueIndexes, TimerMark, Timers};
pub(crate) use rate::Meter;
pub use stats::QueueStats;
