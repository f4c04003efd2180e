//! Reads of graphs: the graphs, a block, its neighbours, and a walk along edges.

use std::sync::Arc;

use axum::extract::State;
use quire::Database;
use quire::graph::{Block, BlockId, Bound, Direction, End, WalkPlan};
use serde::Serialize;

use crate::answer::{Answer, aside};
use crate::app::App;
use crate::bytes::Shown;
use crate::error::Problem;
use crate::params::{Named, Params, parse, within};

/// How many names are looked up before writers get their turn.
const NAMES_AT_ONCE: usize = 64;

/// How far a walk goes when it is not said how far, and at most.
const DEPTH: (usize, usize) = (1, 1_000);

const DIRECTIONS: [(&str, Direction); 3] =
    [("outgoing", Direction::Outgoing), ("incoming", Direction::Incoming), ("both", Direction::Both)];

/// A graph, and how large it is.
#[derive(Debug, Serialize)]
pub(crate) struct GraphReply {
    pub(crate) graph: String,
    pub(crate) blocks: usize,
    pub(crate) edges: usize,
}

#[derive(Debug, Serialize)]
struct Graphs {
    graphs: Vec<GraphReply>,
}

#[derive(Debug, Serialize)]
struct BlockReply {
    id: String,
    name: Option<String>,
    version: u64,
    kind: String,
    source: String,
    tags: Vec<String>,
    time_ms: u64,
    #[serde(flatten)]
    metadata: Shown<'static>,
    #[serde(flatten)]
    content: Shown<'static>,
}

#[derive(Debug, Serialize)]
struct Neighbours {
    neighbours: Vec<NeighbourReply>,
    /// Whether there are more than the limit.
    more: bool,
}

#[derive(Debug, Serialize)]
struct NeighbourReply {
    id: String,
    name: Option<String>,
    #[serde(rename = "type")]
    edge_type: String,
    /// Which end of the edge the neighbour is.
    end: &'static str,
}

#[derive(Debug, Serialize)]
struct WalkReply {
    visits: Vec<VisitReply>,
    /// What kept the walk from going on; `null` when it saw all there is.
    bound: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct VisitReply {
    id: String,
    name: Option<String>,
    depth: usize,
    /// The id of the block before it on the way.
    from: Option<String>,
}

/// Every graph.
pub(crate) async fn all(app: &App) -> Result<Vec<GraphReply>, Problem> {
    let graphs = app.database.read(|view| {
        let graphs = view.graphs.iter().map(|(name, graph)| GraphReply {
            graph: name.to_owned(),
            blocks: graph.block_count(),
            edges: graph.edge_count(),
        });
        graphs.collect::<Vec<_>>()
    })?;
    Ok(graphs.await?)
}

/// `GET /v1/graphs`: the graphs.
pub(crate) async fn graphs(State(app): State<Arc<App>>, params: Params) -> Result<Answer, Problem> {
    params.end()?;
    Ok(Answer::of(&Graphs { graphs: all(&app).await? }))
}

/// `GET /v1/graph/{graph}/blocks/{block}`: a block.
pub(crate) async fn block(
    State(app): State<Arc<App>>,
    Named((graph, block)): Named<(String, String)>,
    mut params: Params,
) -> Result<Answer, Problem> {
    let id = block_id(&mut params, &block)?;
    params.end()?;
    let found = app.database.read(|view| match view.graphs.graph(&graph) {
        Some(graph) => graph.block(view.history, id).map(|found| Some(found.map(shown))),
        None => Ok(None),
    })?;
    let found = found.await?.map_err(quire::Error::from)?.ok_or_else(|| unknown_graph(&graph))?;
    Ok(Answer::of(&found.ok_or_else(|| unknown_block(&graph, &block))?))
}

/// `GET /v1/graph/{graph}/blocks/{block}/neighbours`: the blocks at the other ends of its edges.
pub(crate) async fn neighbours(
    State(app): State<Arc<App>>,
    Named((graph, block)): Named<(String, String)>,
    mut params: Params,
) -> Result<Answer, Problem> {
    let id = block_id(&mut params, &block)?;
    let direction = params.word("direction", &DIRECTIONS)?.unwrap_or(Direction::Outgoing);
    let edge_types = params.all("type");
    let limit = params.limit()?;
    params.end()?;
    aside(move || {
        let edge_types: Vec<&str> = edge_types.iter().map(String::as_str).collect();
        let found = app.database.read(|view| {
            let found = view.graphs.graph(&graph)?.neighbours(id, direction, &edge_types, None).take(limit + 1);
            Some(found.map(|found| (found.block, found.edge_type.to_owned(), found.end)).collect::<Vec<_>>())
        })?;
        let mut found = found.wait()?.ok_or_else(|| unknown_graph(&graph))?;
        let more = found.len() > limit;
        found.truncate(limit);
        let names = names(&app.database, &graph, found.iter().map(|(block, ..)| *block).collect())?;
        let reply = |((block, edge_type, end), name): ((BlockId, String, End), Option<String>)| NeighbourReply {
            id: block.to_string(),
            name,
            edge_type,
            end: if end == End::Source { "source" } else { "target" },
        };
        Ok(Answer::of(&Neighbours { neighbours: found.into_iter().zip(names).map(reply).collect(), more }))
    })
    .await
}

/// `GET /v1/graph/{graph}/walk`: the blocks around one, breadth first.
pub(crate) async fn walk(
    State(app): State<Arc<App>>,
    Named(graph): Named<String>,
    mut params: Params,
) -> Result<Answer, Problem> {
    let start: String = params.one("start")?.ok_or_else(|| Problem::invalid("start has to name a block"))?;
    let id = block_id(&mut params, &start)?;
    let direction = params.word("direction", &DIRECTIONS)?.unwrap_or(Direction::Outgoing);
    let edge_types = params.all("type");
    let depth_max = within("depth", params.one("depth")?.unwrap_or(DEPTH.0), 0..=DEPTH.1)?;
    let visited_max = params.limit()?;
    params.end()?;
    aside(move || {
        let edge_types: Vec<&str> = edge_types.iter().map(String::as_str).collect();
        let plan = WalkPlan { direction, edge_types: &edge_types, depth_max, visited_max, ..WalkPlan::default() };
        let snapshot = app.database.graph(&graph).snapshot()?.ok_or_else(|| unknown_graph(&graph))?;
        let is_there = snapshot.block(id, |_| ())?.is_some();
        if !is_there {
            return Err(unknown_block(&graph, &start));
        }
        let walked = snapshot.walk(&[id], plan, None)?;
        let names = names(&app.database, &graph, walked.visits().map(|visit| visit.block).collect())?;
        let visits = walked.visits().zip(names).map(|(visit, name)| VisitReply {
            id: visit.block.to_string(),
            name,
            depth: visit.depth,
            from: visit.from.map(|step| step.block.to_string()),
        });
        let bound = walked.bound().map(|bound| match bound {
            Bound::Depth => "depth",
            Bound::Visited => "limit",
            Bound::Results => "results",
            Bound::Time => "time",
        });
        Ok(Answer::of(&WalkReply { visits: visits.collect(), bound }))
    })
    .await
}

/// The id of a block, which a request names, or, with `by=id`, gives.
fn block_id(params: &mut Params, block: &str) -> Result<BlockId, Problem> {
    match params.word("by", &[("name", false), ("id", true)])? {
        Some(true) => parse("a block's id", block),
        _ => Ok(BlockId::of_name(block)),
    }
}

/// The names of blocks; `None` for one that has none, or is not there.
fn names(database: &Database, graph: &str, ids: Vec<BlockId>) -> Result<Vec<Option<String>>, Problem> {
    let mut names = Vec::with_capacity(ids.len());
    for ids in ids.chunks(NAMES_AT_ONCE) {
        let found = database.read(|view| {
            let graph = view.graphs.graph(graph);
            let name = |id: &BlockId| -> quire::Result<_> {
                let block = graph.map(|graph| graph.block(view.history, *id)).transpose()?.flatten();
                Ok(block.and_then(|block| block.name).map(str::to_owned))
            };
            ids.iter().map(name).collect::<quire::Result<Vec<_>>>()
        })?;
        names.extend(found.wait()??);
    }
    Ok(names)
}

fn shown(block: Block<'_>) -> BlockReply {
    BlockReply {
        id: block.id.to_string(),
        name: block.name.map(str::to_owned),
        version: block.version.get(),
        kind: block.kind.to_owned(),
        source: block.source.to_owned(),
        tags: block.tags().map(str::to_owned).collect(),
        time_ms: block.time.as_millis(),
        metadata: Shown::value("metadata", block.metadata.to_vec()),
        content: Shown::value("content", block.content.to_vec()),
    }
}

fn unknown_graph(graph: &str) -> Problem {
    Problem::not_found(format!("there is no graph {graph:?}"))
}

fn unknown_block(graph: &str, block: &str) -> Problem {
    Problem::not_found(format!("there is no block {block:?} in graph {graph:?}"))
}
