//! From appended to durable and published: syncs, the callers that wait for them, the published
//! position, and checkpoints.
//!
//! Reading order:
//!
//! - `gate`: the published position and its waiters
//! - `sync`: one sync for all records appended before it
//! - `rounds` and `gather`: which waiting caller begins the next sync
//! - `bell`: how a finished round wakes its callers
//! - `checkpoint`: states of the models, saved next to the log
//! - `office`: the durable vote of a member of a cluster

pub(crate) mod bell;
pub(crate) mod checkpoint;
pub(crate) mod gate;
pub(crate) mod gather;
pub(crate) mod office;
pub(crate) mod rounds;
pub(crate) mod sync;
