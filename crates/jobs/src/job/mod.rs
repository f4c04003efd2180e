//! One job: what is in memory of it, its steps, its unique key, and how long a finished one is retained.

mod keys;
mod live;
mod retained;
mod transition;

pub(crate) use keys::{Holder, Key, KeyEnd, Keys, key_end, key_in, key_of};
pub(crate) use live::{Extra, Job};
pub(crate) use retained::RetainedJobs;
pub(crate) use transition::Standing;
