//! Saved projections: states that clients compute, stored under names with the position of the last
//! event included.

use std::sync::Arc;

use axum::extract::State;
use quire::events::Command;
use quire::{Commit, Part};
use quire_access::BoundedRequest;
use quire_api::ListPage;
use serde_json::json;

use crate::app::App;
use crate::body::Body;
use crate::bytes::value;
use crate::commit::{committed, submit_commit, submitted};
use crate::error::Problem;
use crate::idempotency::RequestKey;
use crate::params::{Params, PathNames};
use crate::response::{JsonResponse, bounded};
use quire_api::reply::ProjectionReply;
use quire_api::request::SavedProjectionRequest;

/// `GET /v1/events/{store}/projections`: the saved projections of a store, without their states.
pub(crate) async fn projections(
    State(app): State<Arc<App>>,
    PathNames(store): PathNames<String>,
    params: Params,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    let request = BoundedRequest::begin(&app.database());
    let saved = bounded(request, move |database| Ok(database.events(&store).projections()?)).await?;
    let reply = saved.iter().map(|(name, saved)| ProjectionReply {
        name: (&**name).into(),
        version: saved.version,
        position: saved.position.get(),
        state: None,
    });
    JsonResponse::of(&app.memory, &ListPage::whole(reply.collect()))
}

/// `GET /v1/events/{store}/projections/{name}`: a saved projection, with its state.
pub(crate) async fn projection(
    State(app): State<Arc<App>>,
    PathNames((store, name)): PathNames<(String, String)>,
    params: Params,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    bounded(BoundedRequest::begin(&app.database()), move |database| {
        let loaded = database.events(&store).projection(&name).load_any()?;
        let missing = || Problem::not_found(format!("unknown saved projection {name:?} in store {store:?}"));
        let (saved, state) = loaded.ok_or_else(missing)?;
        let (version, position) = (saved.version, saved.position.get());
        JsonResponse::of(
            &app.memory,
            &ProjectionReply { name: (&*name).into(), version, position, state: Some(value(state)) },
        )
    })
    .await
}

/// `POST /v1/events/{store}/projections/{name}`: saves a projection.
pub(crate) async fn save_projection(
    State(app): State<Arc<App>>,
    PathNames((store, name)): PathNames<(String, String)>,
    params: Params,
    key: RequestKey,
    body: Body,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    let ticket = submitted(&app, body, move |database, body, pace| {
        let request = body.parse::<SavedProjectionRequest<'_>>()?.of(&store, &name);
        let command = request.command()?;
        let commit = key.commit(database, |_| Ok(Commit::new().part(Part::Events(command.clone()))))?;
        submit_commit(database, &commit, pace)
    });
    let committed = committed(ticket.await?.await?).map_err(Problem::of_one)?;
    Ok(JsonResponse::of_done(&app.memory, &json!({})).replay(committed.is_replay))
}

/// `DELETE /v1/events/{store}/projections/{name}`: deletes a saved projection, so that a client
/// computes it from the start.
pub(crate) async fn remove_projection(
    State(app): State<Arc<App>>,
    PathNames((store, name)): PathNames<(String, String)>,
    key: RequestKey,
    params: Params,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    let ticket = {
        let drop = Command::DropProjection { store: &store, name: &name };
        let commit = key.commit(&app.database(), |_| Ok(Commit::new().part(Part::Events(drop.clone()))))?;
        app.database().submit(&commit)?
    };
    let committed = committed(ticket.await?).map_err(Problem::of_one)?;
    Ok(JsonResponse::of_done(&app.memory, &json!({})).replay(committed.is_replay))
}
