//! From appended to durable and published: syncs, the callers that wait for them, the published
//! position, and checkpoints.
//!
//! Reading order:
//!
//! - `gate`: the published position and its waiters
//! - `sync`: one sync for all records appended before it
//! - `rounds` and `sync_delay`: which waiting caller begins the next sync
//! - `wake_signal`: how a finished round wakes its callers
//! - `checkpoint`: states of the models, saved next to the log
//! - `office`: the durable vote of a member of a cluster

pub(crate) mod checkpoint;
pub(crate) mod gate;
pub(crate) mod office;
pub(crate) mod rounds;
pub(crate) mod sync;
pub(crate) mod sync_delay;
pub(crate) mod wake_signal;
