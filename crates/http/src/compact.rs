//! `POST /v1/compact`: what no longer counts goes now, rather than when enough of it has gathered.

use std::sync::Arc;

use axum::extract::State;
use serde::Serialize;

use crate::answer::{Answer, aside};
use crate::app::App;
use crate::error::Problem;

/// What was done; bytes are those of files.
#[derive(Debug, Serialize)]
struct Compacted {
    segments: u64,
    entries_dropped: u64,
    bytes_before: u64,
    bytes_after: u64,
}

/// Compacts, and answers when that is done. Who comes meanwhile waits for a turn.
pub(crate) async fn compact(State(app): State<Arc<App>>) -> Result<Answer, Problem> {
    let _turn = app.compacting.lock().await;
    let database = app.database.clone();
    let done = aside(move || Ok(database.compact()?)).await?;
    let compacted = Compacted {
        segments: done.segments,
        entries_dropped: done.entries_dropped,
        bytes_before: done.bytes_before,
        bytes_after: done.bytes_after,
    };
    Ok(Answer::of_done(&app.memory, &compacted))
}
