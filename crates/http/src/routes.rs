//! The table of routes. `docs/http.md` has an example of each.

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{delete, get, post};
use axum::{Extension, Router};

use crate::app::App;
use crate::body::BodyLimit;
use crate::error::{self, Problem};
use crate::{
    access, backup, bulk, cluster, commit, commits, compact, dashboard, events, forwarding, graph, groups, health,
    history, indexes, jobs, life, linearizable, metrics, openapi, queues, records, refusals, requests, sql, stats,
    topics,
};

/// All routes, over these components. Names in paths are percent-encoded, by the client or by
/// [`slashes`](crate::slashes): `/v1/events/air%2Fflights`.
pub(crate) fn router(app: Arc<App>) -> Router {
    // A commit in JSON is larger than in the log; base64 adds a third.
    let body_bytes_max = usize::try_from(app.owner().commit_bytes_max()).unwrap_or(usize::MAX).saturating_mul(2);
    Router::new()
        .route("/v1/commit", post(commit::commit))
        .route("/v1/commits", get(commits::list))
        .route("/v1/commits/{position}", get(commits::commit))
        .route("/v1/events", get(events::stores))
        .route("/v1/events/{store}", get(events::list))
        .route("/v1/events/{store}/append", post(events::append))
        .route("/v1/events/{store}/read", post(events::read))
        .route("/v1/events/{store}/project", post(events::project))
        .route("/v1/events/{store}/subscribe", get(events::subscribe))
        .route("/v1/events/{store}/head", get(events::head))
        .route("/v1/events/{store}/stats", get(events::stats))
        .route("/v1/events/{store}/sources", get(events::sources))
        .route("/v1/events/{store}/subscriptions", get(events::subscriptions))
        .route("/v1/events/{store}/subscriptions/{name}", get(events::subscription).post(events::put_subscription))
        .route("/v1/events/{store}/subscriptions/{name}", delete(events::remove_subscription))
        .route("/v1/events/{store}/subscriptions/{name}/fetch", post(events::fetch_subscription))
        .route("/v1/events/{store}/projections", get(events::projections))
        .route("/v1/events/{store}/projections/{name}", get(events::projection).post(events::save_projection))
        .route("/v1/events/{store}/projections/{name}", delete(events::remove_projection))
        .route("/v1/topics", get(topics::topics).post(topics::create))
        .route("/v1/topics/{topic}", get(topics::topic))
        .route("/v1/topics/{topic}/records", post(topics::produce))
        .route("/v1/topics/{topic}/partitions/{partition}/records", get(records::records))
        .route("/v1/topics/{topic}/groups/{group}", get(topics::group))
        .route("/v1/groups", get(groups::groups))
        .route("/v1/groups/{group}", get(groups::group))
        .route("/v1/groups/{group}/stores/{store}", post(groups::position))
        .route("/v1/groups/{group}/queues/{queue}", post(groups::event))
        .route("/v1/queues", get(queues::queues))
        .route("/v1/queues/{queue}", get(queues::queue).delete(queues::destroy))
        .route("/v1/queues/{queue}/settings", post(queues::set))
        .route("/v1/queues/{queue}/clear", post(queues::clear))
        .route("/v1/queues/{queue}/jobs", get(queues::jobs).post(queues::enqueue))
        .route("/v1/queues/{queue}/fetch", post(queues::fetch))
        .route("/v1/fetch", post(queues::fetch_all))
        .route("/v1/jobs", get(jobs::search))
        .route("/v1/jobs/subscribe", get(life::subscribe))
        .route("/v1/jobs/{job}", get(jobs::job))
        .route("/v1/jobs/{job}/change", post(jobs::change))
        .route("/v1/jobs/{job}/snooze", post(jobs::snooze))
        .route("/v1/jobs/{job}/ack", post(jobs::ack))
        .route("/v1/jobs/{job}/fail", post(jobs::fail))
        .route("/v1/jobs/{job}/heartbeat", post(jobs::heartbeat))
        .route("/v1/bulks", get(bulk::bulks).post(bulk::begin))
        .route("/v1/bulks/{bulk}", get(bulk::bulk))
        .route("/v1/graphs", get(graph::graphs))
        .route("/v1/graphs/{graph}", get(graph::graph))
        .route("/v1/graphs/{graph}/blocks", get(graph::list))
        .route("/v1/graphs/{graph}/blocks/{block}", get(graph::block).post(graph::put_block))
        .route("/v1/graphs/{graph}/blocks/{block}/versions", get(graph::versions))
        .route("/v1/graphs/{graph}/blocks/{block}/neighbours", get(graph::neighbours))
        .route("/v1/graphs/{graph}/blocks/{block}/degree", get(graph::degree))
        .route("/v1/graphs/{graph}/edges", get(graph::edge))
        .route("/v1/graphs/{graph}/get", post(graph::get))
        .route("/v1/graphs/{graph}/exists", post(graph::exists))
        .route("/v1/graphs/{graph}/walk", get(graph::walk))
        .route("/v1/graphs/{graph}/paths", get(graph::paths))
        .route("/v1/graphs/{graph}/order", get(graph::order).post(graph::order_from))
        .route("/v1/graphs/{graph}/components", get(graph::components).post(graph::components_from))
        .route("/v1/graphs/{graph}/missing", get(graph::missing))
        .route("/v1/graphs/{graph}/changes", get(graph::changes))
        .route("/v1/graphs/{graph}/subscribe", get(graph::subscribe))
        .route("/v1/graphs/{graph}/export", get(graph::export))
        .route("/v1/graphs/{graph}/import", post(graph::import).layer(body_limit(graph::IMPORT_BYTES_MAX)))
        .route("/v1/access/self", get(access::caller))
        .route("/v1/access/init", post(access::init))
        .route("/v1/access/users", get(access::users).post(access::create_user))
        .route("/v1/access/users/{user}", post(access::change_user).delete(access::remove_user))
        .route("/v1/access/users/{user}/password", post(access::set_password).delete(access::remove_password))
        .route("/v1/access/keys", get(access::keys).post(access::create_key))
        .route("/v1/access/keys/{key}", post(access::change_key).delete(access::remove_key))
        .route("/v1/access/roles", get(access::roles))
        .route("/v1/access/roles/{role}", post(access::put_role).delete(access::remove_role))
        .route("/v1/access/rules", get(access::rules).post(access::add_rule).delete(access::remove_rule))
        .route("/v1/access/check", post(access::check))
        .route("/v1/sql", post(sql::query))
        .route("/v1/indexes", get(indexes::list).post(indexes::create))
        .route("/v1/indexes/{index}", delete(indexes::remove))
        .route("/v1/refusals", get(refusals::refusals))
        .route("/v1/cluster", get(cluster::status))
        .route("/v1/cluster/remove", post(cluster::remove))
        .route("/v1/cluster/transfer", post(cluster::transfer))
        .route("/v1/compact", post(compact::compact))
        .route("/v1/backup", get(backup::backup))
        .route("/v1/stats", get(stats::stats))
        .route("/v1/history", get(history::history))
        .route("/healthz", get(health::health))
        .route("/livez", get(health::live))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(metrics::metrics))
        .route("/errors/{code}", get(error::page))
        .route("/openapi.json", get(openapi::description))
        .merge(dashboard::routes())
        .fallback(async || Problem::unknown_route())
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .layer(body_limit(body_bytes_max))
        .layer(from_fn_with_state(Arc::clone(&app), linearizable::confirm))
        .layer(from_fn_with_state(Arc::clone(&app), forwarding::forward))
        .layer(from_fn_with_state(Arc::clone(&app), requests::count))
        .with_state(app)
}

/// Limits a body, as it arrives and as it is unpacked.
fn body_limit(bytes_max: usize) -> (DefaultBodyLimit, Extension<BodyLimit>) {
    (DefaultBodyLimit::max(bytes_max), Extension(BodyLimit(bytes_max)))
}
