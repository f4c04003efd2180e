//! The database through its public API. Each test closes and reopens the database that it wrote.

#[path = "../../../log/tests/log/storage.rs"]
mod dying;
mod naive;
mod support;

#[cfg(feature = "tokio")]
mod asynchronous;
mod atomicity;
mod compacted;
mod compaction;
mod compaction_beside;
mod conditions;
mod dry_runs;
mod durability;
mod forgetting;
mod graph_crash;
mod graph_history;
mod handlers;
mod identity;
mod inputs;
mod keys;
mod large_states;
mod model;
mod names;

mod checkpoints;
mod closing;
mod compression;
mod consumers;
mod corpus;
mod damaged;
mod duties;
mod gauges;
mod members;
mod opening;
mod overload;
mod packing;
mod projections;
mod read_only;
mod retention;
mod skewed;
mod steps;
mod stopped_nodes;
mod store_names;
mod subscriptions;
