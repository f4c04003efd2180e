//! `GET /metrics`: the counts of `/v1/stats` and of requests, for Prometheus. [`MetricsSource`] has
//! the same metrics for other exporters.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use quire::jobs::JobState;
use quire::tools::Histogram;
use quire::{Clock, ClusterStatus, Database, Duty, Operation, Resource, ResourceKind, StorageDurations, SystemClock};
use quire_access::budget::{BudgetUsage, FrontEnd};
use quire_access::{BoundedRequest, ConnectionStatistics, EndedRequests, Traffic};

use crate::app::App;
use crate::cluster::damage_that_holds_back;
use crate::error::Problem;
use crate::exposition::{CONTENT, Exposition, MetricFamily};
use crate::finished::FinishedJobs;
use crate::process::ProcessFigures;
use crate::queues;
use crate::response::aside;
use crate::stats::{self, StatsBounds, StatsFigures};
use quire_api::reply::Stats;

/// Most series of each kind of object, so that a scrape has bounded cost and size.
const BOUNDS: StatsBounds = StatsBounds { objects_max: 1_000, partitions_max: 10_000 };

/// Reads the metrics of a server. It holds the database open.
#[derive(Debug, Clone)]
pub struct MetricsSource(pub(crate) Arc<App>);

impl MetricsSource {
    /// Reads the metrics of `GET /metrics`.
    ///
    /// # Errors
    /// When the database has failed.
    pub async fn read(&self) -> std::io::Result<Vec<MetricFamily>> {
        let read = read(&self.0).await.map_err(|problem| std::io::Error::other(problem.into_message()))?;
        Ok(read.into_families())
    }
}

/// Responds with the metrics, except the series of objects that the client may not describe.
pub(crate) async fn metrics(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    let database = app.database();
    database.check_permission(Resource::DATABASE, Operation::Describe)?;
    let mut metrics = read(&app).await?;
    metrics.retain(|sample| {
        sample.labels.iter().all(|(label, name)| {
            let kind = kind_of(label);
            kind.is_none_or(|kind| database.permits(Resource::new(kind, name), Operation::Describe))
        })
    });
    Ok(([(CONTENT_TYPE, CONTENT)], metrics.into_text()).into_response())
}

/// The kind of the objects that a label names.
fn kind_of(label: &str) -> Option<ResourceKind> {
    match label {
        "topic" => Some(ResourceKind::Topic),
        "group" => Some(ResourceKind::Group),
        "store" => Some(ResourceKind::Store),
        // The queue of the deliveries has the name of the subscription.
        "queue" | "subscription" => Some(ResourceKind::Queue),
        "graph" => Some(ResourceKind::Graph),
        _ => None,
    }
}

async fn read(app: &Arc<App>) -> Result<Exposition, Problem> {
    if !app.owner().serves() {
        // The state belongs to the leader of the cluster, which reports it.
        let mut out = Exposition::default();
        of_process(&mut out, app);
        return Ok(out);
    }
    // Bounded by the number of series, and never refused.
    let request = BoundedRequest::unbounded(app.owner());
    let (figures, _claim) = stats::collect(request, BOUNDS, app.memory.claim_of_done()).await?;
    let database = app.owner().clone();
    let storage = aside(move || StorageFigures::read(&database)).await?;
    let mut out = Exposition::default();
    log(&mut out, &figures.stats);
    storage.write(&mut out, app.owner());
    models(&mut out, &figures, &storage, &app.finished);
    limits(&mut out, &figures);
    of_process(&mut out, app);
    Ok(out)
}

/// The metrics that each node of a cluster has.
fn of_process(out: &mut Exposition, app: &App) {
    if let Some(control) = app.owner().cluster_control() {
        cluster(out, &control.status());
        out.gauge("quire_cluster_held_back", "Whether this node does not lead because its log has damage.")
            .sample(&[], u64::from(damage_that_holds_back(app).is_some()));
    }
    front_ends(out, &app.traffic);
    memory(out, app.budget.usage());
    process(out);
}

fn cluster(out: &mut Exposition, status: &ClusterStatus) {
    let role = [("role", status.role.name())];
    out.gauge("quire_cluster_role", "Always 1; the role of this node is in the label.").sample(&role, 1);
    let term = u64::from(status.office.term.get());
    out.gauge("quire_cluster_term", "Term of the cluster, as this node knows it.").sample(&[], term);
    let positions = out.gauge("quire_cluster_position", "Last record of this node, by its state.");
    let states = [("appended", status.appended), ("durable", status.durable), ("published", status.published)];
    for (state, position) in states {
        positions.sample(&[("state", state)], position.get());
    }
    out.counter("quire_cluster_elections_won_total", "How often this node began to lead.")
        .sample(&[], status.elections_won);
    let connected = out.gauge("quire_cluster_connected", "Whether a member is connected with this node.");
    for member in &status.members {
        connected.sample(&[("node", &member.node.to_string())], u64::from(member.is_connected));
    }
    let lag = out.gauge("quire_cluster_lag_records", "Records that a member lacks, as the leader knows it.");
    for member in &status.members {
        if let Some(acknowledged) = member.acknowledged {
            let lacks = status.appended.get().saturating_sub(acknowledged.get());
            lag.sample(&[("node", &member.node.to_string())], lacks);
        }
    }
}

/// Figures whose reading may wait for the disk.
struct StorageFigures {
    free_bytes: Option<u64>,
    checkpoint_age: Option<Duration>,
    oldest_pending: Vec<(String, Duration)>,
}

impl StorageFigures {
    fn read(database: &Database) -> Result<Self, Problem> {
        Ok(StorageFigures {
            // A figure that can't be read is left out: the others are still of use.
            free_bytes: database.free_bytes().ok(),
            checkpoint_age: database.checkpoint_age().ok(),
            oldest_pending: queues::oldest_pending(database, BOUNDS.objects_max)?,
        })
    }

    fn write(&self, out: &mut Exposition, database: &Database) {
        let durations = database.commit_durations();
        out.histogram("quire_commit_duration_seconds", "Time from before the decision of a commit until it was published; of many commits in a short time, some are timed.")
            .durations(&[], durations.up_to(), durations.count(), durations.total);
        let StorageDurations { sync, checkpoint } = database.storage_durations();
        doubling(
            out.histogram(
                "quire_sync_duration_seconds",
                "Durations of syncs, by every process that had the database open.",
            ),
            &sync,
        );
        doubling(
            out.histogram(
                "quire_checkpoint_duration_seconds",
                "Durations of checkpoint writes, by every process that had the database open.",
            ),
            &checkpoint,
        );
        if let Some(bytes) = self.free_bytes {
            out.gauge("quire_disk_free_bytes", "Free bytes of the file system of the database.").sample(&[], bytes);
        }
        if let Some(age) = self.checkpoint_age {
            out.gauge("quire_checkpoint_age_seconds", "Time since the first commit that the newest checkpoint lacks.")
                .seconds(&[], age);
        }
        out.gauge("quire_clock_ahead_seconds", "How far the time of the database is ahead of the system's clock.")
            .seconds(&[], database.clock_ahead());
    }
}

/// Writes a histogram with doubling buckets, from 16 µs to 69 s.
fn doubling(family: &mut MetricFamily, histogram: &Histogram) {
    const SHOWN: Range<usize> = 14..37;
    let mut count = histogram.buckets[..SHOWN.start].iter().sum::<u64>();
    let up_to = SHOWN.map(|bucket| {
        count += histogram.buckets[bucket];
        // Bucket n counts durations below 2^n nanoseconds.
        (Duration::from_nanos(1 << bucket), count)
    });
    family.durations(&[], up_to, histogram.count(), Duration::from_nanos(histogram.total_ns));
}

fn front_ends(out: &mut Exposition, traffic: &Traffic) {
    let of_http = traffic.http.ended();
    out.gauge("quire_http_requests_active", "HTTP requests in progress.").sample(&[], traffic.http.active());
    let requests = out.counter("quire_http_requests_total", "HTTP requests answered, by route and status.");
    for EndedRequests { name, statuses, .. } in &of_http {
        for (status, count) in statuses {
            requests.sample(&[("route", name), ("status", &status.to_string())], *count);
        }
    }
    let durations = out.histogram("quire_http_request_duration_seconds", "Time until a response began, by route.");
    for EndedRequests { name, durations: counts, .. } in &of_http {
        durations.durations(&[("route", name)], counts.up_to(), counts.count(), counts.total);
    }
    let of_grpc = traffic.grpc.ended();
    out.gauge("quire_grpc_requests_active", "gRPC calls whose response has not begun.")
        .sample(&[], traffic.grpc.active());
    let requests = out.counter("quire_grpc_requests_total", "gRPC calls answered, by method and status code.");
    for EndedRequests { name, statuses, .. } in &of_grpc {
        for (code, count) in statuses {
            requests.sample(&[("method", name), ("code", &code.to_string())], *count);
        }
    }
    let durations = out.histogram("quire_grpc_request_duration_seconds", "Time until a response began, by method.");
    for EndedRequests { name, durations: counts, .. } in &of_grpc {
        durations.durations(&[("method", name)], counts.up_to(), counts.count(), counts.total);
    }
    let of_kafka = traffic.kafka.ended();
    let requests = out.counter("quire_kafka_requests_total", "Kafka requests answered, by API.");
    for EndedRequests { name, durations: counts, .. } in &of_kafka {
        requests.sample(&[("api", name)], counts.count());
    }
    let durations = out.histogram(
        "quire_kafka_request_duration_seconds",
        "Time until a response was written, by API; a fetch includes its wait for records.",
    );
    for EndedRequests { name, durations: counts, .. } in &of_kafka {
        durations.durations(&[("api", name)], counts.up_to(), counts.count(), counts.total);
    }
    connections(out, traffic);
}

fn connections(out: &mut Exposition, traffic: &Traffic) {
    let counts = traffic.front_ends().map(|(name, traffic)| (name, traffic.connections()));
    let each = |family: &mut MetricFamily, count: fn(&ConnectionStatistics) -> u64| {
        for (name, counts) in &counts {
            family.sample(&[("front_end", name)], count(counts));
        }
    };
    each(out.gauge("quire_connections", "Open connections, by front end."), |counts| counts.open);
    each(out.counter("quire_connections_accepted_total", "Accepted connections, by front end."), |counts| {
        counts.accepted
    });
    each(out.counter("quire_received_bytes_total", "Bytes received from clients, by front end."), |counts| {
        counts.received_bytes
    });
    each(out.counter("quire_sent_bytes_total", "Bytes sent to clients, by front end."), |counts| counts.sent_bytes);
    each(
        out.counter("quire_accept_failures_total", "Connections that could not be accepted, by front end."),
        |counts| counts.accept_failures,
    );
    each(
        out.counter("quire_requests_refused_total", "Requests refused before they reached a route, by front end."),
        |counts| counts.requests_refused,
    );
    each(
        out.counter(
            "quire_connections_displaced_total",
            "Idle connections closed for new ones at a limit, by front end.",
        ),
        |counts| counts.displaced,
    );
    each(
        out.counter(
            "quire_tls_handshake_failures_total",
            "TLS handshakes that failed, and clients refused by their certificates, by front end.",
        ),
        |counts| counts.handshake_failures,
    );
    let days = out.gauge(
        "quire_tls_certificate_days_left",
        "Days until the server's certificate expires, rounded down; 0 when it has expired. By front end with TLS.",
    );
    let now = i64::try_from(SystemClock.now().as_millis() / 1000).unwrap_or(i64::MAX);
    for (name, traffic) in traffic.front_ends() {
        if let Some(tls) = traffic.tls() {
            days.sample(&[("front_end", name)], u64::try_from(tls.certificate_days_left(now)).unwrap_or(0));
        }
    }
    let refused = out.counter("quire_connections_refused_total", "Refused connections, by front end and limit.");
    for (name, counts) in &counts {
        refused.sample(&[("front_end", name), ("limit", "all")], counts.refused_limit);
        refused.sample(&[("front_end", name), ("limit", "address")], counts.refused_address);
    }
    let help = "Requests and attempts of clients that are not authenticated, by front end.";
    let refused = out.counter("quire_authentication_refused_total", help);
    for (name, counts) in &counts {
        refused.sample(&[("front_end", name), ("reason", "missing")], counts.authentication_missing);
        refused.sample(&[("front_end", name), ("reason", "failed")], counts.authentication_failed);
    }
    let ended =
        out.counter("quire_connections_expired_total", "Connections and requests ended by a deadline, by front end.");
    for (name, counts) in &counts {
        ended.sample(&[("front_end", name), ("deadline", "first_request")], counts.ended_first_request);
        ended.sample(&[("front_end", name), ("deadline", "request")], counts.ended_request);
        ended.sample(&[("front_end", name), ("deadline", "idle")], counts.ended_idle);
        ended.sample(&[("front_end", name), ("deadline", "response")], counts.ended_response);
    }
}

fn process(out: &mut Exposition) {
    let Some(figures) = ProcessFigures::read() else { return };
    let ProcessFigures { cpu, resident_bytes, open_handles, handles_max, started } = figures;
    out.counter("process_cpu_seconds_total", "Processor time of this process.").seconds(&[], cpu);
    out.gauge("process_resident_memory_bytes", "Memory of this process.").sample(&[], resident_bytes);
    out.gauge("process_open_fds", "Open file handles.").sample(&[], open_handles);
    if let Some(most) = handles_max {
        out.gauge("process_max_fds", "Most open file handles.").sample(&[], most);
    }
    out.gauge("process_start_time_seconds", "Start of this process, in seconds since 1970.").seconds(&[], started);
}

fn memory(out: &mut Exposition, usage: BudgetUsage) {
    out.gauge("quire_memory_budget_bytes", "Size of the memory budget of all clients.").sample(&[], usage.bytes_max);
    out.gauge("quire_memory_used_bytes", "Bytes of the memory budget in use.").sample(&[], usage.bytes_used);
    out.gauge("quire_memory_waiting", "Requests and responses that wait for memory.").sample(&[], usage.waiting as u64);
    let refusals = out.counter("quire_memory_refusals_total", "Requests and responses refused for lack of memory.");
    for (front_end, refused) in FrontEnd::ALL.iter().zip(usage.refused) {
        refusals.sample(&[("front_end", front_end.name())], refused);
    }
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
    let failing = out.gauge("quire_failing", "Consecutive failures of a background duty; 0 when it works.");
    for duty in Duty::ALL.map(|duty| duty.to_string()) {
        let times = stats.failing.iter().find(|failing| failing.duty == duty).map_or(0, |failing| failing.times);
        failing.sample(&[("duty", &duty)], times);
    }
    out.gauge("quire_log_position", "Position of the last published record.").sample(&[], stats.position);
}

/// The limits, and the number of objects that the families of their kind leave out.
fn limits(out: &mut Exposition, figures: &StatsFigures) {
    let stats = &figures.stats;
    let used = out.gauge("quire_limit_used", "How much of a limit on names is used, by the setting of the limit.");
    for limit in &stats.limits {
        used.sample(&[("limit", &limit.limit)], limit.count);
    }
    let most = out.gauge("quire_limit_max", "The limit on names, by its setting.");
    for limit in &stats.limits {
        most.sample(&[("limit", &limit.limit)], limit.most);
    }
    let count = |limit: &str| stats.limits.iter().find(|known| known.limit == limit).map_or(0, |known| known.count);
    let objects = [
        ("store", count("stores_max"), stats.stores.len()),
        ("topic", figures.topic_count, stats.topics.len()),
        ("group", count("groups_max"), stats.groups.len()),
        ("subscription", figures.subscription_count, figures.subscriptions.len()),
        ("queue", count("queues_max"), stats.queues.len()),
        ("graph", count("graphs_max"), stats.graphs.len()),
    ];
    let omitted = out.gauge(
        "quire_metrics_omitted",
        "Objects of a kind that have no series, because only the first ones by name have: 1,000 at most.",
    );
    for (object, all, shown) in objects {
        omitted.sample(&[("object", object)], all.saturating_sub(shown as u64));
    }
}

fn models(out: &mut Exposition, figures: &StatsFigures, storage: &StorageFigures, finished: &FinishedJobs) {
    let stats = &figures.stats;
    let events = out.counter("quire_store_events_total", "Events ever appended to a store.");
    for store in &stats.stores {
        events.sample(&[("store", &store.store)], store.events);
    }
    let messages = out.gauge("quire_topic_messages", "Messages of a topic.");
    for topic in &stats.topics {
        messages.sample(&[("topic", &topic.topic)], topic.messages);
    }
    let lag =
        out.gauge("quire_group_lag", "Unread records of a consumer group, in partitions with a committed offset.");
    for group in &stats.groups {
        lag.sample(&[("group", &group.group)], group.lag);
    }
    let lag = out.gauge(
        "quire_subscription_lag",
        "Events after the position of a named subscription, whether they match or not.",
    );
    for found in &figures.subscriptions {
        lag.sample(&[("store", &found.store), ("subscription", &found.subscription)], found.behind);
    }
    let paused = out.gauge(
        "quire_subscription_paused",
        "1 for a named subscription that delivers nothing, because its creator lacks a right.",
    );
    for found in &figures.subscriptions {
        paused.sample(&[("store", &found.store), ("subscription", &found.subscription)], u64::from(found.is_paused));
    }
    let members = out.gauge("quire_group_members", "Members of a consumer group by lease.");
    for group in &stats.groups {
        members.sample(&[("group", &group.group)], group.members as u64);
    }
    let jobs = out.gauge("quire_queue_jobs", "Unfinished jobs of a queue by state.");
    for queue in &stats.queues {
        for state in JobState::ALL.into_iter().filter(|state| !state.is_finished()) {
            jobs.sample(&[("queue", &queue.queue), ("state", state.name())], queue.count(state));
        }
    }
    let outcomes = out.counter("quire_jobs_finished_total", "Finished jobs of a queue by outcome.");
    for (queue, totals) in stats.queues.iter().zip(finished.count(&stats.queues)) {
        for (outcome, total) in totals {
            outcomes.sample(&[("queue", &queue.queue), ("outcome", outcome)], total);
        }
    }
    let oldest =
        out.gauge("quire_queue_oldest_pending_seconds", "Time that the oldest pending job of a queue has waited.");
    for (queue, age) in &storage.oldest_pending {
        oldest.seconds(&[("queue", queue)], *age);
    }
    let blocks = out.gauge("quire_graph_blocks", "Blocks of a graph.");
    for graph in &stats.graphs {
        blocks.sample(&[("graph", &graph.graph)], graph.blocks as u64);
    }
    let edges = out.gauge("quire_graph_edges", "Edges of a graph.");
    for graph in &stats.graphs {
        edges.sample(&[("graph", &graph.graph)], graph.edges as u64);
    }
    let memory = out.gauge("quire_graph_memory_bytes", "Memory of a graph, on the heap and in mapped files.");
    for (graph, found) in stats.graphs.iter().zip(&figures.graph_memory) {
        let mapped = found.memory_mapped_bytes;
        for (place, bytes) in [("heap", found.memory_bytes - mapped), ("mapped", mapped)] {
            memory.sample(&[("graph", &graph.graph), ("place", place)], bytes as u64);
        }
    }
}
