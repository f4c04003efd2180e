//! `GET /metrics`: the counts of `/v1/stats` and of requests, for Prometheus.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::error::Problem;
use crate::exposition::{CONTENT, Exposition};
use crate::stats::{self, Stats};

/// Responds with the metrics.
pub(crate) async fn metrics(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    let stats = stats::collect(&app).await?;
    let mut out = Exposition::default();
    log(&mut out, &stats);
    models(&mut out, &stats);
    out.gauge("quire_http_requests_active", "HTTP requests in progress.").sample(&[], app.requests.active());
    let mut requests = out.counter("quire_http_requests_total", "HTTP requests answered, by route and status.");
    for ((route, status), count) in app.requests.answered() {
        requests.sample(&[("route", &route), ("status", &status.to_string())], count);
    }
    Ok(([(CONTENT_TYPE, CONTENT)], out.into_text()).into_response())
}

fn log(out: &mut Exposition, stats: &Stats) {
    let version = [("version", env!("CARGO_PKG_VERSION")), ("durability", &*stats.durability)];
    out.gauge("quire_info", "Always 1; the version is in the labels.").sample(&version, 1);
    out.counter("quire_commits_total", "Commits that got a position, since the database was opened.")
        .sample(&[], stats.commits);
    out.counter("quire_refusals_total", "Commits that were refused.").sample(&[], stats.refusals);
    out.counter("quire_checkpoints_total", "Checkpoints saved.").sample(&[], stats.checkpoints);
    out.counter("quire_log_entries_total", "Entries appended to the log.").sample(&[], stats.entries);
    out.counter("quire_log_bytes_total", "Bytes appended to the log.").sample(&[], stats.log_bytes);
    out.counter("quire_syncs_total", "Completed syncs.").sample(&[], stats.syncs);
    out.gauge("quire_log_segments", "Segments of the log.").sample(&[], stats.segments);
    out.gauge("quire_log_unpacked_bytes", "Bytes of memory of unpacked data of packed segments.")
        .sample(&[], stats.unpacked_bytes);
    out.gauge("quire_log_damaged", "Damaged places of the log found since the database was opened.")
        .sample(&[], stats.damaged);
    let mut failing = out.gauge("quire_failing", "Consecutive failures of a background duty.");
    for duty in &stats.failing {
        failing.sample(&[("duty", &duty.duty)], duty.times);
    }
    out.gauge("quire_log_position", "Position of the last published record.").sample(&[], stats.position);
}

fn models(out: &mut Exposition, stats: &Stats) {
    let mut events = out.counter("quire_store_events_total", "Events ever appended to a store.");
    for store in &stats.stores {
        events.sample(&[("store", &store.store)], store.events);
    }
    let mut messages = out.gauge("quire_topic_messages", "Messages of a topic.");
    for topic in &stats.topics {
        messages.sample(&[("topic", &topic.topic)], topic.messages);
    }
    let mut lag =
        out.gauge("quire_group_lag", "Unread records of a consumer group, in partitions with a committed offset.");
    for group in &stats.groups {
        lag.sample(&[("group", &group.group)], group.lag);
    }
    let mut members = out.gauge("quire_group_members", "Members of a consumer group by lease.");
    for group in &stats.groups {
        members.sample(&[("group", &group.group)], group.members as u64);
    }
    let mut jobs = out.gauge("quire_queue_jobs", "Jobs of a queue by state; finished states are totals.");
    for queue in &stats.queues {
        for (state, count) in queue.states() {
            jobs.sample(&[("queue", &queue.queue), ("state", state)], count);
        }
    }
    let mut blocks = out.gauge("quire_graph_blocks", "Blocks of a graph.");
    for graph in &stats.graphs {
        blocks.sample(&[("graph", &graph.graph)], graph.blocks as u64);
    }
    let mut edges = out.gauge("quire_graph_edges", "Edges of a graph.");
    for graph in &stats.graphs {
        edges.sample(&[("graph", &graph.graph)], graph.edges as u64);
    }
    let mut memory =
        out.gauge("quire_graph_memory_bytes", "ResponseMemory of a graph, on the heap and in mapped files.");
    for graph in &stats.graphs {
        let mapped = graph.memory.memory_mapped_bytes;
        for (place, bytes) in [("heap", graph.memory.memory_bytes - mapped), ("mapped", mapped)] {
            memory.sample(&[("graph", &graph.graph), ("place", place)], bytes as u64);
        }
    }
}
