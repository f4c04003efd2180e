//! Graphs: blocks and lists of them, neighbours and walks, changes, import and export.
//!
//! Reads see the graph as of one position: the last one, or the one in the parameter `at`.

pub(crate) mod blocks;
pub(crate) mod changes;
pub(crate) mod edge;
mod filter;
pub(crate) mod get;
pub(crate) mod neighbours;
pub(crate) mod transfer;
pub(crate) mod walks;

use std::sync::Arc;

use axum::extract::State;
use quire::graph::BlockId;
use quire::{Database, GraphSnapshot, Operation, Position, Resource, ResourceKind};
use quire_api::reply::{GraphReply, MemoryReply, OneGraph};
use quire_api::{Failure, ListPage};

use crate::app::App;
use crate::error::Problem;
use crate::memory::Claim;
use crate::params::{Params, PathNames, parse};
use crate::response::JsonResponse;

pub(crate) use blocks::{block, list, missing, put as put_block, versions};
pub(crate) use changes::{changes, subscribe};
pub(crate) use edge::edge;
pub(crate) use get::{exists, get};
pub(crate) use neighbours::{degree, neighbours};
pub(crate) use transfer::{IMPORT_BYTES_MAX, export, import};
pub(crate) use walks::{components, components_from, order, order_from, paths, walk};

/// The first `count_max` graphs by name, with their memory. Claims the memory of the list.
pub(crate) async fn first(
    database: &Database,
    count_max: usize,
    claim: &mut Claim,
) -> Result<Vec<(GraphReply, MemoryReply)>, Problem> {
    let graphs = database.read_permitted(|view| {
        let graphs = view.graphs.iter().filter(|(name, _)| view.shows(ResourceKind::Graph, name)).take(count_max).map(
            |(name, graph)| -> Result<_, Problem> {
                claim.grow(size_of::<(GraphReply, MemoryReply)>() + name.len())?;
                Ok((reply(name, graph), memory(graph)))
            },
        );
        graphs.collect::<Result<Vec<_>, _>>()
    })?;
    graphs.await?
}

fn reply(name: &str, graph: &quire::graph::Graph) -> GraphReply {
    GraphReply { graph: name.to_owned(), blocks: graph.block_count(), edges: graph.edge_count() }
}

fn memory(graph: &quire::graph::Graph) -> MemoryReply {
    MemoryReply { memory_bytes: graph.memory_bytes(), memory_mapped_bytes: graph.memory_lent_bytes() }
}

/// `GET /v1/graphs`: lists the graphs.
pub(crate) async fn graphs(State(app): State<Arc<App>>, params: Params) -> Result<JsonResponse, Problem> {
    params.end()?;
    let mut claim = app.memory.claim();
    let graphs = first(&app.database(), usize::MAX, &mut claim).await?.into_iter().map(|(graph, _)| graph);
    JsonResponse::within(claim, &ListPage::whole(graphs.collect()))
}

/// `GET /v1/graphs/{graph}`: the size of a graph.
pub(crate) async fn graph(
    State(app): State<Arc<App>>,
    PathNames(graph): PathNames<String>,
    params: Params,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    let resource = Resource::new(ResourceKind::Graph, &graph);
    let found = app.database().read_for(resource, Operation::Describe, |view| {
        let found = view.graphs.graph(&graph)?;
        let position = view.position.get();
        let (retention, history_from) = (found.retention(), found.history_from().get());
        Some(OneGraph {
            memory: memory(found),
            graph: reply(&graph, found),
            history_ms: retention.history_ms,
            versions: retention.versions.max(1),
            history_from,
            position,
        })
    })?;
    JsonResponse::of(&app.memory, &found.await?.ok_or_else(|| unknown_graph(&graph))?)
}

/// The graph as of the parameter `at`, or its current state.
fn snapshot(database: &Database, graph: &str, at: Option<Position>) -> Result<GraphSnapshot, Problem> {
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

/// The parameter `count`: whether to return a number instead of a list, which has no `limit`.
fn is_count(params: &mut Params) -> Result<bool, Problem> {
    let is_count = params.one("count")?.unwrap_or(false);
    if is_count && params.one::<String>("limit")?.is_some() {
        return Err(Problem::invalid("count=true returns no list: leave limit out"));
    }
    Ok(is_count)
}

/// The id of a block that a request names, or, with `by=id`, gives.
fn block_id(is_by_id: bool, block: &str) -> Result<BlockId, Problem> {
    if is_by_id { parse("block id", block) } else { Ok(BlockId::of_name(block)) }
}

/// The name by which a request names a block.
fn given_name(is_by_id: bool, block: &str) -> Option<&str> {
    Some(block).filter(|_| !is_by_id)
}

/// The name of a block; `None` when it has none, or does not exist.
fn name(snapshot: &GraphSnapshot, id: BlockId) -> Result<Option<String>, Problem> {
    Ok(snapshot.block(id, |block| block.name.map(str::to_owned))?.flatten())
}

fn unknown_graph(graph: &str) -> Problem {
    Problem::not_found(format!("unknown graph {graph:?}"))
}

/// The refusal of a read at a block that the graph does not have.
fn unknown_block(snapshot: &GraphSnapshot, id: BlockId, name: Option<&str>) -> Problem {
    Failure::of_unknown_block(snapshot.unknown_block(id, name)).into()
}
