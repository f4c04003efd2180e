//! `GET /v1/stats`: the contents, and counts since the database was opened.

use std::sync::Arc;

use axum::extract::State;
use quire::{Database, DutyFailure, Operation, Resource, Statistics};
use quire_access::BoundedRequest;
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::error::Problem;
use crate::graph::GraphReply;
use crate::groups::GroupStats;
use crate::params::Params;
use crate::response::{JsonResponse, bounded};
use crate::{events, graph, groups, queues, topics};
use quire_api::reply::QueueReply;

/// The contents, and counts since the database was opened.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Stats {
    /// `sync` or `os`.
    pub(crate) durability: String,
    /// The position of the last published record.
    pub(crate) position: u64,
    pub(crate) commits: u64,
    pub(crate) refusals: u64,
    pub(crate) checkpoints: u64,
    pub(crate) entries: u64,
    pub(crate) log_bytes: u64,
    pub(crate) syncs: u64,
    pub(crate) segments: u64,
    /// Bytes of memory of unpacked data of packed segments.
    pub(crate) unpacked_bytes: u64,
    /// The number of damaged places of the log found since the database was opened.
    pub(crate) damaged: u64,
    /// How far the database's time is ahead of the system's clock, in milliseconds.
    pub(crate) clock_ahead_ms: u64,
    /// Background duties whose last run failed.
    pub(crate) failing: Vec<FailingStats>,
    pub(crate) stores: Vec<StoreStats>,
    pub(crate) topics: Vec<TopicStats>,
    pub(crate) groups: Vec<GroupStats>,
    /// Only for metrics: a store's route lists its subscriptions.
    #[serde(skip)]
    pub(crate) subscriptions: Vec<SubscriptionStats>,
    pub(crate) queues: Vec<QueueReply>,
    pub(crate) graphs: Vec<GraphReply>,
    /// What all models together have a limited number of.
    pub(crate) limits: Vec<LimitStats>,
    /// The number of topics.
    #[serde(skip)]
    pub(crate) topic_count: u64,
    /// The number of named subscriptions.
    #[serde(skip)]
    pub(crate) subscription_count: u64,
}

/// A limit on names, or on other things that all models together have a limited number of.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LimitStats {
    /// The setting.
    pub(crate) limit: &'static str,
    pub(crate) count: u64,
    pub(crate) most: u64,
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

/// A background duty whose last run failed.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FailingStats {
    pub(crate) duty: String,
    /// The number of consecutive failures.
    pub(crate) times: u64,
    /// The time of the first of them, in milliseconds since 1970.
    pub(crate) since_ms: u64,
    pub(crate) message: String,
}

impl FailingStats {
    pub(crate) fn all(database: &Database) -> Vec<Self> {
        let of = |DutyFailure { duty, times, since, for_clients: message, .. }| FailingStats {
            duty: duty.to_string(),
            times,
            since_ms: since.as_millis(),
            message,
        };
        database.failing().into_iter().map(of).collect()
    }
}

/// An event store.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StoreStats {
    pub(crate) store: String,
    /// The number of events ever appended: the position of the last.
    pub(crate) events: u64,
}

/// A named subscription.
#[derive(Debug)]
pub(crate) struct SubscriptionStats {
    pub(crate) store: String,
    pub(crate) subscription: String,
    /// The number of events after its position, whether they match or not.
    pub(crate) behind: u64,
}

/// A topic.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TopicStats {
    pub(crate) topic: String,
    pub(crate) partitions: u32,
    /// The number of messages in its partitions.
    pub(crate) messages: u64,
}

/// Responds with the statistics.
pub(crate) async fn stats(State(app): State<Arc<App>>, params: Params) -> Result<JsonResponse, Problem> {
    params.end()?;
    let database = app.database();
    database.check_permission(Resource::DATABASE, Operation::Describe)?;
    let request = BoundedRequest::begin(&database);
    JsonResponse::of(&app.memory, &collect(request, StatsBounds::NONE).await?)
}

/// Reads the statistics.
pub(crate) async fn collect(request: BoundedRequest, bounds: StatsBounds) -> Result<Stats, Problem> {
    let StatsBounds { objects_max, partitions_max } = bounds;
    let database = request.database().clone();
    let (stores, topics, groups, queues) = bounded(request, move |database| {
        let stores =
            events::heads(database, objects_max)?.into_iter().map(|(store, events)| StoreStats { store, events });
        let mut all = 0;
        let topics = topics::names(database)?.into_iter().take(objects_max).take_while(|(_, partitions)| {
            all += *partitions as usize;
            all <= partitions_max
        });
        let topics = topics.map(|(topic, partitions)| {
            let offsets = topics::offsets(database, &topic)?;
            let messages = offsets.iter().map(|offsets| offsets.next.get() - offsets.start.get()).sum();
            Ok(TopicStats { topic, partitions, messages })
        });
        let groups = groups::statistics(database, objects_max, partitions_max)?;
        let queues = queues::first(database, objects_max)?;
        Ok((stores.collect(), topics.collect::<Result<_, Problem>>()?, groups, queues))
    })
    .await?;
    let (subscriptions, subscription_count) = events::subscription_statistics(&database, objects_max).await?;
    let graphs = graph::first(&database, objects_max).await?;
    let (limits, topic_count) = limits(&database)?;
    let Statistics { commits, refusals, checkpoints, entries, bytes, syncs, segments, unpacked_bytes, published } =
        database.statistics();
    let damaged = database.damage().len() as u64;
    Ok(Stats {
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
        failing: FailingStats::all(&database),
        stores,
        topics,
        groups,
        subscriptions,
        queues,
        graphs,
        limits,
        topic_count,
        subscription_count,
    })
}

/// The limits with their counts, and the number of topics.
fn limits(database: &Database) -> Result<(Vec<LimitStats>, u64), Problem> {
    Ok(database.read_published_for(Resource::DATABASE, Operation::Describe, |view| {
        let limits = view.limited().map(|(limit, count, most)| LimitStats { limit: limit.setting(), count, most });
        (limits.collect(), view.streams.topic_count())
    })?)
}
