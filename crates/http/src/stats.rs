//! `GET /v1/stats`: the contents, and counts since the database was opened.

use std::sync::Arc;

use axum::extract::State;
use quire::{Database, DutyFailure, Statistics};
use serde::Serialize;

use crate::app::App;
use crate::error::Problem;
use crate::graph::GraphReply;
use crate::groups::GroupStats;
use crate::params::Params;
use crate::queues::QueueReply;
use crate::response::{JsonResponse, aside};
use crate::{events, graph, groups, queues, topics};

/// The contents, and counts since the database was opened.
#[derive(Debug, Serialize)]
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
    pub(crate) queues: Vec<QueueReply>,
    pub(crate) graphs: Vec<GraphReply>,
}

/// A background duty whose last run failed.
#[derive(Debug, Serialize)]
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
        let of = |DutyFailure { duty, times, since, message, .. }| FailingStats {
            duty: duty.to_string(),
            times,
            since_ms: since.as_millis(),
            message,
        };
        database.failing().into_iter().map(of).collect()
    }
}

/// An event store.
#[derive(Debug, Serialize)]
pub(crate) struct StoreStats {
    pub(crate) store: String,
    /// The number of events ever appended: the position of the last.
    pub(crate) events: u64,
}

/// A topic.
#[derive(Debug, Serialize)]
pub(crate) struct TopicStats {
    pub(crate) topic: String,
    pub(crate) partitions: u32,
    /// The number of messages in its partitions.
    pub(crate) messages: u64,
}

/// Responds with the statistics.
pub(crate) async fn stats(State(app): State<Arc<App>>, params: Params) -> Result<JsonResponse, Problem> {
    params.end()?;
    JsonResponse::of(&app.memory, &collect(&app).await?)
}

/// Reads the statistics.
pub(crate) async fn collect(app: &Arc<App>) -> Result<Stats, Problem> {
    let theirs = Arc::clone(app);
    let (stores, topics, groups) = aside(move || {
        let database = &theirs.database;
        let stores = events::heads(database)?.into_iter().map(|(store, events)| StoreStats { store, events });
        let topics = topics::names(database)?.into_iter().map(|(topic, partitions)| {
            let offsets = topics::offsets(database, &topic)?;
            let messages = offsets.iter().map(|offsets| offsets.next.get() - offsets.start.get()).sum();
            Ok(TopicStats { topic, partitions, messages })
        });
        let groups = groups::statistics(database)?;
        Ok((stores.collect(), topics.collect::<Result<_, Problem>>()?, groups))
    })
    .await?;
    let (queues, graphs) = (queues::all(app).await?, graph::all(app).await?);
    let Statistics { commits, refusals, checkpoints, entries, bytes, syncs, segments, unpacked_bytes, published } =
        app.database.statistics();
    let damaged = app.database.damage().len() as u64;
    Ok(Stats {
        durability: app.database.durability().to_string(),
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
        clock_ahead_ms: u64::try_from(app.database.clock_ahead().as_millis()).unwrap_or(u64::MAX),
        failing: FailingStats::all(&app.database),
        stores,
        topics,
        groups,
        queues,
        graphs,
    })
}
