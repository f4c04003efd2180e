//! What a user of the log can rely on, tested by trying to take it away: every test that is about keeping something closes
//! the log, or crashes it, and opens it again.
//!
//! The one door is [`shard::Shard`]: a directory with a log in it, of which a [`shard::Snapshot`] can be taken while it is
//! open (what a crash leaves), damaged, and opened as a shard of its own.

mod appends;
mod background;
mod checkpoints;
mod commits;
mod compaction;
mod company;
mod control;
mod damage;
mod forbidden;
mod gradual;
mod lost;
mod moved;
mod office;
mod oracle;
mod packed;
mod power;
mod replaced;
mod rounds;
mod sealed;
mod shard;
mod states;
mod statistics;
mod storage;
mod torn;
mod truncate;
