//! A shard: one totally ordered log, and the state of every model that follows from it.
//!
//! # The path of a write
//! ```text
//! Commands ─▶ Shard::commit    takes the state's lock, then the log's turn;
//!                │             applies records that other processes appended
//!                ▼ decide      the idempotency key: a known one has its first answer
//!                │             every model, against the state after the last record
//!                │             ─▶ CommitRefusal: nothing was written
//!                ▼ append      the effects, as one record of the log
//!                ▼ apply       each entry, in the state of its model
//!                │
//!                └─▶ DecidedCommit   the position that the reply rests on: the reply may leave
//!                                    the database once the log has published that position
//! ```
//! Everything else that changes a shard is a commit of its own, made in the background: jobs whose
//! time has come ([`Duty::Tick`]), events delivered to subscriptions ([`Duty::Deliver`]), records
//! beyond their retention ([`Duty::Retain`]). A checkpoint shortens the next opening, a compaction
//! gives back disk space; neither changes what a read answers.
//!
//! # What is not here
//! Names of shards, handles, builders of commits, wire formats.

use quire_events as events;
use quire_graph as graph;
use quire_jobs as jobs;
use quire_streams as streams;
use quire_system as system;

mod error;
mod refusal;
mod settings;

mod cluster;
mod leader;
mod office;
mod opening;
mod replication;
mod shard;

mod audit;
mod claims;
mod commands;
mod creators;
mod decide;
mod denial;
mod drafted;
mod idempotency;
mod logged_state;
mod models;
mod permitted;
mod topic_names;
mod touched;
mod view;
mod yielding;

mod checkpoint;

mod duties;
mod threads;

mod compaction;
mod delivery;
mod gauges;
mod retention;
mod virtual_log;

mod compression;
mod compressor;
mod snappy;

pub mod graph_memory;
mod graph_slabs;

#[cfg(test)]
mod testing;

pub use audit::{
    ACCESS_CHANGED, ACCESS_DENIED, AUDIT_GAP, AUDIT_STORE, AuditAuthor, AuditEvent, LOGGED_IN, LOGIN_REFUSED, audit_gap,
};
pub use checkpoint::CheckpointSettings;
pub use claims::NameLimits;
pub use cluster::{ClusterChange, ClusterControl, ClusterRole, ClusterStatus, MemberProgress};
pub use commands::{Commands, DraftedEntry, Replies};
pub use compaction::KEYS_MAX;
pub use compression::{OPENED_BYTES_MAX, open_batch, open_batch_up_to, opened, opened_within};
pub use compressor::{BYTES_MIN as COMPRESS_BYTES_MIN, Compressor};
pub use creators::CreatorProblem;
pub use decide::{CommitLimits, DecidedCommit};
pub use delivery::EventRef;
pub use duties::{Duty, DutyFailure};
pub use error::{Error, ErrorKind, Result};
pub use idempotency::{
    Fingerprint, IDEMPOTENCY_KEY_BYTES_MAX, IdempotencyKey, IdempotencyMemory, IdempotencyRefusal, IdempotencySettings,
};
pub use leader::{ClusterLeader, NodeOffice};
pub use models::{Models, StateInputs, UnknownModel, seed_of};
pub use permitted::{Guard, Permissions, PermittedCommands};
pub use refusal::{CommitRefusal, NotPermitted, Reason};
pub use settings::{RetentionSettings, ShardSettings};
pub use shard::Shard;
pub use threads::Threads;
pub use topic_names::{HiddenObject, TopicOwner, topic_name};
pub use touched::TouchedResource;
pub use view::ReadView;
pub use virtual_log::{OUTSIDE_QUEUE, VirtualLog, unread};
