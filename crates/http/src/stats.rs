//! `GET /v1/stats`: the contents, and counts since the database was opened.

use std::sync::Arc;

use axum::extract::State;
use quire::{Database, DutyFailure, Operation, Resource, Statistics};
use quire_access::BoundedRequest;
use quire_api::reply::{FailingStats, LimitStats, MemoryReply, Stats, StoreStats, TopicStats};

use crate::app::App;
use crate::error::Problem;
use crate::memory::Claim;
use crate::params::Params;
use crate::response::{JsonResponse, aside, bounded};
use crate::{events, graph, groups, queues, topics};

/// The statistics, with figures for the metrics only.
#[derive(Debug)]
pub(crate) struct StatsFigures {
    pub(crate) stats: Stats,
    /// The memory of each graph of the statistics.
    pub(crate) graph_memory: Vec<MemoryReply>,
    pub(crate) subscriptions: Vec<SubscriptionStats>,
    /// The number of topics.
    pub(crate) topic_count: u64,
    /// The number of named subscriptions.
    pub(crate) subscription_count: u64,
}

/// How much of the contents the statistics list: the first of each kind by name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StatsBounds {
    /// Objects of each kind.
    pub(crate) objects_max: usize,
    /// Partitions of the topics together, and committed offsets of the groups together.
    pub(crate) partitions_max: usize,
}

impl StatsBounds {
    /// Everything.
    const NONE: StatsBounds = StatsBounds { objects_max: usize::MAX, partitions_max: usize::MAX };
}

/// The background duties whose last run failed.
pub(crate) fn failing(database: &Database) -> Vec<FailingStats> {
    let of = |DutyFailure { duty, times, since, for_clients: message, .. }| FailingStats {
        duty: duty.to_string(),
        times,
        since_ms: since.as_millis(),
        message,
    };
    database.failing().into_iter().map(of).collect()
}

/// A named subscription.
#[derive(Debug)]
pub(crate) struct SubscriptionStats {
    pub(crate) store: String,
    pub(crate) subscription: String,
    /// Whether its creator lacks a right, so that nothing is delivered.
    pub(crate) is_paused: bool,
    /// The number of events after its position, whether they match or not.
    pub(crate) behind: u64,
}

/// Responds with the statistics.
pub(crate) async fn stats(State(app): State<Arc<App>>, params: Params) -> Result<JsonResponse, Problem> {
    params.end()?;
    let database = app.database();
    database.check_permission(Resource::DATABASE, Operation::Describe)?;
    let request = BoundedRequest::begin(&database);
    let (figures, claim) = collect(request, StatsBounds::NONE, app.memory.claim()).await?;
    aside(move || JsonResponse::within(claim, &figures.stats)).await
}

/// Reads the statistics, and claims the memory of their lists.
pub(crate) async fn collect(
    request: BoundedRequest,
    bounds: StatsBounds,
    mut claim: Claim,
) -> Result<(StatsFigures, Claim), Problem> {
    let StatsBounds { objects_max, partitions_max } = bounds;
    let database = request.database().clone();
    let (stores, topics, groups, queues, mut claim) = bounded(request, move |database| {
        let stores = events::heads(database, objects_max, &mut claim)?;
        let stores = stores.into_iter().map(|(store, events)| StoreStats { store, events });
        let first = topics::first(database, objects_max, partitions_max)?;
        claim.grow(first.iter().map(|(topic, _)| size_of::<TopicStats>() + topic.len()).sum())?;
        let topics = first.into_iter().map(|(topic, partitions)| {
            let offsets = topics::offsets(database, &topic)?;
            let messages = offsets.iter().map(|offsets| offsets.next.get() - offsets.start.get()).sum();
            Ok(TopicStats { topic, partitions, messages })
        });
        let topics = topics.collect::<Result<_, Problem>>()?;
        let groups = groups::statistics(database, objects_max, partitions_max, &mut claim)?;
        let queues = queues::first(database, objects_max, &mut claim)?;
        Ok((stores.collect(), topics, groups, queues, claim))
    })
    .await?;
    let (subscriptions, subscription_count) = events::subscription_statistics(&database, objects_max).await?;
    let (graphs, graph_memory) = graph::first(&database, objects_max, &mut claim).await?.into_iter().unzip();
    let (limits, topic_count) = limits(&database)?;
    let Statistics { commits, refusals, checkpoints, entries, bytes, syncs, segments, unpacked_bytes, published } =
        database.statistics();
    let damaged = database.damage().len() as u64;
    let stats = Stats {
        durability: database.durability().to_string(),
        position: published.get(),
        commits,
        refusals,
        checkpoints,
        entries,
        log_bytes: bytes,
        syncs,
        segments,
        unpacked_bytes,
        damaged,
        clock_ahead_ms: u64::try_from(database.clock_ahead().as_millis()).unwrap_or(u64::MAX),
        failing: failing(&database),
        stores,
        topics,
        groups,
        queues,
        graphs,
        limits,
    };
    Ok((StatsFigures { stats, graph_memory, subscriptions, topic_count, subscription_count }, claim))
}

/// The limits with their counts, and the number of topics.
fn limits(database: &Database) -> Result<(Vec<LimitStats>, u64), Problem> {
    Ok(database.read_published_for(Resource::DATABASE, Operation::Describe, |view| {
        let limits =
            view.limited().map(|(limit, count, most)| LimitStats { limit: limit.setting().into(), count, most });
        (limits.collect(), view.streams.topic_count())
    })?)
}
