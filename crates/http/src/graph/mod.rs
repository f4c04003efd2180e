//! Graphs: blocks and lists of them, neighbours and walks, changes, import and export.
//!
//! Reads look at the graph as of one position: the last one, or the one that the parameter `at` gives.

mod blocks;
mod changes;
mod edge;
mod filter;
mod get;
mod neighbours;
mod transfer;
mod walks;

use std::sync::Arc;

use axum::extract::State;
use quire::graph::BlockId;
use quire::{Database, GraphSnapshot, Position};
use serde::Serialize;

use crate::answer::Answer;
use crate::app::App;
use crate::error::Problem;
use crate::params::{Named, Params, parse};

pub(crate) use blocks::{block, list, missing, versions};
pub(crate) use changes::{changes, subscribe};
pub(crate) use edge::edge;
pub(crate) use get::{exists, get};
pub(crate) use neighbours::{degree, neighbours};
pub(crate) use transfer::{IMPORT_BYTES_MAX, export, import};
pub(crate) use walks::{components, order, paths, walk};

/// A graph, and how large it is.
#[derive(Debug, Serialize)]
pub(crate) struct GraphReply {
    pub(crate) graph: String,
    pub(crate) blocks: usize,
    pub(crate) edges: usize,
    /// For the metrics.
    #[serde(skip)]
    pub(crate) memory: MemoryReply,
}

/// What is kept of a graph in memory.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct MemoryReply {
    pub(crate) memory_bytes: usize,
    /// What of that is mapped, beyond the bound on the heap.
    pub(crate) memory_mapped_bytes: usize,
}

#[derive(Debug, Serialize)]
struct Graphs {
    graphs: Vec<GraphReply>,
}

#[derive(Debug, Serialize)]
struct OneGraph {
    #[serde(flatten)]
    graph: GraphReply,
    #[serde(flatten)]
    memory: MemoryReply,
    /// How long it can be read as it was; for ever when it is null.
    history_ms: Option<u64>,
    /// How many versions of each block are kept, however old.
    versions: u64,
    /// The first position as of which it can be read.
    history_from: u64,
    position: u64,
}

/// Every graph.
pub(crate) async fn all(app: &App) -> Result<Vec<GraphReply>, Problem> {
    let graphs = app.database.read(|view| {
        let graphs = view.graphs.iter().map(|(name, graph)| reply(name, graph));
        graphs.collect::<Vec<_>>()
    })?;
    Ok(graphs.await?)
}

fn reply(name: &str, graph: &quire::graph::Graph) -> GraphReply {
    GraphReply {
        graph: name.to_owned(),
        blocks: graph.block_count(),
        edges: graph.edge_count(),
        memory: MemoryReply { memory_bytes: graph.memory_bytes(), memory_mapped_bytes: graph.memory_lent_bytes() },
    }
}

/// `GET /v1/graphs`: the graphs.
pub(crate) async fn graphs(State(app): State<Arc<App>>, params: Params) -> Result<Answer, Problem> {
    params.end()?;
    Answer::of(&app.memory, &Graphs { graphs: all(&app).await? })
}

/// `GET /v1/graph/{graph}`: how large a graph is.
pub(crate) async fn graph(
    State(app): State<Arc<App>>,
    Named(graph): Named<String>,
    params: Params,
) -> Result<Answer, Problem> {
    params.end()?;
    let found = app.database.read(|view| {
        let found = view.graphs.graph(&graph)?;
        let position = view.position.get();
        let (retention, history_from) = (found.retention(), found.history_from().get());
        let graph = reply(&graph, found);
        Some(OneGraph {
            memory: graph.memory,
            graph,
            history_ms: retention.history_ms,
            versions: retention.versions.max(1),
            history_from,
            position,
        })
    })?;
    Answer::of(&app.memory, &found.await?.ok_or_else(|| unknown_graph(&graph))?)
}

/// The graph as of the parameter `at`, or as it is.
fn snapshot<'a>(database: &'a Database, graph: &'a str, at: Option<Position>) -> Result<GraphSnapshot<'a>, Problem> {
    let handle = database.graph(graph);
    let found = at.map_or_else(|| handle.snapshot(), |at| handle.snapshot_at(at))?;
    found.ok_or_else(|| unknown_graph(graph))
}

/// The parameter `at`: the position to read at.
fn position(params: &mut Params) -> Result<Option<Position>, Problem> {
    Ok(params.one("at")?.map(Position::new))
}

/// Whether blocks are given by their ids: the parameter `by`.
fn is_by_id(params: &mut Params) -> Result<bool, Problem> {
    Ok(params.word("by", &[("name", false), ("id", true)])?.unwrap_or(false))
}

/// The id of a block, which a request names, or, with `by=id`, gives.
fn block_id(is_by_id: bool, block: &str) -> Result<BlockId, Problem> {
    if is_by_id { parse("a block's id", block) } else { Ok(BlockId::of_name(block)) }
}

/// The name of a block; `None` when it has none, or is not there.
fn name(snapshot: &GraphSnapshot<'_>, id: BlockId) -> Result<Option<String>, Problem> {
    Ok(snapshot.block(id, |block| block.name.map(str::to_owned))?.flatten())
}

fn unknown_graph(graph: &str) -> Problem {
    Problem::not_found(format!("there is no graph {graph:?}"))
}

fn unknown_block(graph: &str, block: &str) -> Problem {
    Problem::not_found(format!("there is no block {block:?} in graph {graph:?}"))
}
