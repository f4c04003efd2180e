//! One queue: its jobs in order, its groups, its rates, and how many jobs it has in each state.

mod detached;
mod group;
mod indexes;
mod rate;
mod stats;

pub(crate) use group::{PendingKey, QueueGroup, ReadyKey, group_memory};
pub(crate) use indexes::{ChangeMark, JobsByTime, Queue, QueueIndexes, Timers};
pub(crate) use rate::Meter;
pub use stats::QueueStats;
