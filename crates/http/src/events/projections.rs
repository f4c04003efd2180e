//! Saved projections: states that clients fold, kept under names with the position up to which they were folded.

use std::sync::Arc;

use axum::extract::State;
use quire::events::Command;
use quire::{Commit, Part};
use serde::Serialize;
use serde_json::json;

use crate::answer::{Answer, aside};
use crate::app::App;
use crate::body::Body;
use crate::bytes::Shown;
use crate::commit::committed;
use crate::commit::request::ProjectionRequest;
use crate::error::Problem;
use crate::params::{Named, Params};

#[derive(Debug, Serialize)]
struct ProjectionReply<'a> {
    name: &'a str,
    version: u32,
    /// Up to which event it was folded.
    position: u64,
    #[serde(flatten)]
    state: Option<Shown<'a>>,
}

#[derive(Debug, Serialize)]
struct Projections<'a> {
    projections: Vec<ProjectionReply<'a>>,
}

/// `GET /v1/events/{store}/projections`: the saved projections of a store, without their states.
pub(crate) async fn projections(
    State(app): State<Arc<App>>,
    Named(store): Named<String>,
    params: Params,
) -> Result<Answer, Problem> {
    params.end()?;
    let theirs = Arc::clone(&app);
    let saved = aside(move || Ok(theirs.database.events(&store).projections()?)).await?;
    let reply = saved.iter().map(|(name, saved)| ProjectionReply {
        name,
        version: saved.version,
        position: saved.position.get(),
        state: None,
    });
    Answer::of(&app.memory, &Projections { projections: reply.collect() })
}

/// `GET /v1/events/{store}/projections/{name}`: one of them, with its state.
pub(crate) async fn projection(
    State(app): State<Arc<App>>,
    Named((store, name)): Named<(String, String)>,
    params: Params,
) -> Result<Answer, Problem> {
    params.end()?;
    aside(move || {
        let loaded = app.database.events(&store).projection(&name).load_any()?;
        let missing = || Problem::not_found(format!("{store:?} has no saved projection {name:?}"));
        let (saved, state) = loaded.ok_or_else(missing)?;
        let (version, position) = (saved.version, saved.position.get());
        Answer::of(
            &app.memory,
            &ProjectionReply { name: &name, version, position, state: Some(Shown::value("state", state)) },
        )
    })
    .await
}

/// `POST /v1/events/{store}/projections/{name}`: saves one.
pub(crate) async fn save_projection(
    State(app): State<Arc<App>>,
    Named((store, name)): Named<(String, String)>,
    body: Body,
) -> Result<Answer, Problem> {
    let ticket = {
        let request = body.parse::<ProjectionRequest<'_>>()?.of(&store, &name);
        app.database.submit(&Commit::new().part(Part::Events(request.command()?)))?
    };
    committed(ticket.await?).map_err(Problem::of_one)?;
    Ok(Answer::of_done(&app.memory, &json!({})))
}

/// `DELETE /v1/events/{store}/projections/{name}`: removes one, so that it is folded anew.
pub(crate) async fn remove_projection(
    State(app): State<Arc<App>>,
    Named((store, name)): Named<(String, String)>,
    params: Params,
) -> Result<Answer, Problem> {
    params.end()?;
    let ticket = {
        let drop = Command::DropProjection { store: &store, name: &name };
        app.database.submit(&Commit::new().part(Part::Events(drop)))?
    };
    committed(ticket.await?).map_err(Problem::of_one)?;
    Ok(Answer::of_done(&app.memory, &json!({})))
}
