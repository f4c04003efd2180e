//! One job in memory: its facts, its steps, its unique key, and its retention once it is finished.

mod keys;
mod live;
mod retained;
mod transition;

pub(crate) use keys::{Holder, Key, KeyEnd, Keys, key_end, key_in, key_memory, key_of};
pub(crate) use live::{Job, RareFields};
pub(crate) use retained::RetainedJobs;
pub(crate) use transition::TransitionResult;
