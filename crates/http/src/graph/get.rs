//! Several blocks in one request, by name or id: their content, or only whether they exist.

use std::sync::Arc;

use axum::extract::State;
use quire::graph::BlockId;
use quire::{GraphSnapshot, Position};
use quire_access::BoundedRequest;
use schemars::JsonSchema;
use serde::Deserialize;

use super::blocks::block_within;
use super::snapshot;
use crate::app::App;
use crate::body::Body;
use crate::error::Problem;
use crate::json::BoundedList;
use crate::memory::Claim;
use crate::params::{Params, PathNames};
use crate::response::JsonResponse;
use quire_api::reply::{BlocksAnswer, BlocksReply};
use quire_api::request::BlockRequest;

/// Maximum number of blocks in a request.
const BLOCKS_MAX: usize = 1_000;

/// Maximum bytes of metadata and content in a response.
const ANSWER_BYTES_MAX: usize = 64 << 20;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BlocksRequest<'r> {
    #[serde(borrow)]
    blocks: BoundedList<BlockRequest<'r>, BLOCKS_MAX>,
    at: Option<u64>,
}

/// `POST /v1/graphs/{graph}/get`: blocks, `null` for each missing one.
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    PathNames(graph): PathNames<String>,
    params: Params,
    body: Body,
) -> Result<JsonResponse, Problem> {
    read(app, graph, params, body, |snapshot, ids, claim| {
        let mut bytes = 0;
        let mut blocks = Vec::with_capacity(ids.len());
        for id in ids {
            let block = snapshot.block(id, |block| {
                bytes += block.metadata.len() + block.content.len();
                if bytes > ANSWER_BYTES_MAX { Err(too_large()) } else { block_within(claim, block) }
            })?;
            blocks.push(block.transpose()?);
        }
        Ok(BlocksAnswer::Blocks(blocks))
    })
    .await
}

/// `POST /v1/graphs/{graph}/exists`: whether blocks exist.
pub(crate) async fn exists(
    State(app): State<Arc<App>>,
    PathNames(graph): PathNames<String>,
    params: Params,
    body: Body,
) -> Result<JsonResponse, Problem> {
    read(app, graph, params, body, |snapshot, ids, _| {
        let exists = ids.into_iter().map(|id| snapshot.contains(id)).collect::<Result<_, _>>()?;
        Ok(BlocksAnswer::Exists(exists))
    })
    .await
}

async fn read(
    app: Arc<App>,
    graph: String,
    params: Params,
    body: Body,
    look: impl FnOnce(&GraphSnapshot, Vec<BlockId>, &mut Claim) -> Result<BlocksAnswer, Problem> + Send + 'static,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    body.bounded(BoundedRequest::begin(&app.database()), move |database, body| {
        let BlocksRequest { blocks: BoundedList(blocks), at } = body.parse()?;
        let ids: Vec<BlockId> = blocks.iter().map(|block| block.block().id()).collect();
        let snapshot = snapshot(database, &graph, at.map(Position::new))?;
        let mut claim = app.memory.claim();
        let found = look(&snapshot, ids, &mut claim)?;
        JsonResponse::within(claim, &BlocksReply { position: snapshot.at().get(), found })
    })
    .await
}

fn too_large() -> Problem {
    Problem::too_large(format!("these blocks exceed {ANSWER_BYTES_MAX} bytes: request fewer at once"))
}
