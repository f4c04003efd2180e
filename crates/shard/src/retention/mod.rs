//! Retention: topics, event stores and graphs trim what their settings no longer keep.
//!
//! The positions to trim at are found in the published log while commits continue. Only the
//! trimming itself is a commit.

mod log_bound;

use quire_log::Clock;
use quire_model::Timestamp;

use crate::commands::Commands;
use crate::decide::WriterState;
use crate::error::Result;
use crate::logged_state::LoggedState;
use crate::{events, graph};
pub(crate) use log_bound::LogBound;

/// The interval between two searches for records beyond their retention. Kafka's is five minutes.
const INTERVAL_MICROS: u64 = 60 * 1_000_000;

/// Schedules the next search after an interval. Called before a search, so that a failed one is
/// repeated in time, and a request for an immediate search that arrives meanwhile is kept.
pub(crate) fn schedule(shard: &LoggedState) {
    shard.schedule.retain_at(shard.log.clock().now().plus_micros(INTERVAL_MICROS));
}

/// Trims everything beyond its retention. Returns whether any topic, event store or graph has a
/// limit.
pub(crate) fn run(shard: &LoggedState) -> Result<bool> {
    // The leader trims for all nodes.
    if !shard.office.decides() {
        return Ok(false);
    }
    let now = shard.log.clock().now();
    let kept_from = shard.log_bound.kept_from();
    let keep_from = shard.log_bound.enforce(|| shard.log.segment_sizes())?;
    let (topics, stores, graphs) = {
        let state = shard.read_latest()?;
        let graphs = state.models.graphs.retained(now);
        let graphs: Vec<_> = graphs.map(|graph| (graph.name.to_owned(), graph.nameless())).collect();
        (state.models.streams.retained(now, keep_from), limited_stores(&state, now), graphs)
    };
    // One reader for each partition, store and graph, so that none keeps many packed segments
    // unpacked. One commit for each, because a topic that was deleted meanwhile refuses its own.
    for partition in &topics {
        if let Some(command) = partition.plan(&shard.log.reader())? {
            shard.commit_in_background(now, &Commands { streams: &[command], ..Commands::default() })?;
        }
    }
    for (name, store) in &stores {
        if let Some(up_to) = store.plan(&shard.log.reader())? {
            let command = events::Command::Trim { store: name, up_to };
            shard.commit_in_background(now, &Commands { events: &[command], ..Commands::default() })?;
        }
    }
    for (name, retained) in &graphs {
        if let Some(from) = retained.plan(&shard.log.reader())? {
            let command = graph::Command::TrimHistory(graph::TrimHistory { graph: name, from });
            shard.commit_in_background(now, &Commands { graph: &[command], ..Commands::default() })?;
        }
    }
    if shard.log_bound.kept_from() > kept_from {
        // Records were trimmed for their disk space, which only a compaction frees.
        shard.schedule.compact_at(now);
    }
    Ok(!topics.is_empty() || !stores.is_empty() || !graphs.is_empty())
}

/// The event stores that keep their events for a limited time.
fn limited_stores(state: &WriterState, now: Timestamp) -> Vec<(String, events::RetainedStore)> {
    let events = &state.models.events;
    let name = |store| events.store_name(store).expect("a store has a name").to_owned();
    events.retained(now).map(|retained| (name(retained.store), retained)).collect()
}
