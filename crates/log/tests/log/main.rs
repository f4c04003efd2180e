//! The guarantees of the log. Each test of durability closes the log, or crashes it, and reopens
//! it.
//!
//! All tests use [`shard::Shard`]: a directory with a log. A [`shard::Snapshot`] of an open shard
//! shows the state after a crash; it can be damaged and opened as another shard.

mod appends;
mod background;
mod checkpoints;
mod commits;
mod compaction;
mod control;
mod copied;
mod damage;
mod forbidden;
mod gradual;
mod lost;
mod moved;
mod office;
mod oracle;
mod packed;
mod power;
mod processes;
mod replaced;
mod rounds;
mod scans;
mod sealed;
mod shard;
mod states;
mod statistics;
mod storage;
mod torn;
mod truncate;
