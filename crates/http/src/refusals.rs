//! `GET /v1/refusals`: the last refused commits of this server, with their reasons.

use std::sync::Arc;

use axum::extract::State;
use quire::{RefusedCommit, TouchedResource};
use quire_api::ListPage;
use quire_api::reply::{RefusedCommitReply, TouchedResourceReply};

use crate::app::App;
use crate::error::Problem;
use crate::params::Params;
use crate::response::JsonResponse;

/// Responds with the refusals that the client may see, newest first.
pub(crate) async fn refusals(State(app): State<Arc<App>>, params: Params) -> Result<JsonResponse, Problem> {
    params.end()?;
    let refusals = app.database().recent_refusals()?.into_iter().map(reply).collect();
    JsonResponse::of(&app.memory, &ListPage::whole(refusals))
}

fn reply(refused: RefusedCommit) -> RefusedCommitReply<'static> {
    let RefusedCommit { number, time, refusal, resources } = refused;
    let resource = |TouchedResource { kind, name }| TouchedResourceReply { kind: kind.name().into(), name };
    RefusedCommitReply {
        number,
        time_ms: time.as_millis(),
        resources: resources.into_iter().map(resource).collect(),
        problem: Problem::refused(&refusal).within_response(),
    }
}
