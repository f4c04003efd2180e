//! `GET /healthz`: whether the database can keep its promises.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use quire::{Duty, ErrorKind};
use serde::Serialize;

use crate::answer::Answer;
use crate::app::App;
use crate::error::Problem;
use crate::stats::FailingStats;

/// How long the database may take to answer before it counts as failed, in seconds.
const ANSWER_S_MAX: u64 = 5;

/// How much of what is damaged is told at most; `damaged` of `/v1/stats` counts all of it.
const DAMAGE_MAX: usize = 16;

#[derive(Debug, Serialize)]
struct Health {
    /// `no_space` when a commit that takes room was refused and none was taken since: what frees some still is. `no_segment` when it was
    /// refused because the segment that it needed could not be made for another reason. Otherwise `damaged` when
    /// something of the log was found not to be as it was written: all else is served. Otherwise `ok`.
    status: &'static str,
    version: &'static str,
    durability: String,
    /// What is done in the background and failed the last time: nothing that was promised is lost by it.
    failing: Vec<FailingStats>,
    /// What was found damaged since the database was opened, the first [`DAMAGE_MAX`] of it: file, byte and record.
    damaged: Vec<String>,
}

/// 200 when the database answers, 503 with the reason when it has failed. The answer rests on everything committed so
/// far, so in a `sync` database the disk has answered, too.
pub(crate) async fn health(State(app): State<Arc<App>>) -> Result<Answer, Problem> {
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
    Answer::of(&app.memory, &Health { status, version: env!("CARGO_PKG_VERSION"), durability, failing, damaged })
}
