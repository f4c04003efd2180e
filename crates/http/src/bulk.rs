//! Bulk changes: starts them, and reports their progress.

use std::sync::Arc;

use axum::extract::State;
use quire::PermittedView;
use quire::jobs::{BulkId, BulkProgress};
use quire_api::ListPage;

use crate::app::App;
use crate::body::Body;
use crate::commit::{committed, done, submit_at, submitted};
use crate::error::Problem;
use crate::idempotency::RequestKey;
use crate::params::{Params, PathNames, parse};
use crate::response::JsonResponse;
use quire_api::reply::BulkReply;
use quire_api::request::{BulkRequest, PartRequest};

fn bulk_reply(bulk: BulkId, progress: BulkProgress) -> BulkReply {
    let BulkProgress { looked_at, changed, refused, done, stopped } = progress;
    BulkReply { bulk: bulk.to_string(), looked_at, changed, refused, done, stopped }
}

/// `POST /v1/bulks`: starts a bulk change.
pub(crate) async fn begin(
    State(app): State<Arc<App>>,
    params: Params,
    key: RequestKey,
    body: Body,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    let ticket = submitted(&app, body, move |database, body, pace| {
        let bulk: BulkRequest<'_> = body.parse()?;
        submit_at(database, &key, &[PartRequest::Bulk(Box::new(bulk))], pace)
    });
    Ok(done(&app, &committed(ticket.await?.await?)?))
}

/// `GET /v1/bulks`: the running bulk changes, and the last completed ones, that the client may see.
pub(crate) async fn bulks(State(app): State<Arc<App>>, params: Params) -> Result<JsonResponse, Problem> {
    params.end()?;
    let all = app.database().read_permitted(|view| {
        let mut shown = Vec::new();
        for (bulk, progress) in view.jobs.bulks() {
            if view.shows_bulk(bulk)? {
                shown.push(bulk_reply(bulk, progress));
            }
        }
        Ok::<_, quire::Error>(shown)
    })?;
    JsonResponse::of(&app.memory, &ListPage::whole(all.await??))
}

/// `GET /v1/bulks/{bulk}`: the progress of a bulk change.
pub(crate) async fn bulk(
    State(app): State<Arc<App>>,
    PathNames(bulk): PathNames<String>,
    params: Params,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    let bulk: BulkId = parse("the id of a bulk change", &bulk)?;
    let look = |view: &PermittedView<'_>| {
        let shown = view.shows_bulk(bulk)?;
        Ok::<_, quire::Error>(view.jobs.bulk(bulk).filter(|_| shown))
    };
    let progress = app.database().read_permitted(look)?.await??;
    let progress = progress.ok_or_else(|| Problem::not_found(format!("unknown bulk change {bulk}")))?;
    JsonResponse::of(&app.memory, &bulk_reply(bulk, progress))
}
