//! `GET /healthz`: whether the database works.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use quire::{Duty, ErrorKind};
use serde::Serialize;

use crate::app::App;
use crate::error::Problem;
use crate::response::JsonResponse;
use crate::stats::FailingStats;

/// How long the database may take to respond before it counts as failed, in seconds.
const ANSWER_S_MAX: u64 = 5;

/// Maximum number of damaged places in a response; `damaged` of `/v1/stats` counts all.
const DAMAGE_MAX: usize = 16;

#[derive(Debug, Serialize)]
struct Health {
    /// * `no_space`: a commit was refused for lack of disk space, and no commit that needs space
    ///   has succeeded since. Commits that free space still work.
    /// * `no_segment`: a commit was refused because its segment could not be created for another
    ///   reason.
    /// * `damaged`: a part of the log was found damaged. Everything else is served.
    /// * `ok`: otherwise.
    status: &'static str,
    version: &'static str,
    durability: String,
    /// Background duties whose last run failed. No promise is broken by that.
    failing: Vec<FailingStats>,
    /// The damage found since the database was opened, at most [`DAMAGE_MAX`] places: file, byte
    /// and record.
    damaged: Vec<String>,
}

/// 200 when the database responds, 503 with the reason when it has failed. The check waits until
/// everything committed so far is durable, so in a `sync` database it includes the disk.
pub(crate) async fn health(State(app): State<Arc<App>>) -> Result<JsonResponse, Problem> {
    let answered = tokio::time::timeout(Duration::from_secs(ANSWER_S_MAX), app.database.read(|_| ())?.into_future());
    match answered.await {
        Ok(answered) => answered?,
        Err(_) => return Err(Problem::stalled(format!("the log was not synced within {ANSWER_S_MAX} s"))),
    }
    app.database.check()?;
    let durability = app.database.durability().to_string();
    let prepare = app.database.failing().into_iter().find(|failing| failing.duty == Duty::Prepare);
    let damaged: Vec<_> = app.database.damage().iter().take(DAMAGE_MAX).map(ToString::to_string).collect();
    let status = match (prepare.map(|failing| failing.kind), damaged.is_empty()) {
        (Some(ErrorKind::NoSpace), _) => "no_space",
        (Some(_), _) => "no_segment",
        (None, false) => "damaged",
        (None, true) => "ok",
    };
    let failing = FailingStats::all(&app.database);
    JsonResponse::of(&app.memory, &Health { status, version: env!("CARGO_PKG_VERSION"), durability, failing, damaged })
}
