//! Graphs of a server.

use quire::graph::Direction;
use quire_client::Client;
use quire_client::reply::{BlockReply, NeighbourReply, PartReply, VisitReply};

use crate::errors::CallError;

/// The most items of an answer.
const ITEMS_MAX: usize = 10_000;

/// The edges to follow.
pub(crate) struct EdgeFilter {
    pub(crate) direction: Direction,
    pub(crate) types: Vec<String>,
}

impl EdgeFilter {
    fn query(&self) -> Vec<(&'static str, String)> {
        let direction = match self.direction {
            Direction::Outgoing => "outgoing",
            Direction::Incoming => "incoming",
            Direction::Both => "both",
        };
        let types = self.types.iter().map(|edge_type| ("type", edge_type.clone()));
        [("direction", direction.to_owned())].into_iter().chain(types).collect()
    }
}

fn borrowed<'q>(query: &'q [(&'static str, String)]) -> Vec<(&'q str, &'q str)> {
    query.iter().map(|(name, value)| (*name, &**value)).collect()
}

/// The block of a name; `None` when the graph has none.
pub(crate) fn block(client: &Client, graph: &str, name: &str) -> Result<Option<BlockReply>, CallError> {
    Ok(client.blocks(graph, &[name])?.pop().flatten())
}

/// The neighbours of a block, at most `limit`.
pub(crate) fn neighbours(
    client: &Client,
    graph: &str,
    name: &str,
    edges: &EdgeFilter,
    limit: usize,
) -> Result<Vec<NeighbourReply>, CallError> {
    let mut query = edges.query();
    query.push(("limit", limit.clamp(1, ITEMS_MAX).to_string()));
    let found = client.list(&["graphs", graph, "blocks", name, "neighbours"], &borrowed(&query));
    Ok(found.take(limit).collect::<Result<_, _>>()?)
}

/// The blocks that edges reach from a start, the nearest first.
pub(crate) fn walk(
    client: &Client,
    graph: &str,
    start: &str,
    edges: &EdgeFilter,
    depth: usize,
    limit: usize,
) -> Result<Vec<VisitReply>, CallError> {
    let mut query = edges.query();
    query.push(("depth", depth.to_string()));
    query.push(("visited", limit.to_string()));
    query.push(("limit", limit.to_string()));
    Ok(client.walk(graph, start, &borrowed(&query))?.visits)
}

/// The blocks of a shortest path; `None` when there is no path.
pub(crate) fn path(
    client: &Client,
    graph: &str,
    (start, end): (&str, &str),
    edges: &EdgeFilter,
    depth: usize,
) -> Result<Option<Vec<VisitReply>>, CallError> {
    let mut query = edges.query();
    query.push(("depth", depth.to_string()));
    Ok(client.paths(graph, start, end, &borrowed(&query))?.paths.into_iter().next())
}

/// The version of a block that was put, and whether it is new.
pub(crate) fn put(reply: Option<PartReply<'_>>) -> Option<(u64, bool)> {
    match reply {
        Some(PartReply::BlockPut { version, created, .. }) => Some((version, created)),
        _ => None,
    }
}
