//! Iterates over a graph as of one position: every block, and then every edge by its source.
//!
//! An edge put with `allow_missing` may have a source without a block, which no list of blocks
//! contains: see [`GraphSnapshot::missing_sources`].
//!
//! Neighbours are ordered by when the graph first saw the types of their edges. An import sees the
//! types in the order of the file. So one edge of each type, in the order of the types, precedes
//! the others.

use std::collections::HashMap;

use quire::GraphSnapshot;
use quire::graph::{BlockId, Direction, End, ListCursor, ListPlan, Neighbour, Wants};

use super::item::{BlockItem, EdgeItem, EndItem, Item};
use crate::error::Problem;

/// How many neighbours are read before writers get their turn.
const AT_ONCE: usize = 1_000;

/// Passes every block, and then every edge, of the graph as of the snapshot. Ends with the first
/// error of `take`.
pub(super) fn each(snapshot: &GraphSnapshot, take: &mut dyn FnMut(Item) -> Result<(), Problem>) -> Result<(), Problem> {
    let mut sources = Vec::new();
    let mut refused = None;
    // An edge stores the ids of its ends; the file has their names.
    let mut names: HashMap<[u8; 16], String> = HashMap::new();
    let next = snapshot.list(&ListPlan::default(), ListCursor::START, None, |block| {
        sources.push(block.id);
        if let Some(name) = block.name {
            names.insert(*block.id.as_bytes(), name.to_owned());
        }
        match take(Item::Block(BlockItem::of(block))) {
            Ok(()) => Wants::Continue(()),
            Err(problem) => {
                refused = Some(problem);
                Wants::Break(())
            }
        }
    })?;
    if let Some(refused) = refused {
        return Err(refused);
    }
    assert_eq!(next, None, "the walk was not interrupted");
    sources.extend(snapshot.missing_sources()?);
    let end = |id: BlockId| names.get(id.as_bytes()).cloned().map_or(EndItem::Id(id), EndItem::Name);
    let mut take_edge = |source: BlockId, edge_type: &str, target: BlockId| {
        let properties = snapshot.edge(source, edge_type, target, |edge| edge.properties.to_vec())?;
        let (edge_type, properties) = (edge_type.to_owned(), properties.unwrap_or_default());
        take(Item::Edge(EdgeItem { source: end(source), edge_type, target: end(target), properties }))
    };
    let edge_types: Vec<String> = snapshot.look(|graph| Ok(graph.edge_types().map(str::to_owned).collect()))?;
    let firsts = firsts(snapshot, &sources, edge_types.len())?;
    for edge_type in &edge_types {
        if let Some((source, target)) = firsts.get(edge_type) {
            take_edge(*source, edge_type, *target)?;
        }
    }
    for source in sources {
        each_neighbour(snapshot, source, Direction::Outgoing, |edge_type, target| {
            if firsts.get(edge_type) == Some(&(source, target)) { Ok(()) } else { take_edge(source, edge_type, target) }
        })?;
    }
    Ok(())
}

/// One edge of each used type, by type: source and target of the first one of these sources.
/// There are at most `limit` types.
fn firsts(
    snapshot: &GraphSnapshot,
    sources: &[BlockId],
    types: usize,
) -> Result<HashMap<String, (BlockId, BlockId)>, Problem> {
    let mut firsts = HashMap::new();
    for source in sources {
        if firsts.len() == types {
            break;
        }
        each_neighbour(snapshot, *source, Direction::Outgoing, |edge_type, target| {
            if !firsts.contains_key(edge_type) {
                firsts.insert(edge_type.to_owned(), (*source, target));
            }
            Ok(())
        })?;
    }
    Ok(firsts)
}

/// Visits the type of each edge of a block in a direction, and the block at its other end, in
/// order.
fn each_neighbour(
    snapshot: &GraphSnapshot,
    block: BlockId,
    direction: Direction,
    mut show: impl FnMut(&str, BlockId) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let end = if direction == Direction::Outgoing { End::Target } else { End::Source };
    let mut after: Option<(BlockId, String)> = None;
    loop {
        let behind = after.as_ref().map(|(block, edge_type)| Neighbour { block: *block, edge_type, end });
        let found = snapshot
            .neighbours(block, direction, &[], behind, AT_ONCE, |found| (found.block, found.edge_type.to_owned()))?;
        found.iter().try_for_each(|(other, edge_type)| show(edge_type, *other))?;
        if found.len() < AT_ONCE {
            return Ok(());
        }
        after = found.into_iter().next_back();
    }
}
