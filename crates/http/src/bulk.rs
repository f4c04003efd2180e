//! Bulk changes: begun, and how far they have come.

use std::sync::Arc;

use axum::extract::State;
use quire::jobs::{BulkId, BulkProgress};
use serde::Serialize;

use crate::answer::Answer;
use crate::app::App;
use crate::body::Body;
use crate::commit::reply::CommitReply;
use crate::commit::request::{Bulk, PartRequest};
use crate::commit::{committed, submit};
use crate::error::Problem;
use crate::params::{Named, Params, parse};

#[derive(Debug, Serialize)]
struct BulkReply {
    bulk: String,
    looked_at: u64,
    changed: u64,
    refused: u64,
    done: bool,
}

#[derive(Debug, Serialize)]
struct Bulks {
    bulks: Vec<BulkReply>,
}

impl BulkReply {
    fn of(bulk: BulkId, progress: BulkProgress) -> Self {
        let BulkProgress { looked_at, changed, refused, done } = progress;
        BulkReply { bulk: bulk.to_string(), looked_at, changed, refused, done }
    }
}

/// `POST /v1/bulk`: begins one.
pub(crate) async fn begin(State(app): State<Arc<App>>, body: Body) -> Result<Answer, Problem> {
    let ticket = {
        let bulk: Bulk<'_> = body.parse()?;
        submit(&app.database, &[PartRequest::Bulk(Box::new(bulk))])?
    };
    Ok(Answer::of_done(&app.memory, &CommitReply::of(&committed(ticket.await?)?)))
}

/// `GET /v1/bulk`: those under way, and the last that are done.
pub(crate) async fn bulks(State(app): State<Arc<App>>, params: Params) -> Result<Answer, Problem> {
    params.end()?;
    let all =
        |view: &quire::View<'_>| view.jobs.bulks().map(|(bulk, progress)| BulkReply::of(bulk, progress)).collect();
    Answer::of(&app.memory, &Bulks { bulks: app.database.read(all)?.await? })
}

/// `GET /v1/bulk/{bulk}`: how far one has come.
pub(crate) async fn bulk(
    State(app): State<Arc<App>>,
    Named(bulk): Named<String>,
    params: Params,
) -> Result<Answer, Problem> {
    params.end()?;
    let bulk: BulkId = parse("the id of a bulk change", &bulk)?;
    let progress = app.database.read(|view| view.jobs.bulk(bulk))?.await?;
    let progress = progress.ok_or_else(|| Problem::not_found(format!("there is no bulk change {bulk}")))?;
    Answer::of(&app.memory, &BulkReply::of(bulk, progress))
}
