//! `POST /v1/compact`: deletes obsolete records now, without waiting for the usual threshold.

use std::sync::Arc;

use axum::extract::State;
use quire_api::reply::CompactionReply;

use crate::app::App;
use crate::error::Problem;
use crate::idempotency::NoRequestKey;
use crate::params::Params;
use crate::response::{JsonResponse, aside};

/// Compacts, and responds when it is done. Concurrent requests run one after another.
pub(crate) async fn compact(
    State(app): State<Arc<App>>,
    _no_key: NoRequestKey,
    params: Params,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    let _turn = app.compacting.lock().await;
    let database = app.database();
    let done = aside(move || Ok(database.compact()?)).await?;
    let compacted = CompactionReply {
        segments: done.segments,
        entries_dropped: done.entries_dropped,
        bytes_before: done.bytes_before,
        bytes_after: done.bytes_after,
    };
    Ok(JsonResponse::of_done(&app.memory, &compacted))
}
