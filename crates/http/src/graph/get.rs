//! Several blocks at once, by name or id: all of each, or only whether it is there.

use std::sync::Arc;

use axum::extract::State;
use quire::graph::BlockId;
use quire::{GraphSnapshot, Position};
use serde::{Deserialize, Serialize};

use super::blocks::BlockReply;
use super::snapshot;
use crate::answer::{Answer, aside};
use crate::app::App;
use crate::body::Body;
use crate::commit::request::BlockRequest;
use crate::error::Problem;
use crate::memory::Claim;
use crate::params::{Named, Params};

/// The most blocks that one request asks for.
const BLOCKS_MAX: usize = 1_000;

/// The most bytes of metadata and content that one answer has.
const ANSWER_BYTES_MAX: usize = 64 << 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request<'r> {
    #[serde(borrow)]
    blocks: Vec<BlockRequest<'r>>,
    at: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Found<T> {
    position: u64,
    /// One for each block that was asked for, in their order.
    #[serde(flatten)]
    found: T,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum What {
    Blocks(Vec<Option<BlockReply>>),
    Exists(Vec<bool>),
}

/// `POST /v1/graph/{graph}/get`: blocks, `null` for each that is not there.
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    Named(graph): Named<String>,
    params: Params,
    body: Body,
) -> Result<Answer, Problem> {
    read(app, graph, params, &body, |snapshot, ids, claim| {
        let mut bytes = 0;
        let mut blocks = Vec::with_capacity(ids.len());
        for id in ids {
            let block = snapshot.block(id, |block| {
                bytes += block.metadata.len() + block.content.len();
                if bytes > ANSWER_BYTES_MAX { Err(too_large()) } else { BlockReply::within(claim, block) }
            })?;
            blocks.push(block.transpose()?);
        }
        Ok(What::Blocks(blocks))
    })
    .await
}

/// `POST /v1/graph/{graph}/exists`: whether blocks are there.
pub(crate) async fn exists(
    State(app): State<Arc<App>>,
    Named(graph): Named<String>,
    params: Params,
    body: Body,
) -> Result<Answer, Problem> {
    read(app, graph, params, &body, |snapshot, ids, _| {
        let exists = ids.into_iter().map(|id| snapshot.contains(id)).collect::<Result<_, _>>()?;
        Ok(What::Exists(exists))
    })
    .await
}

async fn read(
    app: Arc<App>,
    graph: String,
    params: Params,
    body: &Body,
    look: impl FnOnce(&GraphSnapshot<'_>, Vec<BlockId>, &mut Claim) -> Result<What, Problem> + Send + 'static,
) -> Result<Answer, Problem> {
    params.end()?;
    let request: Request<'_> = body.parse()?;
    let asked = request.blocks.len();
    if asked > BLOCKS_MAX {
        return Err(Problem::invalid(format!("{asked} blocks are asked for at once; at most {BLOCKS_MAX} can be")));
    }
    let ids: Vec<BlockId> = request.blocks.iter().map(|block| block.block().id()).collect();
    let at = request.at.map(Position::new);
    aside(move || {
        let snapshot = snapshot(&app.database, &graph, at)?;
        let mut claim = app.memory.claim();
        let found = look(&snapshot, ids, &mut claim)?;
        Answer::within(claim, &Found { position: snapshot.at().get(), found })
    })
    .await
}

fn too_large() -> Problem {
    Problem::too_large(format!("these blocks have more than {ANSWER_BYTES_MAX} bytes; ask for fewer at once"))
}
