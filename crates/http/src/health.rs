//! `GET /healthz`: whether the database works. `GET /livez` and `GET /readyz`: whether to restart
//! this process, and whether to send it writes.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use quire::{Duty, ErrorKind, Operation, Resource};
use quire_access::Session;
use quire_api::Code;
use quire_api::reply::Health;

use crate::app::App;
use crate::cluster::damage_that_holds_back;
use crate::error::Problem;
use crate::response::{JsonResponse, aside};
use crate::stats;

/// How long the database may take to respond before it counts as failed, in seconds.
const ANSWER_S_MAX: u64 = 5;

/// Maximum number of damaged places in a response; `damaged` of `/v1/stats` counts all.
const DAMAGE_MAX: usize = 16;

/// 200 as long as this process responds. It needs neither the database nor the disk: a restart
/// mends neither.
pub(crate) async fn live() -> &'static str {
    "ok\n"
}

/// 200 when commits can succeed, also by the leader of the cluster where this node follows and
/// reaches it, and else 503 with the reason: the server is stopping, the database
/// was opened read-only, the disk is full, a segment can't be created, or the database has failed.
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Result<String, Problem> {
    if app.is_closing() {
        return Err(Problem::stopping());
    }
    if app.owner().is_read_only() {
        return Err(Problem::new(Code::ReadOnly, "the database was opened read-only").unavailable());
    }
    match responds(&app).await {
        // The leader answers the requests of this node's clients.
        Err(_) if app.served().forwarding().is_some() && reaches_leader(&app) => {}
        responded => responded.map_err(Problem::unavailable)?,
    }
    // A failed sync stays failed until the database is opened again.
    app.owner().check().map_err(|error| Problem::from(error).unavailable())?;
    if app.owner().failing().iter().any(|failing| failing.duty == Duty::Prepare) {
        // Only a commit ends this state, and a server that is not ready may get none. So whether a
        // segment can be created is tried here.
        let database = app.owner().clone();
        let tried = aside(move || Ok::<_, Problem>(database.ensure_segment())).await?;
        tried.map_err(|error| {
            let code = if error.kind() == ErrorKind::NoSpace { Code::NoSpace } else { Code::NoSegment };
            Problem::new(code, error.for_clients()).unavailable()
        })?;
    }
    Ok(match damage_that_holds_back(&app) {
        // Requests reach the leader as before.
        Some(damaged) => format!("ok; damaged places: {damaged}; this node does not lead\n"),
        None => "ok\n".to_owned(),
    })
}

/// Whether this node is connected with the leader of its cluster.
fn reaches_leader(app: &App) -> bool {
    let status = app.owner().cluster_control().map(|control| control.status());
    let leader = status.as_ref().and_then(|status| status.office.leader);
    let mut members = status.iter().flat_map(|status| &status.members);
    members.any(|member| Some(member.node) == leader && member.is_connected)
}

/// Waits until everything committed so far is durable, for a bounded time. In a `sync` database,
/// this includes the disk.
async fn responds(app: &App) -> Result<(), Problem> {
    let answered = tokio::time::timeout(Duration::from_secs(ANSWER_S_MAX), app.owner().read(|_| ())?.into_future());
    match answered.await {
        Ok(answered) => Ok(answered?),
        Err(_) => Err(Problem::stalled(format!("the log was not synced within {ANSWER_S_MAX} s"))),
    }
}

/// 200 when the database responds, also on a node that does not lead; 503 with the reason when it
/// has failed. A client without a session gets the status only, and a client that may not describe
/// the database no failures.
pub(crate) async fn health(State(app): State<Arc<App>>) -> Result<JsonResponse, Problem> {
    let cluster = app.owner().cluster()?;
    let follows = cluster.filter(|cluster| !cluster.serves);
    if follows.is_none() {
        responds(&app).await?;
    }
    app.owner().check()?;
    let durability = app.owner().durability().to_string();
    let prepare = app.owner().failing().into_iter().find(|failing| failing.duty == Duty::Prepare);
    let damage = app.owner().damage();
    let damaged: Vec<_> = damage.iter().take(DAMAGE_MAX).map(|damage| damage.for_clients().to_string()).collect();
    let status = match (prepare.map(|failing| failing.kind), damaged.is_empty()) {
        (Some(ErrorKind::NoSpace), _) => "no_space",
        (Some(_), _) => "no_segment",
        (None, false) => "damaged",
        (None, true) => match follows.map(|cluster| cluster.office.leader) {
            None => "ok",
            Some(Some(_)) => "following",
            Some(None) => "no_leader",
        },
    };
    let status = status.into();
    let is_shown = app.database().permits(Resource::DATABASE, Operation::Describe);
    let reply = match Session::current() {
        // Failures of duties name objects.
        Some(_) => Health {
            status,
            version: Some(env!("CARGO_PKG_VERSION").into()),
            durability: Some(durability),
            failing: is_shown.then(|| stats::failing(app.owner())),
            damaged: is_shown.then_some(damaged),
        },
        None => Health { status, version: None, durability: None, failing: None, damaged: None },
    };
    JsonResponse::of(&app.memory, &reply)
}
